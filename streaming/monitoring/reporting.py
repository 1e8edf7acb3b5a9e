"""The report of a batch: counts and times."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streaming.documents.records import OF_EVENTS
from streaming.documents.trace_context import TRACED_EVENTS
from streaming.latencies import STAGES, TOTAL, Latencies
from streaming.monitoring.metrics import COUNTED, STATE
from streaming.rows import (
    AcceptedChange,
    DeadLetter,
    Published,
    ReadProgress,
    RejectedChange,
    Row,
    SourcePartition,
    is_events,
)

LOGGED = ("prepare", "apply")  # stages; the latencies have the others
FIELDS = {metric.key: metric.logged for metric in (*COUNTED, *STATE) if metric.logged}  # of counts, in the log line


class Stage(NamedTuple):
    """A stage of a batch with its times. A batch may have the same stage several times."""

    name: str
    began: float  # epoch s
    ended: float
    failed: str = ""  # the reason, if it did
    parts: tuple[Stage, ...] = ()


class CommittedTransaction(NamedTuple):
    """A committed transaction: its rows and the times of its steps."""

    rows: Sequence[Row]
    dead_letters: Mapping[str, int]  # by reason
    aborted: int  # attempts before
    began: float  # epoch s
    sent: float
    committed: float
    applied: float  # its changes were taken into account


def no_counts() -> Counter[str]:
    return Counter({total.key: 0 for total in COUNTED})


@dataclass
class Report:
    number: int
    false_positives: float
    start: float = field(default_factory=time.time)  # epoch s
    ended: float = 0.0  # 0: it has not
    began_s: float = field(default_factory=time.monotonic)
    duration_s: float = 0.0  # at its end
    rows: int = 0
    bytes: int = 0  # of them
    partitions: int = 0  # that a task's transaction has records for, at most
    events: int = 0  # among them
    waited_ms: float = 0.0  # the oldest event
    # Partitions in which no event that is left to read has waited for longer.
    known: set[SourcePartition] = field(default_factory=set)
    behind: int = 0  # offsets of events that were there at the end, and not read
    counts: Counter[str] = field(default_factory=no_counts)
    dead_letters: Counter[str] = field(default_factory=Counter)  # by reason
    # Requests of tasks that failed at first, by "request ERROR".
    publish_errors: Counter[str] = field(default_factory=Counter)
    executors: Counter[str] = field(default_factory=Counter)  # deliveries, by Spark's id of the executor
    encoded_ms: float = 0.0  # of all tasks
    stages: list[Stage] = field(default_factory=list)  # in the order of their ends
    trace_contexts: list[dict[str, str]] = field(default_factory=list)  # of the first events that are delivered
    state: dict[str, int] = field(default_factory=dict)  # after it
    spent_ms: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began, failed = time.time(), ""
        try:
            yield
        except BaseException as error:
            failed = str(error) or type(error).__name__
            raise
        finally:
            self.stages.append(Stage(name, began, time.time(), failed))

    def saw(self, rows: Iterable[Row]) -> None:
        """Count what was read, by the PROGRESS rows."""
        for row in rows:
            if not isinstance(row, ReadProgress):
                continue
            self.rows += row.records
            self.bytes += row.size_bytes
            if is_events(row.source):
                self.events += row.records
                if row.timestamp_ms is not None:
                    self.waited_ms = max(self.waited_ms, self.start * 1000 - row.timestamp_ms)
                    self.known.add((row.source, row.partition))

    def add_task(self, published: Published) -> None:
        """Add what a task has published, which is part of the last stage."""
        publish = (
            Stage("publish", matched, committed, parts=(Stage("send", matched, sent), Stage("commit", sent, committed)))
            for matched, sent, committed in published.transactions
        )
        self.stages[-1] = self.stages[-1]._replace(parts=(*self.stages[-1].parts, *publish))
        for stage, latencies in published.latencies.items():
            self.latencies[stage].update(latencies)
        self.trace_contexts += map(dict, published.trace_contexts[: TRACED_EVENTS - len(self.trace_contexts)])
        self.counts["matched"] += published.events
        self.counts["matches"] += published.matches
        self.counts["deliveries"] += published.deliveries
        self.counts["over_quota"] += published.over_quota
        self.counts["transactions_aborted"] += published.aborted
        self.counts["undecodable"] += sum(published.dead_letters.get(reason, 0) for reason in OF_EVENTS)
        self.counts["slot_transactions"] += published.commits
        self.counts["published_bytes"] += published.size_bytes
        self.partitions = max(self.partitions, published.partitions)
        self.dead_letters.update(published.dead_letters)
        self.publish_errors.update(published.errors)
        self.executors[published.executor] += published.deliveries
        self.encoded_ms += 1000 * published.encoded_s

    def add(self, published: CommittedTransaction) -> None:
        """Add a transaction of the driver."""
        sent, committed = published.sent, published.committed
        parts = (Stage("send", published.began, sent), Stage("commit", sent, committed))
        self.stages.append(Stage("publish", published.began, committed, parts=parts))
        self.stages.append(Stage("apply", committed, published.applied))
        kinds = Counter(map(type, published.rows))
        for name, kind in (("undecodable", DeadLetter), ("changes", AcceptedChange), ("rejected", RejectedChange)):
            self.counts[name] += kinds[kind]
        self.counts["transactions_aborted"] += published.aborted
        self.dead_letters.update(published.dead_letters)

    def fields(self) -> dict[str, Any]:
        """The fields of the log line. Call it at the end of the batch."""
        self.ended, self.duration_s = time.time(), time.monotonic() - self.began_s
        for name in LOGGED:
            self.spent_ms[f"{name}_ms"] = 1000 * sum(max(0.0, s.ended - s.began) for s in self.stages if s.name == name)
        self.spent_ms["duration_ms"] = 1000 * self.duration_s
        return {
            "batch_id": self.number,
            "event_count": self.events,
            **{FIELDS[key]: count for key, count in self.counts.items()},
            "dead_letter_counts": dict(self.dead_letters),
            **({"publish_error_counts": by_request(self.publish_errors)} if self.publish_errors else {}),
            "false_positive_ratio": self.false_positives,
            **{name: round(ms, 1) for name, ms in self.spent_ms.items()},
            "encode_ms": round(self.encoded_ms, 1),
            "latency_ms": self.latencies[TOTAL].summary(),
            "latency_histograms": {stage: latencies.to_json() for stage, latencies in self.latencies.items()},
            **{FIELDS[key]: count for key, count in self.state.items()},
        }


def by_request(errors: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Numbers of "request ERROR", by request and error."""
    found: dict[str, dict[str, int]] = {}
    for name, number in errors.items():
        request, _, error = name.partition(" ")
        found.setdefault(request, {})[error] = number
    return found


class Observer:
    """Called by the thread that runs the batches, which waits for it. Does nothing by itself."""

    def doing(self, batch: int, stage: str) -> None:
        """A batch begins a stage (prepare, measure, match, publish), or continues with it."""

    def idle(self) -> None:
        """No batch is in hand until `doing` is called again."""

    def progressed(self) -> None:
        """A piece of a batch is done, tasks that hung were cancelled, or the driver has read some records itself."""

    def batch(self, report: Report) -> None:
        """A batch that had rows is done, and `report.fields` was called."""

    def deleted(self, events: int) -> None:
        """Some events of batches that are done were deleted before they could be read."""

    def counted(self, subscribers: bytes) -> None:
        """A task has committed what these `SubscriberCounts` count."""


class Observers(Observer):
    """Calls several observers in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def doing(self, batch: int, stage: str) -> None:
        for observer in self._observers:
            observer.doing(batch, stage)

    def idle(self) -> None:
        for observer in self._observers:
            observer.idle()

    def progressed(self) -> None:
        for observer in self._observers:
            observer.progressed()

    def batch(self, report: Report) -> None:
        for observer in self._observers:
            observer.batch(report)

    def deleted(self, events: int) -> None:
        for observer in self._observers:
            observer.deleted(events)

    def counted(self, subscribers: bytes) -> None:
        for observer in self._observers:
            observer.counted(subscribers)
