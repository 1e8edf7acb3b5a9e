"""Say of a series whether it grows: a straight line through its second half, and whether that is more than noise.

A jump at the very end hardly moves the line. So the last stretch of the half may not lie far above the others, either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MEANS = 12  # the half is divided into so many; a saw whose teeth are shorter is level in them
LEAST = 4  # with fewer nothing is said
SURE = 3.0  # standard errors
SMALL = 0.02  # of the level: who rises less in the half is flat, however surely
JUMP = 0.1  # of the level, by which the last stretch may lie above all others, or by as much as these differ
PROCESS_SERIES = ("resident_mb", "threads", "descriptors")  # PSS moves with what other programs share


@dataclass(frozen=True)
class Growth:
    of: str  # a kind of process, disk, latency, ...
    figure: str
    level: float  # the median of the second half
    per_hour: float
    flat: bool | None  # None if the run was too short to say

    def words(self) -> str:
        if self.flat is None:
            return "too short"
        if self.flat:
            return "flat"
        return f"{'grows' if self.per_hour > 0 else 'falls'} by {abs(self.per_hour):,.3g}/h"

    def as_data(self) -> dict[str, Any]:
        """JSON."""
        return {name: round(x, 3) if isinstance(x, float) else x for name, x in asdict(self).items()}


def growth(of: str, figure: str, at_s: Sequence[float], values: Sequence[float | None]) -> Growth:
    """Find the growth of a series with gaps. Neighbours are not independent, as caches fill and garbage is collected in
    rounds, so the means of stretches decide."""
    points = [(t, v) for t, v in zip(at_s, values, strict=True) if v is not None]
    half = np.array(points[len(points) // 2 :], float).reshape(-1, 2)
    if len(half) < 2 * LEAST:
        return Growth(of, figure, float(np.median(half[:, 1])) if len(half) else 0.0, 0.0, None)
    t, v = np.array([part.mean(axis=0) for part in np.array_split(half, min(MEANS, len(half) // 2))]).T
    slope, start = np.polyfit(t - t[0], v, 1)
    spread = np.sqrt(((v - start - slope * (t - t[0])) ** 2).sum() / (len(t) - 2) / ((t - t.mean()) ** 2).sum())
    level, rise = float(np.median(half[:, 1])), abs(slope) * (half[-1, 0] - half[0, 0])
    flat = bool(abs(slope) <= SURE * spread or rise <= SMALL * abs(level))
    *others, last = v
    if flat and last - max(others) > max(JUMP * abs(level), max(others) - min(others)):
        return Growth(of, figure, level, float((last - np.median(others)) / (t[-1] - t[0])) * 3600, False)
    return Growth(of, figure, level, float(slope) * 3600, flat)


def of_samples(samples: Sequence[Mapping[str, Any]]) -> Iterator[Growth]:
    """Yield the growth of each process, of the disk, and of latencies. A process that comes and goes counts while it is
    there."""
    at_s = [sample["at_s"] for sample in samples]
    for kind in _names(samples, "processes"):
        for name in PROCESS_SERIES:
            values = [sample["processes"].get(kind, {}) for sample in samples]
            yield growth(kind, name, at_s, [v[name] if v.get("processes") else None for v in values])
    for kind in _names(samples, "disk_mb"):
        yield growth("disk", f"{kind}_mb", at_s, [sample["disk_mb"].get(kind) for sample in samples])
    for q in ("p50", "p99", "max"):
        yield growth("latency", f"{q}_ms", at_s, [sample["latency_ms"][q] for sample in samples])
    yield growth("lag", "events", at_s, [sample["lag"] for sample in samples])


def _names(samples: Sequence[Mapping[str, Any]], what: str) -> list[str]:
    return list(dict.fromkeys(name for sample in samples for name in sample[what]))
