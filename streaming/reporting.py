"""What a batch did and how long it took, as the fields of its log line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.matching import CHANGE, DEAD, DELIVER, EVENTS, MANY, PROGRESS, REFUSED
from streaming.metrics import STAGES, TOTAL, Latencies, by_stage


@dataclass
class Report:
    number: int
    false_positives: float
    start: float = field(default_factory=time.time)  # epoch s
    committed: float = 0.0  # the last transaction; 0: none
    rows: int = 0
    bytes: int = 0  # of them
    events: int = 0  # among them
    waited_ms: float = 0.0  # the oldest event
    _counts: Counter[str] = field(default_factory=Counter)
    _spent_ms: Counter[str] = field(default_factory=Counter)
    _latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})

    def took(self, what: str, since: float) -> None:
        self._spent_ms[what] += 1000 * (time.time() - since)  # type: ignore[assignment]

    def add(
        self, rows: Sequence[Mapping[str, Any]], delivered: int, matched: float, sent: float, committed: float
    ) -> None:
        """A transaction: its rows, how many deliveries it has, and when its stages ended (epoch s)."""
        self.committed = committed
        matches = [r["timestamp"] for r in rows if r["kind"] in (DELIVER, MANY)]
        times = {"start": self.start, "match": matched, "publish": sent, "commit": committed}
        for stage, found in by_stage(matches, times).items():
            self._latencies[stage].update(found)
        for row in rows:
            if row["kind"] != PROGRESS:
                continue
            self.rows += row["rows"]
            self.bytes += row["bytes"]
            if row["source"] == EVENTS:
                self.events += row["rows"]
                self.waited_ms = max(self.waited_ms, self.start * 1000 - row["timestamp"])
        kinds = Counter(row["kind"] for row in rows)
        self._counts["matched"] += len(matches)
        self._counts["deliveries"] += delivered
        for name, kind in (("undecodable", DEAD), ("changes", CHANGE), ("refused", REFUSED)):
            self._counts[name] += kinds[kind]

    def fields(self) -> dict[str, Any]:
        self.took("batch_ms", self.start)
        return {
            "batch": self.number,
            "events": self.events,
            **self._counts,
            "false_positives": self.false_positives,
            **{name: round(ms, 1) for name, ms in self._spent_ms.items()},
            "latency_ms": self._latencies[TOTAL].summary(),
            "latencies": {stage: found.to_json() for stage, found in self._latencies.items()},
        }
