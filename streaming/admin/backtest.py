"""Match past events against a pattern before anybody subscribes to it. Nothing is written."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException

from streaming.admin.replay_batch import matching_of
from streaming.documents.subscriptions import read_change
from streaming.kafka import times
from streaming.kafka.clients import Cluster
from streaming.kafka.errors import translate
from streaming.kafka.event_topics import resolved
from streaming.kafka.times import Span
from streaming.publishing.connection.client import Client
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.rows import sorted_by_topic
from streaming.source_topics import SourceTopics
from streaming.text_format import as_text_or_base64, cut, plain, time_of
from streaming.worker.events.matches import EventMatching

if TYPE_CHECKING:
    from config.model import Settings

NAME = "backtest"  # of the subscription
STEPS_S = (1, 10, 60, 600, 3_600, 86_400, 7 * 86_400)  # lengths of the lines in a report
MOST_LINES = 60
POLL_S = 0.1
WIDTH = 100  # characters of an example's value


@dataclass(frozen=True)
class Example:
    """An event that the pattern matches."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes

    def as_data(self) -> dict[str, Any]:
        at = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        return {**at, "timestamp": time_of(self.timestamp_ms, "T"), **as_text_or_base64("value", self.value)}

    def __str__(self) -> str:
        shown = cut(plain(self.value.decode(errors="replace"), quoted=False), WIDTH)
        return f"{self.partition}:{self.offset}  {time_of(self.timestamp_ms)}  {shown}"


@dataclass
class Backtest:
    """The result of a backtest: counts of matching events, in total and by time, and the first matches."""

    topics: Sequence[str]
    span_ms: Span  # range of times: from, to
    step_s: int = STEPS_S[0]  # length of a step of `by_step`
    events: int = 0
    matched: int = 0
    unread: int = 0  # records that are too large or not events
    deleted: int = 0  # offsets that retention deleted before they were read
    by_step: dict[int, Counter[str]] = field(default_factory=dict)  # begin (epoch s) -> counts
    examples: list[Example] = field(default_factory=list)
    finished: bool = False

    def add(self, rows: pa.RecordBatch, matching: EventMatching, most_examples: int) -> None:
        matches = matching(rows)
        is_matched = matches.total > 0
        self.events += len(rows)
        self.matched += int(np.count_nonzero(is_matched))
        self.unread += len(matches.dead)
        timestamp = np.asarray(rows["timestamp"])
        is_within = (timestamp >= self.span_ms[0]) & (timestamp < self.span_ms[1])
        for name, which in (("events", is_within), ("matched", is_within & is_matched)):
            begins = timestamp[which] // (1_000 * self.step_s) * self.step_s
            for begin, number in zip(*np.unique(begins, return_counts=True), strict=True):
                self.by_step.setdefault(int(begin), Counter())[name] += int(number)
        self._lengthen()
        columns = [rows[name] for name in ("source", "partition", "offset", "timestamp", "value")]
        for row in np.flatnonzero(is_matched)[: most_examples - len(self.examples)].tolist():
            source, *facts = (column[row].as_py() for column in columns)
            topic, _ = matching.topics[source]
            self.examples.append(Example(topic, *facts))

    def _lengthen(self) -> None:
        """Make steps so long that there are not too many."""
        longer = [step_s for step_s in STEPS_S if step_s > self.step_s]
        while len(self.by_step) > MOST_LINES and longer:
            self.step_s, steps = longer.pop(0), self.by_step
            self.by_step = {}
            for begin, numbers in steps.items():
                self.by_step.setdefault(begin // self.step_s * self.step_s, Counter()).update(numbers)

    def as_data(self) -> dict[str, Any]:
        return {
            "topic": ", ".join(self.topics),
            "events": self.events,
            "matched": self.matched,
            "unread": self.unread,
            "deleted": self.deleted,
            "step_s": self.step_s,
            "steps": [
                {"from": time_of(1_000 * begin, "T"), "events": n["events"], "matched": n["matched"]}
                for begin, n in sorted(self.by_step.items())
            ],
            "examples": [example.as_data() for example in self.examples],
            "finished": self.finished,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        share = f" ({100 * self.matched / self.events:.3g} %)" if self.events else ""
        unread = f"; {self.unread:,} could not be read" if self.unread else ""
        deleted = f"; {self.deleted:,} offsets deleted before they were read" if self.deleted else ""
        yield f"{self.matched:,} of {self.events:,} events in {', '.join(self.topics)} match{share}{unread}{deleted}"
        if self.by_step:
            yield f"{'FROM (UTC)':20} {'EVENTS':>10} {'MATCH':>10}"
        for begin, n in sorted(self.by_step.items()):
            yield f"{time_of(1_000 * begin)[:19]:20} {n['events']:>10,} {n['matched']:>10,}"
        for example in self.examples:
            yield f"{example.topic} {example}" if len(self.topics) > 1 else str(example)


def run(
    settings: Settings,
    pattern: Any,
    from_ms: int,
    to_ms: int | None,
    most_examples: int,
    stop: threading.Event,
    progress: Callable[[int], object],
) -> Backtest:
    """Match the events from one time to before another, or to the present end of the topic.

    `progress` is called with the number of offsets done. Raises Rejected for a pattern that the job would reject, and
    JobError.
    """
    # orjson has no integers beyond 64 bits
    document = json.dumps({"id": NAME, "subscriber": NAME, "pattern": pattern}).encode()
    read_change(None, document)
    cluster, kafka = Cluster.of(settings), settings.kafka
    settings = resolved(settings, cluster.topics().partitions)
    topics, matching = settings.events.names, matching_of(settings, NAME, document)
    try:
        there = cluster.topics().required(topics)
        with closing(cluster.reader()) as consumer:
            bounds = times.bounds(consumer, [(topic, p) for topic, n in there.items() for p in range(n)])
            spans = times.between(consumer, bounds, from_ms, to_ms)
    except KafkaException as error:
        raise translate(error.args[0], f"{', '.join(topics)} cannot be read") from error
    begins = {at: Position(begin) for at, (begin, end) in spans.items() if begin < end}
    ends = {at: end for at, (_, end) in spans.items()}
    found = Backtest(topics, (from_ms, int(1_000 * time.time()) if to_ms is None else to_ms))
    client = Client(kafka.bootstrap_servers, kafka.client)
    with closing(Fetcher(client, SourceTopics.of(settings).sources, begins, ends=ends)) as fetcher:
        while not fetcher.is_done() and not stop.is_set():
            read = fetcher.poll(POLL_S)
            if read is not None:
                found.add(sorted_by_topic(read.rows), matching, most_examples)
            progress(sum(position.offset - begins[at].offset for at, position in fetcher.positions.items()))
        found.deleted = fetcher.deleted.total()
        found.finished = fetcher.is_done()
    return found
