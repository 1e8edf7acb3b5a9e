"""Send dead letters again, each exactly once, however often the redrive is interrupted.

What is sent and a marker for each letter, in the dead letters topic, are one transaction. The transactional id belongs
to the query, so opening a redrive ends an older one; only then the markers are read, and what has one is left alone.

An event that could not be read or matched goes to its topic again, a rejected subscription to that of
subscriptions. A delivery that one subscriber did not get goes to that subscriber's topic alone: all others have theirs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Message

from streaming import tenants
from streaming.admin.dead_letters import (
    DeadLetterFilter,
    DeadLetterPosition,
    StoredDeadLetter,
    marker,
    read_letters,
    redriven_places,
)
from streaming.documents import records
from streaming.documents.change_order import Decisions
from streaming.documents.messages import place_of
from streaming.documents.records import ATTEMPTS, REJECTED_SUBSCRIPTION, Origin, Record
from streaming.documents.subscriptions import id_of
from streaming.errors import Fenced, Unsettled
from streaming.kafka import clients, times
from streaming.kafka.clients import Cluster
from streaming.kafka.errors import translate
from streaming.kafka.event_topics import resolved
from streaming.kafka.outputs import OutputTopics, outputs
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.producer import TransactionalProducer

if TYPE_CHECKING:
    from config.model import Settings

BATCH = 1_000  # letters a transaction at most
BATCH_BYTES = 50_000_000  # or as many as reach this
TRIES = 5  # at a letter alone, whose transaction the broker aborts without rejecting it
PAUSE_S = 0.5  # between them

# The outcomes for a letter. All but the first two are reasons for skipping it.
REDRIVEN = "redriven"
ALREADY = "redriven already"
SUPERSEDED = "superseded"
LEFT_OUT = "value left out"
IDS_LEFT_OUT = "ids left out"
INCOMPLETE = "incomplete"
OVERSIZE = "oversize"
MISSING_TOPIC = "missing topic"
NO_LETTER = "no dead letter"
NOT_TAKEN = "rejected by Kafka"
NOT_READ = "topic not read"


@dataclass(frozen=True)
class RedriveOutcome:
    """The outcome for one dead letter, with the reason."""

    place: DeadLetterPosition
    what: str
    detail: str = ""

    @property
    def already(self) -> bool:
        """Whether the dead letter was redriven earlier."""
        return self.what == ALREADY

    @property
    def skipped(self) -> bool:
        """Whether the dead letter was not sent; `detail` has the reason."""
        return self.what not in (REDRIVEN, ALREADY)

    def as_data(self) -> dict[str, Any]:
        if not self.skipped:
            return {"position": str(self.place), "outcome": self.what}
        return {"position": str(self.place), "outcome": "skipped", "why": self.what, "detail": self.detail}

    def __str__(self) -> str:
        return f"{self.place}: skipped, {self.what}: {self.detail}" if self.skipped else f"{self.place}: {self.what}"


@dataclass
class RedriveSummary:
    """The number of dead letters by outcome."""

    counts: Counter[str] = field(default_factory=Counter)
    dry: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return the counts as JSON data, with the skipped dead letters by reason."""
        skipped = {what: count for what, count in sorted(self.counts.items()) if what not in (REDRIVEN, ALREADY)}
        counts = {"redriven": self.counts[REDRIVEN], "already": self.counts[ALREADY], "skipped": skipped}
        return {**counts, "dry_run": self.dry}

    @property
    def complete(self) -> bool:
        """Whether no dead letter was skipped."""
        return not self.as_data()["skipped"]

    def __str__(self) -> str:
        data = self.as_data()
        lines = [f"{data['redriven']:,} {'would be redriven' if self.dry else 'redriven'}"]
        if data["already"]:
            lines.append(f"{data['already']:,} redriven already")
        lines += [f"{count:,} skipped: {why}" for why, count in data["skipped"].items()]
        return "\n".join(lines)


@contextmanager
def opened(settings: Settings, dry: bool = False) -> Iterator[Redrive]:
    """Open a redrive, which ends every older one of the query. If it is `dry`, nothing is created, sent or ended.
    Raises JobError."""
    cluster = Cluster.of(settings)
    topics = cluster.topics()
    settings = resolved(settings, topics.partitions)
    of_changes = [tenant.topic for tenant in tenants.of(settings).values()]
    there = topics.required((*settings.events.names, *of_changes, settings.dead_letters.topic))
    ready = outputs(settings, topics)
    if dry:
        yield Redrive(settings, cluster, there, _unless_made(settings, ready), ready.partitions, lambda sent: None)
        return
    with closing(Client(cluster.bootstrap_servers, cluster.options)) as client:
        producer = TransactionalProducer(client, f"{settings.query.name}.redrive")

        def publish(sent: Sequence[Record]) -> None:
            try:
                producer.publish(sent)
            except Unsettled:
                if producer.is_timed_out:
                    raise Unsettled(
                        "a transaction of the redrive took longer than transaction.timeout.ms; nothing was lost. The "
                        "same command goes on from here"
                    ) from None
                raise Fenced(
                    f"another redrive with query.name = {settings.query.name!r} was started, so this one stops; "
                    "nothing was lost"
                ) from None

        yield Redrive(settings, cluster, there, lambda topic: bool(ready.missing([topic])), ready.partitions, publish)


@dataclass
class Redrive:
    """An open redrive."""

    settings: Settings
    cluster: Cluster
    partitions: Mapping[str, int]  # how many each topic of the job has
    missing: Callable[[str], bool]  # whether a subscriber's topic does not exist, after an attempt to make it
    partitions_of: Callable[[str], int]  # how many a subscriber's topic has
    publish: Callable[[Sequence[Record]], None]  # all of them or, if it raises, none

    def __post_init__(self) -> None:
        self.missing = cache(self.missing)
        self._done = self._redriven()

    def run(self, wanted: DeadLetterFilter) -> Iterator[RedriveOutcome]:
        """The outcome for each letter, once it is committed. Raises JobError."""
        waiting: list[StoredDeadLetter] = []
        unseen, size = set(wanted.places), 0
        for letter in read_letters(self.cluster, self.settings.dead_letters.topic, wanted, self._done):
            unseen.discard(letter.place)
            if letter.redriven:
                yield RedriveOutcome(letter.place, ALREADY)
                continue
            waiting.append(letter)
            size += len(letter.value or b"") + records.size_of(letter.headers)
            if len(waiting) == BATCH or size >= BATCH_BYTES:
                yield from self._send(waiting)
                waiting, size = [], 0
        yield from self._send(waiting)
        for place in sorted(unseen):
            yield RedriveOutcome(place, NO_LETTER, "no such dead letter, or the filters exclude it")

    def _send(self, letters: Sequence[StoredDeadLetter]) -> Iterator[RedriveOutcome]:
        superseded = self._superseded(letters)
        sent = []
        for letter in letters:
            made = self._again(letter, superseded)
            if isinstance(made, RedriveOutcome):
                yield made
            else:
                sent.append((letter.place, made))
        yield from self._commit(sent)

    def _commit(
        self, sent: Sequence[tuple[DeadLetterPosition, Record]], tries: int = TRIES
    ) -> Iterator[RedriveOutcome]:
        """Commit the records in one transaction, without those that Kafka rejects. Raises Aborted if that of a letter
        alone is aborted again and again."""
        if not sent:
            return
        topic = self.settings.dead_letters.topic
        try:
            self.publish([one for place, record in sent for one in (record, marker(topic, place))])
        except Aborted as aborted:
            if len(sent) == 1 and not (aborted.rejected or aborted.gone):
                if tries == 1:
                    raise
                time.sleep(PAUSE_S)
                yield from self._commit(sent, tries - 1)
                return
            if len(sent) == 1:
                yield RedriveOutcome(sent[0][0], NOT_TAKEN, str(aborted))
                return
        else:
            yield from (RedriveOutcome(place, REDRIVEN) for place, _ in sent)
            return
        half = len(sent) // 2
        for some in (sent[:half], sent[half:]):
            yield from self._commit(some)

    def _again(self, letter: StoredDeadLetter, superseded: set[DeadLetterPosition]) -> Record | RedriveOutcome:
        """The record to send for a letter, or the reason for skipping it."""
        place = letter.place
        if letter.origin is None:
            return RedriveOutcome(place, NO_LETTER, letter.detail)
        if letter.value_left_out:
            detail = (
                f"it was too large for a dead letter ({letter.about['value_bytes']} bytes); {_where(letter.origin)}"
            )
            return RedriveOutcome(place, LEFT_OUT, detail)
        if letter.reason in records.OF_EVENTS:
            return self._event(letter, letter.origin)
        if letter.reason != REJECTED_SUBSCRIPTION:
            return self._delivery(letter, letter.origin)
        topic = self._topic_of_change(letter.origin)
        if topic not in self.partitions:
            return RedriveOutcome(place, NOT_READ, f"{topic} is not a topic of subscriptions of this job")
        if place in superseded:
            return RedriveOutcome(place, SUPERSEDED, f"{topic} has a later record of its key")
        return self._as_it_was(letter, letter.origin, topic)

    def _event(self, letter: StoredDeadLetter, origin: Origin) -> Record | RedriveOutcome:
        events = self.settings.events
        if not events.by_topic:
            return self._as_it_was(letter, origin, events.topic)
        if origin.topic not in events.topics:
            return RedriveOutcome(letter.place, NOT_READ, f"{origin.topic} is not a topic of events of this job")
        return self._as_it_was(letter, origin, origin.topic)

    def _as_it_was(self, letter: StoredDeadLetter, origin: Origin, topic: str) -> Record:
        partition = origin.partition if 0 <= origin.partition < self.partitions[topic] else -1
        kept = [(name, value) for name, value in letter.headers if name != ATTEMPTS]
        headers = [*kept, (ATTEMPTS, b"%d" % letter.attempts)]
        return Record(topic, letter.key, letter.value, headers, partition)

    def _delivery(self, letter: StoredDeadLetter, origin: Origin) -> Record | RedriveOutcome:
        deliveries, place = self.settings.deliveries, letter.place
        if letter.ids is None and "subscriptions" in letter.about:
            detail = f"they were too many for a dead letter ({letter.about['subscriptions']}); {_where(origin)}"
            return RedriveOutcome(place, IDS_LEFT_OUT, detail)
        if letter.subscriber is None or letter.ids is None or letter.matchversion is None:
            return RedriveOutcome(place, INCOMPLETE, "it does not name its subscriber, subscriptions and version")
        headers = records.event_headers(letter.headers, origin, letter.matchversion, false_positives=letter.approximate)
        rule = DeliveryRule.of(deliveries)
        record = rule.record(letter.subscriber, letter.key, letter.value, headers, letter.ids, records.BY_KEY)
        topic = record.topic
        if record.size() > deliveries.max_bytes:
            detail = f"{record.size()} bytes with headers; deliveries.max_bytes is {deliveries.max_bytes}"
            return RedriveOutcome(place, OVERSIZE, detail)
        if self.missing(topic):
            return RedriveOutcome(
                place, MISSING_TOPIC, f"topic {topic} of subscriber {letter.subscriber} does not exist"
            )
        partition = rule.partition(origin.partition, self.partitions_of(topic))
        return record._replace(partition=partition)

    def _superseded(self, letters: Sequence[StoredDeadLetter]) -> set[DeadLetterPosition]:
        """The places of rejected subscriptions whose key has a later record.

        The order of two records counts only within a partition; between partitions their times decide. Compaction may
        have removed a later record, but not its status.
        """
        rejected: dict[tuple[str, bytes], list[tuple[DeadLetterPosition, Origin]]] = {}  # by topic and id
        for letter in letters:
            if letter.reason != REJECTED_SUBSCRIPTION or letter.origin is None or letter.value_left_out:
                continue
            if id := id_of(letter.key, letter.value):
                topic_and_id = self._topic_of_change(letter.origin), id
                rejected.setdefault(topic_and_id, []).append((letter.place, letter.origin))
        superseded = set()
        for topic in sorted({topic for topic, _ in rejected if topic in self.partitions}):
            of_id = {id: letters for (of, id), letters in rejected.items() if of == topic}
            for message in self._changes_since(topic, [origin for letters in of_id.values() for _, origin in letters]):
                if (id := id_of(message.key(), message.value())) is not None:
                    superseded |= {place for place, origin in of_id.get(id, ()) if _is_later(message, origin)}
            for id, decision in self._decisions(topic, of_id):
                superseded |= {
                    place
                    for place, origin in of_id[id]
                    if decision.word and decision.word[0] == origin.partition and decision.word[1] > origin.offset
                }
        return superseded

    def _changes_since(self, topic: str, origins: Sequence[Origin]) -> Iterator[Message]:
        """The records of a topic of subscriptions at or after the oldest of these times, and all behind these
        offsets."""
        every = [(topic, partition) for partition in range(self.partitions[topic])]
        oldest_ms = min(origin.timestamp_ms for origin in origins)
        with closing(Consumer(self.cluster.client(group_id="unused"))) as consumer:
            try:
                starts = times.first_since(consumer, every, max(0, oldest_ms))
            except KafkaException as error:
                raise translate(error.args[0], f"{topic} cannot be read") from error
        for origin in origins:
            at, behind = (topic, origin.partition), origin.offset + 1
            if at in starts:
                starts[at] = min(starts[at], behind) if starts[at] >= 0 else behind
        for message in clients.read(self.cluster, [topic], follow=False, starts=starts, settled=True):
            if message is not None:
                yield message

    def _decisions(self, topic: str, ids: Container[bytes]) -> Decisions:
        """The last decision of the job on each of these ids of a topic of subscriptions."""
        status_topic = next(one.status_topic for one in tenants.of(self.settings).values() if one.topic == topic)
        topics = self.cluster.topics()
        if status_topic not in topics.partitions():
            return Decisions()
        statuses = clients.read(self.cluster, [status_topic], follow=False)
        return Decisions(
            topics.id(topic),
            self.settings.query.name.__eq__,
            (status for status in statuses if status is not None and status.key() in ids),
        )

    def _topic_of_change(self, origin: Origin) -> str:
        """The topic of subscriptions where a change came from; where there is one, that may have had another name."""
        subscriptions = self.settings.subscriptions
        return origin.topic if subscriptions.tenants else subscriptions.topic

    def _redriven(self) -> set[DeadLetterPosition]:
        return redriven_places(self.cluster, self.settings.dead_letters.topic)


def _unless_made(settings: Settings, ready: OutputTopics) -> Callable[[str], bool]:
    """Return a test whether a topic is missing. A topic that the job may create is not missing."""
    if settings.deliveries.create_topics and settings.deliveries.layout == "topic_per_subscriber":
        return lambda topic: False
    return lambda topic: bool(ready.missing([topic]))


def _is_later(message: Message, origin: Origin) -> bool:
    partition, offset = place_of(message)
    if partition == origin.partition:
        return offset > origin.offset
    return message.timestamp()[1] > origin.timestamp_ms


def _where(origin: Origin) -> str:
    return f"the original is at {origin.topic}, {origin.partition}:{origin.offset}, until retention deletes it"
