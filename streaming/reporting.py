"""What a batch did and how long it took, as the fields of its log line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from streaming import fan_out
from streaming.matching import CHANGE, DEAD, DELIVER, EVENTS, MANY, PROGRESS, REFUSED
from streaming.metrics import STAGES, TOTAL, Latencies, by_stage

Row = Mapping[str, Any]

COUNTED = (
    "matched",
    "matches",
    "deliveries",
    "undecodable",
    "changes",
    "refused",
    "over_quota",
    "workers_lost",
    "transactions_aborted",
)


class Published(NamedTuple):
    """A transaction that was committed: its rows as they were decided on, and when sending and committing ended."""

    rows: Sequence[Row]
    delivered: int
    over_quota: int
    dead_letters: Mapping[str, int]  # by reason
    aborted: int  # attempts before
    sent: float  # epoch s
    committed: float


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
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))
    dead_letters: Counter[str] = field(default_factory=Counter)  # by reason
    spent_ms: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})

    def took(self, what: str, since: float) -> None:
        self.spent_ms[what] = self.spent_ms.get(what, 0.0) + 1000 * (time.time() - since)

    def add(self, published: Published, matched: float) -> None:
        """A transaction, and when its matching ended (epoch s)."""
        self.committed = published.committed
        found = [r for r in published.rows if r["kind"] in (DELIVER, MANY)]
        times = {"start": self.start, "match": matched, "publish": published.sent, "commit": published.committed}
        for stage, latencies in by_stage([r["timestamp"] for r in found], times).items():
            self.latencies[stage].update(latencies)
        for row in published.rows:
            if row["kind"] != PROGRESS:
                continue
            self.rows += row["rows"]
            self.bytes += row["bytes"]
            if row["source"] == EVENTS:
                self.events += row["rows"]
                self.waited_ms = max(self.waited_ms, self.start * 1000 - row["timestamp"])
        kinds = Counter(row["kind"] for row in published.rows)
        self.counts["matched"] += len(found)
        self.counts["matches"] += _matches(found)
        self.counts["deliveries"] += published.delivered
        for name, kind in (("undecodable", DEAD), ("changes", CHANGE), ("refused", REFUSED)):
            self.counts[name] += kinds[kind]
        self.counts["over_quota"] += published.over_quota
        self.counts["transactions_aborted"] += published.aborted
        self.dead_letters.update(published.dead_letters)

    def fields(self) -> dict[str, Any]:
        self.took("batch_ms", self.start)
        return {
            "batch": self.number,
            "events": self.events,
            **self.counts,
            "dead_letters": dict(self.dead_letters),
            "false_positives": self.false_positives,
            **{name: round(ms, 1) for name, ms in self.spent_ms.items()},
            "latency_ms": self.latencies[TOTAL].summary(),
            "latencies": {stage: found.to_json() for stage, found in self.latencies.items()},
        }


class Observer(Protocol):
    """Told by the thread that runs the batches, which waits for it."""

    def progressed(self) -> None:
        """A piece of a batch is committed. A batch can have many."""

    def batch(self, report: Report) -> None:
        """A batch that had rows is done, and `report.fields` was called."""


class Nobody:
    def progressed(self) -> None: ...

    def batch(self, report: Report) -> None: ...


def _matches(rows: Iterable[Row]) -> int:
    """Pairs of an event and a subscription."""
    few = sum(len(orjson.loads(ids)) for row in rows for ids in row["subscriptions"])
    return few + sum(fan_out.size(row["matches"]) for row in rows if row["matches"])
