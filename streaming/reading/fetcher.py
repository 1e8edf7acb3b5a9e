"""Fetch records of partitions from their leaders, by long polls on connections of their own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka import errors
from kafka.future import Future

from streaming.errors import BrokerUnreachable, JobError, OffsetsBeyondEnd, TopicMissing, Unreadable
from streaming.publishing.connection.answers import (
    NO_ANSWER,
    NO_LEADER,
    NO_PARTITION,
    BrokerError,
    Reaction,
    error_of,
    reaction_to,
)
from streaming.publishing.connection.client import GONE_S, LONGEST_PAUSE_S, Attempt, Client, ConnectionLost
from streaming.publishing.contract import TopicPartition
from streaming.reading import session as sessions
from streaming.reading.contract import NO_END, AbortedTransaction, Decoded, FetchedPartition, Position, read_only
from streaming.reading.decoder import PIECE_BYTES, decode
from streaming.reading.requests import EARLIEST, LATEST, FetchLimits, list_offsets
from streaming.reading.session import FetchSession
from streaming.rows import Source

CLOSING_S = 1.0  # for brokers to close sessions
SILENT_S = 10.0  # beyond the longest wait: then a connection is dead
_LIMITS = FetchLimits()
_OUT_OF_RANGE: int = errors.OffsetOutOfRangeError.errno
_CORRUPT: int = errors.CorruptRecordError.errno
_RETRIED = (Reaction.AGAIN, Reaction.LOOK_UP, Reaction.REFRESH, Reaction.GONE)


class LogEnd(NamedTuple):
    """The end of a partition, according to the last answer of a broker."""

    last_stable: int  # offset: no transaction before it is open, and nothing behind it is read
    high_watermark: int  # offset: everything before it is replicated


@dataclass
class _Trouble:
    """The errors of a partition since its last good answer."""

    attempt: Attempt
    missing_since: float | None = None  # monotonic s; brokers do not have the topic


class Fetcher:
    """A reader of committed records from `positions` on, up to `ends` where these name an offset to stop before.

    Create it in the process that uses it, never before a fork. `poll` raises BrokerUnreachable if a partition cannot be
    read for the client's timeout, Unreadable, TopicMissing, Forbidden, Unauthenticated, OffsetsBeyondEnd or another
    JobError. After an error, close it; a new one continues from `positions`.

    A broker answers the requests of a connection one by one, and a long poll blocks it, so slots have connections of
    their own, with the same options.
    """

    def __init__(
        self,
        client: Client,
        sources: Mapping[str, Source],
        positions: Mapping[TopicPartition, Position],
        *,
        ends: Mapping[TopicPartition, int] = MappingProxyType({}),
        limits: FetchLimits = _LIMITS,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`sources` has each topic. The fetcher owns the client, and closes it."""
        self.positions = dict(positions)  # after all records that `poll` returned
        self.log_ends: dict[TopicPartition, LogEnd] = {}
        self.deleted: Counter[TopicPartition] = Counter()  # offsets that the broker deleted before they were read
        self.errors: Counter[str] = Counter()  # passing ones, by request and name
        self._client, self._sources, self._ends = client, sources, ends
        self._limits, self._piece_bytes = limits, piece_bytes
        self._next = dict(positions)  # after all that was decoded; the partition of the last answer is the last
        self._sessions: dict[int, FetchSession] = {}  # by broker
        self._answers: list[tuple[int, FetchSession, Any]] = []  # responses that were not looked at, or errors
        self._wake: Future | None = None
        self._items: Iterator[Decoded] = iter(())
        self._item: Decoded | None = None  # the next one to return
        self._error: JobError | None = None  # to raise once there is no item
        self._begins: dict[TopicPartition, Position] = {}  # of the answer that is being decoded
        self._troubles: dict[TopicPartition, _Trouble] = {}
        self._replicas: dict[TopicPartition, tuple[int, float]] = {}  # a preferred broker, until when (monotonic s)
        self._is_stale = False  # the metadata of leaders
        self._refreshed_at = 0.0  # monotonic s
        self._until = 0.0  # monotonic s, of the present or the last `poll`
        self._is_closed = False

    def assign(
        self,
        sources: Mapping[str, Source],
        positions: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        """Continue with other partitions, positions or ends. Unchanged partitions keep records that were read ahead;
        an unchanged offset keeps the leader epoch of its position."""
        here = {at: one for at, one in self.positions.items() if at in positions and positions[at].offset == one.offset}
        is_same = here.keys() == positions.keys() == self.positions.keys() and ends == self._ends
        if is_same and self._error is None:
            return
        positions = {**positions, **here}
        self._client.run(self._drop_requests)
        self._sources, self._ends = sources, ends
        self.positions, self._next = dict(positions), dict(positions)
        self.log_ends, self._answers, self._begins, self._troubles = {}, [], {}, {}
        self._items, self._item, self._error = iter(()), None, None

    def poll(self, timeout_s: float) -> Decoded | None:
        """Return the next records; None if the next answer has none, or none arrives within the time. A lookup of
        leaders, which follows an error, may take longer.

        Where brokers have more, the next requests are sent before this returns. No request waits on a broker beyond
        the time.
        """
        if self._item is None:
            if self._error is not None:
                raise self._error
            self._until = time.monotonic() + timeout_s
            self._items = decode(self._client.run(self._fetched, self._until), self._piece_bytes)
            self._decode_next()
            if self._item is None:
                if self._error is not None:
                    raise self._error
                return None
        item = self._item
        self._decode_next()
        if self._item is None and self._error is None and self.is_behind():
            try:
                self._client.run(self._ask_ahead)
            except JobError as error:  # these records come first
                self._error = error
        self.positions |= item.positions
        return item

    def is_behind(self) -> bool:
        """Return whether some broker had more records when it last answered."""
        return any(
            self._next[at].offset < min(end.last_stable, self._ends.get(at, NO_END))
            for at, end in self.log_ends.items()
        )

    def is_done(self) -> bool:
        """Whether all partitions have been read up to `ends`."""
        return all(position.offset >= self._ends.get(at, NO_END) for at, position in self.positions.items())

    def close(self) -> None:
        """Close the sessions and connections. Answers that have not arrived are dropped."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._client.run(self._close_sessions)
        finally:
            self._client.close()

    def _decode_next(self) -> None:
        try:
            self._item = next(self._items, None)
        except Unreadable as error:
            self._item, self._error = None, error
            return
        if self._item is not None:
            for at, position in self._item.positions.items():
                del self._next[at]  # to the end: brokers fill answers in the order of the request
                self._next[at] = position
        elif self._begins:  # brokers return the first batch as a whole, however large it is
            if all(self._next[at] == begin for at, begin in self._begins.items()):
                (topic, partition), begin = next(iter(self._begins.items()))
                at_offset = f"{topic}, partition {partition}, offset {begin.offset}"
                self._error = Unreadable(f"{at_offset}: the broker returns no whole record batch")
            self._begins = {}

    # What follows runs on the loop of the client.

    async def _fetched(self, until: float) -> list[FetchedPartition]:
        """The data of the next answer that has any; none if the last one has none, or there is none in time."""
        while True:
            retry_at = await self._ask()
            if self._answers:
                break
            if time.monotonic() >= until:
                return []
            self._wake = Future()
            await self._client.happened(self._wake, min(until, retry_at))
        fetched: list[FetchedPartition] = []
        while self._answers and not fetched:  # one at a time: a partition that moved may be in two
            fetched = await self._taken(*self._answers.pop(0))
        return fetched

    async def _ask_ahead(self) -> None:
        await self._ask()
        await self._client.written()

    async def _ask(self) -> float:
        """Send a request to each broker that has partitions and no request; the time at which more can be sent."""
        now, retry_at = time.monotonic(), float("inf")
        by_node: dict[int, dict[TopicPartition, Position]] = {}
        wanted = {at: position for at, position in self._next.items() if position.offset < self._ends.get(at, NO_END)}
        refresh = self._is_stale and now >= self._refreshed_at + LONGEST_PAUSE_S
        topics = await self._client.leaders({topic for topic, _ in wanted}, self._client.attempt(), refresh=refresh)
        if refresh:
            self._is_stale, self._refreshed_at = False, time.monotonic()
        for at, position in wanted.items():
            topic = topics[at[0]]
            leader = topic.leaders[at[1]] if at[1] < len(topic.leaders) else -1
            node, good_until = self._replicas.get(at, (leader, 0.0))
            node = node if good_until > now else leader
            if node >= 0 and topic.error is None:
                by_node.setdefault(node, {})[at] = position
            else:
                code = NO_LEADER if at[1] < len(topic.leaders) else NO_PARTITION
                self._failed("Metadata", at, topic.error or BrokerError(at[0], code))
                retry_at = now + LONGEST_PAUSE_S
        for node, positions in by_node.items():
            session = self._sessions.setdefault(node, FetchSession())
            if session.is_asked:
                continue
            if session.retry_at > now:
                retry_at = min(retry_at, session.retry_at)
                continue
            session.is_asked = True
            wait_ms = max(0, min(self._limits.max_wait_ms, int(1000 * (self._until - now))))
            limits = self._limits._replace(max_wait_ms=wait_ms)
            request = session.request(positions, limits, self._client.options.rack)
            self._client.start(self._answer, node, session, request, now + wait_ms / 1000 + SILENT_S)
        return retry_at

    async def _answer(self, node: int, session: FetchSession, request: Any, until: float) -> None:
        attempt = Attempt(until)
        try:
            answer: Any = await self._client.send(node, request, attempt, "Fetch")
        except Exception as error:  # `poll` raises it: here nobody would see it, and no other request would follow
            answer = error
        self._answers.append((node, session, answer))
        if self._wake is not None and not self._wake.is_done:
            self._wake.success(None)

    async def _taken(self, node: int, session: FetchSession, response: Any) -> list[FetchedPartition]:
        """The data of one answer. Partitions in trouble are fetched again, after a pause."""
        session.is_asked = False
        if self._sessions.get(node) is not session:
            return []  # it was dropped
        lost = isinstance(response, ConnectionLost)
        if isinstance(response, Exception) and not lost:
            raise response
        if lost or response.error_code:
            code = NO_ANSWER if lost else response.error_code
            session.reopen(code)
            if code in sessions.ERRORS:
                self.errors[f"Fetch {BrokerError('', code).name}"] += 1
                return []
            session.retry_at = time.monotonic() + LONGEST_PAUSE_S
            for at in session.positions:
                self._replicas.pop(at, None)
                self._failed("Fetch", at, BrokerError(at[0], code, str(response) if lost else None))
            return []
        is_full = session.answered(response)
        seen: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()  # or handed to another broker
        outrun = False
        fetched: list[FetchedPartition] = []
        for topic in response.responses or ():
            for partition in topic.partitions or ():
                at = topic.topic, partition.partition_index
                if at not in session.positions or at in seen:
                    continue
                seen.add(at)
                if partition.error_code:
                    failed.add(at)
                    session.retry_at = time.monotonic() + LONGEST_PAUSE_S
                    await self._rejected(at, partition.error_code)
                elif self._next[at] == session.positions[at]:
                    if self._is_redirected(node, at, partition):
                        failed.add(at)
                    fetched += self._data(at, partition)
                else:
                    outrun = True  # another broker was faster
        if is_full and (missing := session.positions.keys() - seen):
            session.reopen()
            session.retry_at = time.monotonic() + LONGEST_PAUSE_S
            for at in missing:
                failed.add(at)
                self._failed("Fetch", at, BrokerError(at[0], NO_ANSWER, f"the answer lacks partition {at[1]}"))
        for at in self._troubles.keys() & session.positions.keys() - failed:
            del self._troubles[at]
        self._begins = {} if outrun else {(one.topic, one.partition): one.begin for one in fetched}
        return fetched

    def _is_redirected(self, node: int, at: TopicPartition, partition: Any) -> bool:
        """Whether the broker names another one to read the partition from."""
        if partition.preferred_read_replica < 0 or partition.preferred_read_replica == node:
            return False
        fresh_s = self._client.options.metadata_max_age_s
        self._replicas[at] = partition.preferred_read_replica, time.monotonic() + fresh_s
        return True

    def _data(self, at: TopicPartition, partition: Any) -> list[FetchedPartition]:
        position = self._next[at]
        diverging = partition.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            raise OffsetsBeyondEnd(
                f"{at[0]}, partition {at[1]}: the job has read up to offset {position.offset}, but from offset "
                f"{diverging.end_offset} on the leader has other records: an unclean leader election lost records"
            )
        self.log_ends[at] = LogEnd(partition.last_stable_offset, partition.high_watermark)
        if not partition.records:
            return []
        aborted = [
            AbortedTransaction(transaction.producer_id, transaction.first_offset)
            for transaction in partition.aborted_transactions or ()
        ]
        end = self._ends.get(at, NO_END)
        return [
            FetchedPartition(at[0], self._sources[at[0]], at[1], position, end, read_only(partition.records), aborted)
        ]

    async def _rejected(self, at: TopicPartition, code: int) -> None:
        """React to the error of a partition."""
        was_replica = self._replicas.pop(at, None) is not None
        if code == _OUT_OF_RANGE:
            if not was_replica:  # a replica may be behind its leader
                await self._begin_again(at)
        elif code == _CORRUPT:
            offset = self._next[at].offset
            raise Unreadable(f"{at[0]}, partition {at[1]}: the broker cannot read the record batch at offset {offset}")
        else:
            self._failed("Fetch", at, BrokerError(at[0], code))

    def _failed(self, request: str, at: TopicPartition, answer: BrokerError) -> None:
        """Note a transient error. Raises the error if it is not transient, or has lasted too long."""
        reaction = reaction_to(request, answer)
        if reaction not in _RETRIED:
            raise error_of("Fetch", at[0], answer)
        trouble = self._troubles.setdefault(at, _Trouble(self._client.attempt()))
        trouble.attempt.note(request, answer.name, str(answer))
        self.errors[f"{request} {answer.name}"] += 1
        self._is_stale = True
        now = time.monotonic()
        trouble.missing_since = (trouble.missing_since or now) if reaction is Reaction.GONE else None
        if trouble.missing_since is not None and now - trouble.missing_since >= GONE_S:
            raise TopicMissing(f"the topic {at[0]} has no partition {at[1]}, or does not exist")
        if now >= trouble.attempt.until:
            raise BrokerUnreachable(
                f"{at[0]}, partition {at[1]} could not be read for {self._client.timeout_s:.0f} s; last error:"
                f" {trouble.attempt.last}"
            )

    async def _begin_again(self, at: TopicPartition) -> None:
        """The broker has no record at the position: go on with the first one it has. Raises OffsetsBeyondEnd."""
        first, end = await self._offset(at, EARLIEST), await self._offset(at, LATEST)
        if first is None or end is None:
            return
        if not 0 <= first <= end:
            reason = f"the broker lists {first} as the first offset and {end} as the last"
            self._failed("ListOffsets", at, BrokerError(at[0], NO_ANSWER, reason))
            return
        position = self._next[at].offset
        if position > end:
            raise OffsetsBeyondEnd(
                f"{at[0]}, partition {at[1]} ends at offset {end}, before offset {position}, the next to read"
            )
        if first <= position:
            reason = f"the broker has no offset {position}, although it lists those from {first} to {end}"
            self._failed("ListOffsets", at, BrokerError(at[0], NO_ANSWER, reason))
            return
        to = min(first, self._ends.get(at, NO_END))
        self.deleted[at] += to - position
        self._next[at] = self.positions[at] = Position(to)

    async def _offset(self, at: TopicPartition, time: int) -> int | None:
        """One that the leader lists; None if it does not answer now."""
        attempt = self._client.attempt()
        leaders = (await self._client.leaders([at[0]], attempt))[at[0]].leaders
        if at[1] >= len(leaders) or leaders[at[1]] < 0:
            self._failed("Metadata", at, BrokerError(at[0], NO_LEADER))
            return None
        try:
            response = await self._client.send(leaders[at[1]], list_offsets(at, time), attempt)
        except ConnectionLost as error:
            self._failed("ListOffsets", at, BrokerError(at[0], NO_ANSWER, str(error)))
            return None
        for topic in response.topics or ():
            for partition in topic.partitions or ():
                if (topic.name, partition.partition_index) == at:
                    if not partition.error_code:
                        return int(partition.offset)
                    self._failed("ListOffsets", at, BrokerError(at[0], partition.error_code))
                    return None
        self._failed("ListOffsets", at, BrokerError(at[0], NO_ANSWER, "the answer lacks the partition"))
        return None

    async def _drop_requests(self) -> None:
        """Forget the requests on their way: a broker answers a connection in order, so a new one need not wait."""
        for node, session in list(self._sessions.items()):
            if session.is_asked:
                self._client.disconnect(node)
                self._sessions[node] = FetchSession(session.id)

    async def _close_sessions(self) -> None:
        attempt = Attempt(time.monotonic() + CLOSING_S)
        for node, session in self._sessions.items():
            if session.is_asked:  # a long poll: another connection need not wait for it
                self._client.disconnect(node)
            if (request := session.closing_request()) is not None:
                with suppress(ConnectionLost, JobError):  # the broker closes the session by itself, later
                    await self._client.send(node, request, attempt, "Fetch")
