"""Latencies by stage, in histograms that can be added up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import ceil, exp, floor, log

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int64

# Bucket b holds (GROWTH ** (b - 1), GROWTH ** b] milliseconds, so a quantile is at most 2 % too high.
GROWTH = 1.02
_LOG = log(GROWTH)

STAGES = ("wait", "match", "publish", "commit")
TOTAL = "total"  # from the event's Kafka timestamp to the commit of its delivery: all stages together

# A producer may claim any time. Only one between these is the time when an event was written, and shows how late it is.
OLDEST_MS = 366 * 86_400_000  # before now
NEWEST_MS = 3_600_000  # after now: brokers reject later timestamps by default


@dataclass
class Latencies:
    """A histogram of milliseconds."""

    counts: dict[int, int] = field(default_factory=dict)
    max_ms: float = 0.0
    sum_ms: float = 0.0

    def add(self, ms: float, times: int = 1) -> None:
        bucket = ceil(log(ms) / _LOG) if ms > 1 else 0
        self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.max_ms = max(self.max_ms, ms)
        self.sum_ms += ms * times

    def extend(self, ms: Float64) -> None:
        """Add each of these latencies."""
        if not len(ms):
            return
        buckets, times = np.unique(np.ceil(np.log(np.maximum(ms, 1.0)) / _LOG).astype(int), return_counts=True)
        counts = dict(zip(buckets.tolist(), times.tolist(), strict=True))
        self.update(Latencies(counts, float(ms.max()), float(ms.sum())))

    def update(self, other: Latencies) -> None:
        for bucket, times in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + times
        self.max_ms = max(self.max_ms, other.max_ms)
        self.sum_ms += other.sum_ms

    def plus(self, other: Latencies) -> Latencies:
        """The sum as a new histogram; neither is modified."""
        total = Latencies(dict(self.counts), self.max_ms, self.sum_ms)
        total.update(other)
        return total

    def below(self, bounds_ms: Sequence[float]) -> list[int]:
        """The number of latencies at or below each of the ascending bounds, and the total. A bucket counts at its upper
        end, so a latency less than 2 % below a bound may count at the next bound."""
        ends = [floor(log(bound) / _LOG + 1e-9) for bound in bounds_ms]
        counts = [0] * (len(ends) + 1)
        for bucket, times in self.counts.items():
            counts[bisect_left(ends, bucket)] += times
        return list(accumulate(counts))

    def quantile(self, q: float) -> float | None:
        """The smallest bucket end at or above a share `q` of the latencies; None if there are none."""
        wanted = q * sum(self.counts.values())
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(exp(bucket * _LOG), self.max_ms)
        return None

    def summary(self) -> dict[str, float | None]:
        quantiles = {f"p{round(100 * q)}": self.quantile(q) for q in (0.5, 0.95, 0.99)}
        summary = {**quantiles, "max": self.max_ms if self.counts else None}
        return {name: None if ms is None else round(ms, 1) for name, ms in summary.items()}

    def to_json(self) -> dict[str, object]:
        facts = {"max": round(self.max_ms, 1), "sum": round(self.sum_ms, 1)}
        return {"buckets": {str(b): n for b, n in sorted(self.counts.items())}, **facts}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Latencies:
        buckets = document["buckets"]
        assert isinstance(buckets, dict)
        most, total = (float(str(document[name])) for name in ("max", "sum"))
        return cls({int(b): int(n) for b, n in buckets.items()}, most, total)


def credible(timestamps_ms: Float64, now_s: float) -> NDArray[np.bool_]:
    """Return which timestamps can be the time of a write: within the last year, at most an hour in the future."""
    late_ms = 1000 * now_s - timestamps_ms
    return (late_ms <= OLDEST_MS) & (late_ms >= -NEWEST_MS)


def by_stage(timestamps_ms: Sequence[int] | Int64, taken: float, ended: Sequence[float]) -> dict[str, Latencies]:
    """Latencies of a transaction's delivered events, without those whose timestamps are not credible.

    `taken` is when the batch began, or the task had read the events, and `ended` are the ends of the stages "match",
    "publish" and "commit" (epoch s). An event waits from its own timestamp until it is taken; the rest all share.
    """
    latencies = {stage: Latencies() for stage in (*STAGES, TOTAL)}
    ends = zip(STAGES[1:], pairwise((taken, *ended)), strict=True)
    shared = {stage: max(0.0, end - begin) for stage, (begin, end) in ends}  # clocks of two machines may differ
    timestamps = np.array(timestamps_ms, np.float64)
    timestamps = timestamps[credible(timestamps, taken)]
    for stage, end in (("wait", taken), (TOTAL, ended[-1])):
        latencies[stage].extend(np.maximum(0.0, end * 1000 - timestamps))
    if len(timestamps):
        for stage, seconds in shared.items():
            latencies[stage].add(seconds * 1000, len(timestamps))
    return latencies
