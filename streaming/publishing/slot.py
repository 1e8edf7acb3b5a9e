"""A slot, the transactional producer of a task, publishes record batches and the offsets of their events together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.texts import Texts
from streaming.errors import BrokerUnreachable, JobError, Unsettled
from streaming.publishing.connection import requests
from streaming.publishing.connection.answers import (
    NO_ANSWER,
    NO_LEADER,
    NO_PARTITION,
    NO_TRANSACTION,
    TOO_LARGE,
    BrokerError,
    Reaction,
    error_of,
    reaction_to,
)
from streaming.publishing.connection.client import GONE_S, Attempt, Client, ConnectionLost, TopicMetadata
from streaming.publishing.connection.requests import CoordinatorRequest
from streaming.publishing.contract import Aborted, Notes, Offsets, ProducerEpoch, RecordBatches, TopicPartition
from streaming.publishing.encode import produce
from streaming.publishing.encode.produce import Destinations


class Committed(NamedTuple):
    """A transaction that readers see."""

    producer: ProducerEpoch  # of the next one
    sent_at: float  # epoch s: the brokers had all records
    committed_at: float  # epoch s
    bytes: int  # of record batches
    records: int
    errors: Mapping[str, int]  # what passed: "Produce NOT_LEADER_FOR_PARTITION" -> how many requests


class _Abort(Exception):
    """The transaction cannot be committed, but the slot can publish another."""

    def __init__(
        self, reason: str, rejected: Mapping[str, str], gone: frozenset[str], too_large: frozenset[str]
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rejected = rejected
        self.gone = gone
        self.too_large = too_large


TIMEOUT_MS = 60_000  # of a transaction, unless kafka.client has another
MOST_OFFSET_BYTES = 500_000  # of the records of a request; brokers take batches of 1 MB, unless configured otherwise
OFFSET_BYTES = 64  # of the record of an offset, at most, beside its names and its metadata


class Slot:
    """`name` is its transactional id, `group` the consumer group whose offsets it commits. A transaction may take
    `timeout_ms`, unless kafka.client has another.

    Only the driver opens a slot, and passes the producer on to a task, which publishes with it. Each transaction has a
    producer of its own: the next one is in what the last one returned or raised.
    """

    def __init__(self, client: Client, name: str, group: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self.name = name
        self.group = group
        self.timeout_ms = client.options.transaction_timeout_ms or timeout_ms
        self._client = client

    def open(self) -> ProducerEpoch:
        """Take the slot over: fence its older producers and abort their transactions."""
        return self._client.run(self.opened)

    async def opened(self) -> ProducerEpoch:
        """InitProducerId, until the last transaction of that name has ended. Runs on the client's loop."""
        request = requests.init_producer_id(self.name, self.timeout_ms)
        return _producer(await asked(self._client, request, self._client.attempt()))

    def publish(
        self,
        producer: ProducerEpoch,
        pieces: Iterable[RecordBatches],
        destinations: Sequence[TopicPartition],
        offsets: Offsets,
        notes: Notes = MappingProxyType({}),
    ) -> Committed:
        """Commit all record batches together with the offsets. Without either, nothing is sent and nothing changes.

        The next piece is taken from the iterable while the last one is being sent. `destinations` may grow until then,
        `notes` until the iterable ends.
        The records carry the producer, and their sequences begin at 0 in each transaction. `notes` become the metadata
        of the offsets.

        Raises Aborted, after which the slot may try again with the next producer; after Unsettled, BrokerUnreachable
        and any other error the driver must fence all slots: only the committed offsets show how the transaction ended.
        """
        transaction = _Transaction(self._client, self, producer)
        return self._client.run(transaction.run, pieces, destinations, offsets, notes)


async def asked(client: Client, request: CoordinatorRequest, attempt: Attempt) -> Any:
    """The response, which is without errors. Raises JobError."""
    response, answers = await client.ask(request, attempt)
    if answers:
        raise error_of(request.name, request.key, max(answers, key=lambda a: reaction_to(request.name, a)))
    return response


class _Transaction:
    """A single transaction of a slot."""

    def __init__(self, client: Client, slot: Slot, producer: ProducerEpoch) -> None:
        self._client = client
        self._slot = slot.name
        self._group = slot.group
        self._timeout_ms = slot.timeout_ms
        self._producer = producer
        self._begun = False  # a broker may have it
        self._added: set[int] = set()  # destinations that were added by a request of their own (version 1)
        self._bytes = self._records = 0
        self._errors: Counter[str] = Counter()
        self._names: Destinations | None = None
        self._missing_since: dict[str, float] = {}  # topic -> monotonic s

    async def run(
        self,
        pieces: Iterable[RecordBatches],
        destinations: Sequence[TopicPartition],
        offsets: Offsets,
        notes: Notes,
    ) -> Committed:
        self._version = await self._client.transactions()
        try:
            await self._send_all(pieces, destinations)
            sent_at = time.time()
            if offsets:
                await self._commit_offsets(offsets, notes)
        except _Abort as cause:
            self._client.forget(cause.gone)
            producer = await self._end(commit=False) if self._begun else self._producer
            raise Aborted(cause.reason, producer, cause.rejected, cause.gone, cause.too_large) from None
        except (Unsettled, BrokerUnreachable):
            raise
        except Exception:
            if self._begun:  # or readers would wait for its timeout
                with suppress(JobError):
                    await self._end(commit=False)
            raise
        producer = await self._end(commit=True) if self._begun else self._producer
        return Committed(producer, sent_at, time.time(), self._bytes, self._records, dict(self._errors))

    def _attempt(self) -> Attempt:
        attempt = self._client.attempt()
        attempt.errors = self._errors
        return attempt

    async def _ask(self, request: CoordinatorRequest) -> Any:
        """As `asked`, but raises _Abort if the slot can go on after aborting this transaction."""
        self._begun = True
        response, answers = await self._client.ask(request, self._attempt())
        if not answers:
            return response
        worst = max(answers, key=lambda a: reaction_to(request.name, a))
        if reaction_to(request.name, worst) <= Reaction.ABORT:
            raise _abort(request.name, answers)
        raise error_of(request.name, self._slot, worst)

    async def _send_all(self, pieces: Iterable[RecordBatches], destinations: Sequence[TopicPartition]) -> None:
        """Send piece after piece. The caller makes the next one while the last is on its way."""
        on_its_way = None
        try:
            for batches in pieces:
                if on_its_way is not None:
                    await on_its_way
                    on_its_way = None
                if len(batches.destination):
                    on_its_way = self._client.start(self._send, batches, destinations)
                    await self._client.written()
        finally:  # also if the caller failed: nothing may be on its way when the transaction ends
            if on_its_way is not None:
                await on_its_way

    async def _send(self, batches: RecordBatches, destinations: Sequence[TopicPartition]) -> None:
        """Send all batches, so that the brokers have them; one of a destination after the other."""
        if self._version == 1:
            await self._add_partitions(batches, destinations)
        rows = np.arange(len(batches.destination))
        nth = rows - np.searchsorted(batches.destination, batches.destination)
        for number in range(int(nth.max()) + 1):
            await self._send_round(batches, np.flatnonzero(nth == number), destinations)
        self._bytes += int((batches.end - batches.begin).sum())
        self._records += int(batches.records.sum())

    async def _add_partitions(self, batches: RecordBatches, destinations: Sequence[TopicPartition]) -> None:
        new = set(batches.destination.tolist()) - self._added
        if new:
            partitions = [destinations[number] for number in sorted(new)]
            await self._ask(requests.add_partitions(self._slot, self._producer, partitions))
            self._added |= new

    async def _send_round(self, batches: RecordBatches, rows: Int64, destinations: Sequence[TopicPartition]) -> None:
        """Send these rows, at most one of each destination, again and again until all are taken."""
        attempt = self._attempt()
        partition_of = {row: destinations[int(batches.destination[row])] for row in rows.tolist()}
        refresh = False
        while partition_of:
            topics = {topic for topic, _ in partition_of.values()}
            by_node, answers = _by_leader(partition_of, await self._client.leaders(topics, attempt, refresh=refresh))
            sending = [
                self._client.start(self._send_to, node, batches, np.array(some), destinations, attempt)
                for node, some in by_node.items()
            ]
            attempt.rejected("Produce", answers.values())  # for want of a leader
            for sent in sending:  # all of them, so that nothing is on its way when the transaction ends
                rejected = await sent
                attempt.rejected("Produce", rejected.values())
                answers |= rejected
            if final := [answer for answer in answers.values() if self._reaction_to(answer) >= Reaction.GONE]:
                raise self._final(final, _divisible(batches, partition_of, answers))
            partition_of = {
                row: at for row, at in partition_of.items() if at in answers and self._reaction_to(answers[at])
            }
            missing = {answer.topic for answer in answers.values() if reaction_to("Produce", answer) is Reaction.GONE}
            for topic in topics - missing:
                self._missing_since.pop(topic, None)
            if partition_of:
                reaction = max(self._reaction_to(answers[at]) for at in partition_of.values())
                refresh = reaction is Reaction.REFRESH
                await self._client.pause(attempt, reaction)

    async def _send_to(
        self, node: int, batches: RecordBatches, rows: Int64, destinations: Sequence[TopicPartition], attempt: Attempt
    ) -> dict[TopicPartition, BrokerError]:
        """Send rows to their leader; returns the errors."""
        options = self._client.options
        names = self._destinations(destinations)
        answers: dict[TopicPartition, BrokerError] = {}
        for some in _within(options.max_request_bytes, rows, batches):
            partitions = [destinations[number] for number in batches.destination[some].tolist()]
            try:
                version = await self._client.produce_version(node, requests.PRODUCE[self._version], attempt)
                body = produce.body(self._slot, options.acknowledge_ms, batches, some, names)
                self._begun = True
                response = await self._client.send(node, requests.produce(version, body), attempt, "Produce")
            except ConnectionLost as error:
                answers |= {at: BrokerError(at[0], NO_ANSWER, str(error)) for at in partitions}
            else:
                answers |= requests.produce_answers(response, partitions)
        return answers

    def _destinations(self, destinations: Sequence[TopicPartition]) -> Destinations:
        """Return the destinations for the encoder. They may have grown with the last piece."""
        if self._names is None or len(self._names.partition) != len(destinations):
            number_of = {
                topic: number for number, topic in enumerate(dict.fromkeys(topic for topic, _ in destinations))
            }
            self._names = Destinations.of(
                Texts.of(number_of),
                np.array([number_of[topic] for topic, _ in destinations], np.int64),
                np.array([number for _, number in destinations], np.int64),
            )
        return self._names

    def _reaction_to(self, answer: BrokerError) -> Reaction:
        """Return the table's reaction, except that a missing topic counts as deleted only after some time."""
        reaction = reaction_to("Produce", answer)
        if reaction is Reaction.GONE:
            since = self._missing_since.setdefault(answer.topic, time.monotonic())
            return reaction if time.monotonic() - since >= GONE_S else Reaction.REFRESH
        return reaction

    def _final(self, answers: Sequence[BrokerError], divisible: AbstractSet[str]) -> Exception:
        """Return the error for answers that no retry would change. Topics that are `divisible` may take smaller
        batches."""
        worst = max(answers, key=lambda answer: reaction_to("Produce", answer))
        if reaction_to("Produce", worst) <= Reaction.ABORT:
            return _abort("Produce", answers, divisible)
        return error_of("Produce", self._slot, worst)

    async def _commit_offsets(self, offsets: Offsets, notes: Notes) -> None:
        """Commit the offsets with this transaction, in as many requests as it takes: the coordinator writes those of a
        request as one record batch, which must not exceed the limit of its topic."""
        if self._version == 1:
            await self._ask(requests.add_group(self._slot, self._producer, self._group))
        for some in _in_batches(self._group, offsets, notes):
            await self._ask(
                requests.commit_offsets(self._version, self._slot, self._producer, self._group, some, notes)
            )

    async def _end(self, *, commit: bool) -> ProducerEpoch:
        """Commit or abort; returns the next producer. If the answer is lost, the same request gets it again."""
        request = requests.end(self._version, self._slot, self._producer, commit=commit)
        response, answers = await self._client.ask(request, self._attempt())
        # In version 1 the coordinator has no transaction if it could not add any partition.
        if answers and not (self._version == 1 and not commit and answers[0].code == NO_TRANSACTION):
            raise error_of(request.name, self._slot, answers[0])
        if self._version == 2:
            return _producer(response)
        request = requests.init_producer_id(self._slot, self._timeout_ms, self._producer)
        return _producer(await asked(self._client, request, self._attempt()))


def _producer(response: Any) -> ProducerEpoch:
    return ProducerEpoch(response.producer_id, response.producer_epoch)


def _abort(request: str, answers: Iterable[BrokerError], divisible: AbstractSet[str] = frozenset()) -> _Abort:
    """Abort the transaction after an answer that leaves the slot usable."""
    by_reaction = {
        reaction: [a for a in answers if reaction_to(request, a) is reaction]
        for reaction in (Reaction.REJECTED, Reaction.GONE, Reaction.ABORT)
    }
    rejected = {a.topic: str(a) for a in by_reaction[Reaction.REJECTED] if a.topic not in divisible}
    too_large = frozenset(a.topic for a in by_reaction[Reaction.REJECTED] if a.topic in divisible)
    gone = frozenset(answer.topic for answer in by_reaction[Reaction.GONE])
    first = next(answer for answers in by_reaction.values() for answer in answers)
    about = f"{first.topic}: " if first.topic else ""
    return _Abort(f"the transaction was aborted: {about}{first} ({request})", rejected, gone, too_large)


def _divisible(
    batches: RecordBatches, partition_of: Mapping[int, TopicPartition], answers: Mapping[TopicPartition, BrokerError]
) -> set[str]:
    """Return the topics for which all rejected batches are too large, and have several records."""
    topics: dict[str, bool] = {}
    for row, at in partition_of.items():
        if at in answers and reaction_to("Produce", answers[at]) is Reaction.REJECTED:
            may_fit = answers[at].code in TOO_LARGE and bool(batches.records[row] > 1)
            topics[at[0]] = topics.get(at[0], True) and may_fit
    return {topic for topic, may_fit in topics.items() if may_fit}


def _by_leader(
    partition_of: Mapping[int, TopicPartition], topics: Mapping[str, TopicMetadata]
) -> tuple[dict[int, list[int]], dict[TopicPartition, BrokerError]]:
    """Return the rows by node, and the errors of partitions without a leader."""
    by_node: dict[int, list[int]] = {}
    answers = {}
    for row, (name, number) in partition_of.items():
        topic = topics[name]
        if topic.error is not None:
            answers[name, number] = topic.error
        elif number >= len(topic.leaders):
            answers[name, number] = BrokerError(name, NO_PARTITION)
        elif topic.leaders[number] < 0:
            answers[name, number] = BrokerError(name, NO_LEADER)
        else:
            by_node.setdefault(topic.leaders[number], []).append(row)
    return by_node, answers


def _within(most_bytes: int, rows: Int64, batches: RecordBatches) -> Iterator[Int64]:
    """Split the rows into parts of at most that many bytes, or of one batch."""
    ends = np.cumsum((batches.end - batches.begin)[rows])
    begin = 0
    while begin < len(rows):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        yield rows[begin:end]
        begin = end


def _in_batches(group: str, offsets: Offsets, notes: Notes) -> Iterator[Offsets]:
    """Split offsets into parts whose records have at most MOST_OFFSET_BYTES, or of one offset."""
    some: dict[TopicPartition, int] = {}
    size = 0
    for at, offset in offsets.items():
        texts = group, at[0], notes.get(at, "")
        more = OFFSET_BYTES + sum(len(text.encode()) for text in texts)
        if some and size + more > MOST_OFFSET_BYTES:
            yield some
            some, size = {}, 0
        some[at] = offset
        size += more
    yield some
