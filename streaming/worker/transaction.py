"""Compose one transaction of a task: where each delivery goes, what becomes a dead letter, and the record batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa

from matchers.contract.tables import Int64
from matchers.index.texts import Bools
from streaming.documents import records
from streaming.documents.records import Origin, Record
from streaming.documents.trace_context import TRACED_EVENTS, trace_context
from streaming.errors import BrokerUnreachable
from streaming.latencies import by_stage
from streaming.publishing.batch_limits import BatchLimits
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import ProducerEpoch, RecordBatches, TopicPartition
from streaming.publishing.encode import record_batches
from streaming.publishing.encode.columns import event_columns, offsets_behind
from streaming.publishing.encode.grouping import group
from streaming.publishing.encode.headers import headers_by_topic
from streaming.publishing.encode.interner import Interner
from streaming.publishing.encode.partitioner import partition_of, partitions_of
from streaming.publishing.encode.record_batches import Format, events_keys, subscribers_keys
from streaming.publishing.slot import Committed
from streaming.rows import CommitTimes, Published, consumer_records, topic_runs
from streaming.worker.events.matches import Matches
from streaming.worker.executor import executor
from streaming.worker.publication import Publication, Share
from streaming.worker.settings import TaskSettings
from streaming.worker.subscriber_counter import CountedDeliveries, CountedMatches

# The coordinator of a transaction notes all its topics in one record, which may have 1,048,588 bytes by default. Where
# they are too many, Kafka answers with an error that has no name, whatever is tried again.
MOST_TOPIC_BYTES = 800_000
TOPIC_BYTES, PARTITION_BYTES = 8, 4  # of a topic beside its name, and of each partition

SUBSCRIBERS = Interner()  # of this process


@dataclass
class MatchedBatch:
    """An Arrow batch of events, what they match, and what is needed to publish it."""

    settings: TaskSettings
    publication: Publication
    client: Client
    false_positives: float
    rows: pa.RecordBatch
    matches: Matches
    # Of `Quota.left`, what is left to the task.
    left: dict[Share, int]

    def __post_init__(self) -> None:
        self.columns = event_columns(self.rows)
        self.topics = [(self.settings.topics[source].name, begin, end) for source, begin, end in topic_runs(self.rows)]

    def trace_contexts(self, rows: Sequence[int]) -> Iterator[Mapping[str, str]]:
        """The trace contexts of these rows that have any."""
        lists = self.rows["headers"]
        for row in rows if len(lists.flatten()) else ():
            headers = {header["key"]: header["value"] for header in lists[row].as_py() or ()}
            if context := trace_context(headers):
                yield context


@dataclass
class Transaction:
    """The deliveries and dead letters of the rows begin .. end of a batch, and the offsets that they reach.

    It groups and measures the deliveries at once. `compose` decides about them, `pieces` encodes them for the slot, and
    `published` is called with the outcome. If the slot aborts, `compose` and `pieces` are called again.
    """

    batch: MatchedBatch
    begin: int
    end: int
    aborted: int = field(default=0, init=False)  # attempts
    destinations: list[TopicPartition] = field(default_factory=list, init=False)
    # Results of the last attempt.
    dead_letters: Counter[str] = field(default_factory=Counter, init=False)  # by reason
    letters_to: Counter[tuple[str, str]] = field(default_factory=Counter, init=False)  # by subscriber and reason
    encoded_s: float = field(default=0.0, init=False)
    counts: Published = field(default_factory=Published, init=False)  # complete once all pieces are made

    def __post_init__(self) -> None:
        batch, settings = self.batch, self.batch.settings
        rows, subscribers, ids = batch.matches.between(self.begin, self.end)
        self._matched = rows, SUBSCRIBERS.numbers(subscribers)
        self._deliveries = group(*self._matched, ids, len(batch.rows))
        self._headers = headers_by_topic(
            batch.columns,
            self._deliveries.event,
            batch.topics,
            batch.publication.version,
            false_positives=batch.false_positives,
        )
        self._keys = settings.rule.key(
            subscriber=subscribers_keys(SUBSCRIBERS.names, self._deliveries),
            event=events_keys(batch.columns, self._deliveries),
        )
        self._sizes = record_batches.sizes(batch.columns, self._headers, self._deliveries, self._keys)
        self._distinct, self._of = np.unique(self._deliveries.subscriber, return_inverse=True)  # [D] each
        self._names = SUBSCRIBERS.names.at(self._distinct)
        self._topics = [settings.rule.topic(name) for name in self._names]

    @classmethod
    def fitting(cls, batch: MatchedBatch, begin: int, end: int) -> Iterator[Transaction]:
        """The transactions of these rows, in their order: as few as have MOST_TOPIC_BYTES each, or one row."""
        whole = cls(batch, begin, end)
        if end - begin == 1 or whole.topic_bytes <= MOST_TOPIC_BYTES:
            yield whole
            return
        middle = (begin + end) // 2
        yield from cls.fitting(batch, begin, middle)
        yield from cls.fitting(batch, middle, end)

    @property
    def topic_bytes(self) -> int:
        """The most bytes that the names and partitions of its topics take where the coordinator notes them."""
        of_partitions = PARTITION_BYTES * self.batch.settings.partitions
        return sum(len(topic) + TOPIC_BYTES + of_partitions for topic in {*self._topics})

    @cached_property
    def offsets(self) -> Mapping[TopicPartition, int]:
        columns = self.batch.columns
        mine = ((topic, max(begin, self.begin), min(end, self.end)) for topic, begin, end in self.batch.topics)
        return offsets_behind(columns.partition, columns.offset, mine)

    def compose(self, rejected: Mapping[str, str]) -> set[str]:
        """Decide where each delivery goes; returns topics that are missing, or have fewer partitions than the driver
        counted; if there are any, nothing is decided.

        `rejected` maps topics for which the broker rejects records to its reason.
        """
        settings, publication = self.batch.settings, self.batch.publication
        told = publication.counts(self._topics, settings.partitions)
        there = self.batch.client.partitions({*told, settings.dead_letters}, told)
        absent = publication.absent - there.keys()
        if missing := {topic for topic, n in told.items() if there.get(topic, 0) < n} - absent:
            return missing
        counts = np.array([told[topic] if topic in there else 0 for topic in self._topics], np.int64)
        self.destinations, begin = [], {}
        for topic, n in zip(self._topics, counts.tolist(), strict=True):
            if topic not in begin:
                begin[topic] = len(self.destinations)
                self.destinations += [(topic, partition) for partition in range(n)]
        of_event = self.batch.columns.partition[self._deliveries.event]
        partition = settings.rule.partition(of_event, np.maximum(counts, 1)[self._of])
        if isinstance(partition, int):  # BY_KEY, in the one topic
            partition = partitions_of(SUBSCRIBERS.names.take(self._distinct), int(counts.max(initial=1)))[self._of]
        self._to = np.array([begin[topic] for topic in self._topics], np.int64)[self._of] + partition
        is_rejected = np.array([topic in rejected for topic in self._topics], bool)
        bad = ((counts == 0) | is_rejected)[self._of] | (self._sizes > settings.max_bytes) | self._over
        self._rejected, self._exists = rejected, counts > 0
        self._good, self._bad = np.flatnonzero(~bad), np.flatnonzero(bad)
        self._letters_to = range(len(self.destinations), len(self.destinations) + there.get(settings.dead_letters, 0))
        self.destinations += [(settings.dead_letters, partition) for partition in range(len(self._letters_to))]
        return set()

    def pieces(self, producer: ProducerEpoch, limits: BatchLimits) -> Iterator[RecordBatches]:
        """Record batches within these limits, some at a time: one event can have a million deliveries.

        Raises BrokerUnreachable if there are dead letters and no topic for them.
        """
        batch = self.batch
        self.dead_letters, self.letters_to, self.encoded_s = Counter(), Counter(), 0.0
        form = Format(
            producer,
            np.zeros(len(self.destinations), np.int64),
            limits.of(self.destinations),
            time.time_ns() // 1_000_000,
            batch.client.options.compression,
        )
        for some in record_batches.in_pieces(self._good, self._sizes):
            began = time.perf_counter()
            batches = record_batches.encode(
                batch.columns, self._headers, self._deliveries, self._keys, self._to, some, form
            )
            self.encoded_s += time.perf_counter() - began
            yield batches
        letters = ((letter, self._letter_destination(letter)) for letter in self._letters())
        yield from record_batches.of_records_in_pieces(letters, form)
        self.counts = self._counted(int(np.count_nonzero(form.sequence)))

    def _counted(self, partitions: int) -> Published:
        matches, rows = self.batch.matches, slice(self.begin, self.end)
        total = matches.total[rows]
        return Published(
            met=int(np.count_nonzero(matches.at_once[rows])),
            attributes=int(matches.attributes[rows].sum()),
            batches=int(matches.at_once[rows].sum()),
            events=int(np.count_nonzero(total)),
            matches=int(total.sum()),
            deliveries=len(self._good),
            over_quota=int(self._over.sum()),
            aborted=self.aborted,
            commits=1,
            partitions=partitions,
            dead_letters=self.dead_letters,
            executor=executor(),
        )

    def counted_deliveries(self) -> CountedDeliveries:
        """The deliveries and matches of each subscriber, once all pieces are made."""
        rows, subscriber = self._matched
        timestamp, matches, begin = self.batch.columns.timestamp, [], 0
        for part in self.batch.matches.parts_between(self.begin, self.end):
            some = slice(begin, begin := begin + len(part.row))
            matches.append(CountedMatches(subscriber[some], timestamp[rows[some]], part.position, part.ids))
        good = self._good
        return CountedDeliveries(self._deliveries.subscriber[good], self._sizes[good], self.letters_to, tuple(matches))

    def published(self, taken: float, matched: float, committed: Committed, traced: int) -> Published:
        """Counts, times and latencies of the committed transaction, with at most `traced` trace contexts. `taken` is
        when the events were read, or their batch began; `matched`, when matching ended (epoch s)."""
        delivered = np.flatnonzero(self.batch.matches.total[self.begin : self.end]) + self.begin
        times = CommitTimes(matched, committed.sent_at, committed.committed_at)
        timestamps: Int64 = self.batch.columns.timestamp[delivered]
        return replace(
            self.counts,
            size_bytes=committed.bytes,
            encoded_s=self.encoded_s,
            errors=Counter(committed.errors),
            latencies=by_stage(timestamps, taken, times),
            transactions=[times],
            trace_contexts=list(islice(self.batch.trace_contexts(delivered[:TRACED_EVENTS].tolist()), traced)),
        )

    @cached_property
    def _over(self) -> Bools:
        """[D]: the deliveries that subscribers may not get, the last ones of each partition. Takes the others from what
        is `left`, once."""
        deliveries, columns, left = self._deliveries, self.batch.columns, self.batch.left
        over = np.zeros(len(deliveries.event), bool)
        if not left:
            return over
        limited = {subscriber for _, _, _, subscriber in left}
        source = np.asarray(self.batch.rows["source"])
        of_limited = np.array([name in limited for name in self._names], bool)[self._of]
        for delivery in np.flatnonzero(of_limited).tolist():
            event, name = deliveries.event[delivery], self._names[self._of[delivery]]
            timestamp = int(columns.timestamp[event])
            at = int(source[event]), int(columns.partition[event]), timestamp // 1000, name
            if at in left and timestamp != records.NO_TIMESTAMP:
                over[delivery] = left[at] == 0
                left[at] -= not over[delivery]
        return over

    def _letter_destination(self, letter: Record) -> int:
        if not self._letters_to:
            raise BrokerUnreachable(
                f"dead-letter topic {self.batch.settings.dead_letters} does not exist; create it with "
                "`run_stream.py topics create`"
            )
        return self._letters_to[partition_of(letter.key, len(self._letters_to))]

    def _letters(self) -> Iterator[Record]:
        for row in sorted(self.batch.matches.dead):
            if self.begin <= row < self.end:
                yield self._letter(row, *self.batch.matches.dead[row])
        for delivery in self._bad.tolist():
            if not (self._over[delivery] and self.batch.publication.quota.drop):
                yield self._of_delivery(delivery)

    def _of_delivery(self, delivery: int) -> Record:
        """The dead letter of a delivery that cannot be made."""
        settings, publication = self.batch.settings, self.batch.publication
        deliveries, to = self._deliveries, self._of[delivery]
        topic, name = self._topics[to], self._names[to]
        if self._over[delivery]:
            reason = records.OVER_QUOTA
            detail = f"more than {publication.quota.most:,} deliveries of a second (quotas.deliveries_per_second)"
        elif not self._exists[to]:
            reason, detail = records.MISSING_TOPIC, f"topic {topic} of subscriber {name} does not exist"
        elif self._sizes[delivery] > settings.max_bytes:
            reason = records.OVERSIZE
            detail = f"{self._sizes[delivery]} bytes with headers; deliveries.max_bytes is {settings.max_bytes}"
        else:
            reason = records.TOPIC_REJECTED
            detail = f"the broker rejects it for topic {topic}: {self._rejected[topic]}"
        self.letters_to[name, reason] += 1
        ids = deliveries.ids[deliveries.ids_start[delivery] : deliveries.ids_start[delivery + 1]].tobytes().decode()
        about = {"subscriber": name, "subscriptionids": ids, "matchversion": str(publication.version)}
        if self.batch.false_positives:
            about["approximate"] = str(self.batch.false_positives)
        return self._letter(int(deliveries.event[delivery]), reason, detail, **about)

    def _letter(self, row: int, reason: str, detail: str, **about: str) -> Record:
        self.dead_letters[reason] += 1
        settings = self.batch.settings
        (record,) = consumer_records(self.batch.rows[row : row + 1])
        (topic,) = (topic for topic, begin, end in self.batch.topics if begin <= row < end)
        origin = Origin(topic, record.partition, record.offset, record.timestamp_ms)
        return records.dead_letter(settings.dead_letters, record, origin, reason, detail, **about)
