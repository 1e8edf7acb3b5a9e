"""A fetcher reads each committed record once, whatever becomes of leaders, sessions and connections, or says why not.

Connections, requests and answers are real; sockets, brokers and the clock are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest
from kafka import errors
from kafka.protocol.metadata import ApiVersionsRequest

from streaming.errors import BrokerUnreachable, Forbidden, JobError, OffsetsBeyondEnd, TopicMissing, Unreadable
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import Position
from streaming.reading.decoder import PIECE_BYTES
from streaming.reading.fetcher import Fetcher, LogEnd
from streaming.reading.requests import FetchLimits
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, consumer_records
from tests.support.doubles.fetch_brokers import FetchBrokers, Log
from tests.support.doubles.fetched_batches import TRANSACTIONAL, batch, marker
from tests.support.doubles.wire import HOSTS, PORT, Frame, Wire, whole

ADDRESS = ",".join(f"{host}:{PORT}" for host in HOSTS.values())
SOURCES = {"events": EVENTS, "changes": SUBSCRIPTIONS}
A, B, C = ("events", 0), ("events", 1), ("changes", 0)
SMALL = FetchLimits(answer_bytes=1, partition_bytes=1)  # a batch an answer
WAIT_S = 0.5


def records(*offsets: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(0, offset, 1_000, b"k", b"%d" % offset) for offset in offsets]


class Stage:
    """Brokers with partitions A and C on one of them and B on the other, each with three records in two batches."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.brokers = FetchBrokers()
        self.logs = {A: Log(0), B: Log(1), C: Log(0)}
        for log in self.logs.values():
            log.append(records(0, 1))
            log.append(records(2), "lz4")
        self.brokers.partition_logs |= self.logs
        self.wire = Wire(self.brokers)
        self.wire.install(patch)
        self.fetchers: list[Fetcher] = []

    def fetcher(
        self,
        *at: TopicPartition,
        begin: int = 0,
        ends: Mapping[TopicPartition, int] = MappingProxyType({}),
        limits: FetchLimits = FetchLimits(),  # noqa: B008
        options: Mapping[str, str] = MappingProxyType({}),
        piece_bytes: int = PIECE_BYTES,
    ) -> Fetcher:
        positions = dict.fromkeys(at or self.logs, Position(begin))
        client = Client(ADDRESS, options)
        self.fetchers.append(Fetcher(client, SOURCES, positions, ends=ends, limits=limits, piece_bytes=piece_bytes))
        return self.fetchers[-1]

    def read(self, fetcher: Fetcher, n: int, most_polls: int = 300) -> dict[TopicPartition, list[int]]:
        """The offsets of the next n records."""
        read: dict[TopicPartition, list[int]] = {}
        for _ in range(most_polls):
            if sum(map(len, read.values())) >= n:
                return read
            if (item := fetcher.poll(WAIT_S)) is not None:
                sources = item.rows["source"].to_pylist()
                for source, record in zip(sources, consumer_records(item.rows), strict=True):
                    assert record.value == b"%d" % record.offset
                    topic = "events" if source == EVENTS else "changes"
                    read.setdefault((topic, record.partition), []).append(record.offset)
        raise AssertionError(f"{read} after {most_polls} polls, {fetcher.errors}")

    def asked(self, since: int = 0) -> list[set[TopicPartition]]:
        """The partitions that Fetch requests named."""
        return [
            {(topic.topic, partition.partition) for topic in request.topics for partition in topic.partitions}
            for _, request in self.brokers.requests[since:]
        ]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    for fetcher in made.fetchers:
        fetcher.close()
    assert all(socket.closed for socket in made.wire.sockets)
    assert made.brokers.sessions == {}


def test_partitions_of_several_topics_and_brokers_are_read(stage: Stage) -> None:
    fetcher = stage.fetcher()
    assert stage.read(fetcher, 9) == {A: [0, 1, 2], B: [0, 1, 2], C: [0, 1, 2]}
    assert fetcher.positions == dict.fromkeys((A, B, C), Position(3, 0))
    assert fetcher.log_ends == dict.fromkeys((A, B, C), LogEnd(3, 3))
    assert not fetcher.is_behind()
    assert fetcher.poll(WAIT_S) is None
    stage.logs[B].append(records(3))
    assert stage.read(fetcher, 1) == {B: [3]}
    assert fetcher.errors == {}


def test_requests_of_a_session_name_what_has_changed(stage: Stage) -> None:
    fetcher = stage.fetcher(A, C)
    stage.read(fetcher, 6)
    fetcher.poll(WAIT_S)
    stage.logs[C].append(records(3))
    stage.read(fetcher, 1)
    fetcher.poll(WAIT_S)
    assert stage.asked()[:2] == [{A, C}, {A, C}]
    assert {C} in stage.asked()[2:]
    assert set() in stage.asked()[2:]
    assert {A} not in stage.asked()
    assert len(stage.brokers.sessions) == 1


@pytest.mark.parametrize("opens", [True, False])
def test_a_partition_with_much_to_read_does_not_starve_others(stage: Stage, opens: bool) -> None:
    """Brokers fill answers in the order of the request, or of the session."""
    stage.brokers.opens = opens
    for offset in range(3, 20):
        stage.logs[A].append(records(offset))
    fetcher = stage.fetcher(A, C, limits=SMALL)
    first = stage.read(fetcher, 7)
    assert first[C] == [0, 1, 2]
    assert len(stage.read(fetcher, 23 - 7)[A]) == 16


def test_what_was_read_ahead_is_dropped_for_other_positions_and_kept_for_the_same(stage: Stage) -> None:
    stage.logs[A].append(records(3, 4, 5), "lz4")
    fetcher = stage.fetcher(A, piece_bytes=1)  # record by record
    assert stage.read(fetcher, 4) == {A: [0, 1, 2, 3]}
    fetcher.assign(SOURCES, fetcher.positions)
    asked = len(stage.brokers.requests)
    assert stage.read(fetcher, 1) == {A: [4]}
    assert len(stage.brokers.requests) == asked
    fetcher.assign(SOURCES, {A: Position(1), B: Position(2)})
    assert stage.read(fetcher, 6) == {A: [1, 2, 3, 4, 5], B: [2]}
    fetcher.assign(SOURCES, {A: Position(0)}, {A: 2})
    assert stage.read(fetcher, 2) == {A: [0, 1]}
    assert fetcher.is_done()


def test_an_answer_to_a_dropped_request_is_not_read(stage: Stage) -> None:
    fetcher = stage.fetcher(A, B)
    fetcher.poll(0.0)  # does not wait for the answers
    assert any(session.is_asked for session in fetcher._sessions.values())
    fetcher.assign(SOURCES, {A: Position(2)})
    assert stage.read(fetcher, 1) == {A: [2]}
    assert fetcher.poll(WAIT_S) is None
    assert fetcher.errors == {}


@pytest.mark.parametrize("what", ["forgotten", "another epoch"])
def test_a_session_that_the_broker_does_not_know_is_opened_again(stage: Stage, what: str) -> None:
    fetcher = stage.fetcher(A)
    stage.read(fetcher, 3)
    if what == "forgotten":
        stage.brokers.sessions.clear()
    else:
        for session in stage.brokers.sessions.values():
            session.epoch = 77
    stage.logs[A].append(records(3))
    assert stage.read(fetcher, 1) == {A: [3]}
    assert sum(fetcher.errors.values()) == 1
    assert len(stage.brokers.sessions) == 1


def test_a_partition_that_moves_to_another_leader_is_read_there(stage: Stage) -> None:
    fetcher = stage.fetcher(limits=SMALL)
    n = sum(map(len, stage.read(fetcher, 2).values()))
    stage.logs[A].leader, stage.logs[A].epochs = 1, [(0, 0), (1, 3)]
    stage.logs[A].append(records(3))
    assert stage.read(fetcher, 10 - n)[A][-2:] == [2, 3]
    assert fetcher.positions[A] == Position(4, 1)
    assert fetcher.errors["Fetch NOT_LEADER_FOR_PARTITION"]
    assert stage.brokers.requests[-1][1].session_id


def test_a_lost_connection_is_opened_again(stage: Stage) -> None:
    fetcher = stage.fetcher(A, limits=SMALL)
    lost = iter([False, True, False, True])
    stage.wire.lose = lambda name: name == "Fetch" and next(lost, False)
    stage.logs[A].append(records(3))
    assert stage.read(fetcher, 4) == {A: [0, 1, 2, 3]}
    assert fetcher.errors["Fetch NETWORK_EXCEPTION"]


def test_a_broker_that_is_down_does_not_hold_up_others_and_ends_in_an_error(stage: Stage) -> None:
    fetcher = stage.fetcher(options={"socket.connection.setup.timeout.ms": "1000"})
    stage.read(fetcher, 9)
    stage.wire.down.add(HOSTS[1])
    stage.wire.lose = lambda name: name == "Fetch" and stage.brokers.node == 1
    stage.logs[A].append(records(3))
    begin = stage.brokers.now
    assert stage.read(fetcher, 1) == {A: [3]}
    assert stage.brokers.now < begin + 2
    with pytest.raises(
        BrokerUnreachable, match="events, partition 1 could not be read for 60 s; last error: Fetch: "
    ) as raised:
        stage.read(fetcher, 1)
    assert raised.value.retry
    assert 50 < stage.brokers.now - begin < 80
    fetcher.close()
    stage.brokers.sessions.clear()


def test_a_partition_without_a_leader_is_waited_for(stage: Stage) -> None:
    stage.logs[A].leader = -1
    fetcher = stage.fetcher(A, B)
    assert stage.read(fetcher, 3) == {B: [0, 1, 2]}
    stage.logs[A].leader = 1
    assert stage.read(fetcher, 3) == {A: [0, 1, 2]}


def test_records_that_were_deleted_are_counted_and_passed(stage: Stage) -> None:
    stage.logs[A].delete_before(2)
    fetcher = stage.fetcher(A, B)
    assert stage.read(fetcher, 4) == {A: [2], B: [0, 1, 2]}
    assert fetcher.deleted == {A: 2}


def test_a_bounded_read_whose_records_were_deleted_ends(stage: Stage) -> None:
    stage.logs[A].delete_before(2)
    fetcher = stage.fetcher(A, ends={A: 1})
    while not fetcher.is_done():
        assert fetcher.poll(WAIT_S) is None
    assert fetcher.deleted == {A: 1}


def test_a_position_beyond_the_end_is_an_error(stage: Stage) -> None:
    with pytest.raises(OffsetsBeyondEnd, match="events, partition 0 ends at offset 3, before offset 7"):
        stage.read(stage.fetcher(A, begin=7), 1)


@pytest.mark.parametrize("with_another", [False, True])
def test_a_log_that_lost_what_was_read_is_an_error(stage: Stage, with_another: bool) -> None:
    """Also if the fetcher was told meanwhile to go on from the same offset, and with another partition."""
    fetcher = stage.fetcher(A)
    stage.read(fetcher, 3)
    if with_another:
        fetcher.assign(SOURCES, {A: Position(3), B: Position(3)})
    stage.logs[A].truncate(2)
    stage.logs[A].append(records(2, 3, 4))
    reason = "from offset 2 on the leader has other records: an unclean leader election lost records"
    with pytest.raises(OffsetsBeyondEnd, match=reason):
        stage.read(fetcher, 1)


def test_a_new_leader_with_all_records_is_no_error(stage: Stage) -> None:
    fetcher = stage.fetcher(A)
    stage.read(fetcher, 3)
    stage.logs[A].epochs.append((1, 3))
    stage.logs[A].append(records(3))
    assert stage.read(fetcher, 1) == {A: [3]}


class TestReplicas:
    RACK = MappingProxyType({"client.rack": "here", "metadata.max.age.ms": "10000"})

    @pytest.fixture
    def fetcher(self, stage: Stage) -> Fetcher:
        log = stage.logs[A]
        log.preferred, log.replicas = 1, (1,)
        fetcher = stage.fetcher(A, options=self.RACK)
        assert stage.read(fetcher, 3) == {A: [0, 1, 2]}
        return fetcher

    def test_the_replica_that_the_leader_names_is_asked(self, stage: Stage, fetcher: Fetcher) -> None:
        assert [node for node, _ in stage.brokers.requests][:2] == [0, 1]
        assert all(request.rack_id == "here" for _, request in stage.brokers.requests)

    def test_the_leader_is_asked_again_from_time_to_time(self, stage: Stage, fetcher: Fetcher) -> None:
        n = len(stage.brokers.requests)
        for _ in range(60):
            fetcher.poll(WAIT_S)
        assert {node for node, _ in stage.brokers.requests[n:]} == {0, 1}

    @pytest.mark.parametrize("code", [errors.OffsetOutOfRangeError.errno, errors.NotLeaderForPartitionError.errno])
    def test_if_it_has_not_the_records_the_leader_is_asked(self, stage: Stage, fetcher: Fetcher, code: int) -> None:
        stage.logs[A].preferred, stage.logs[A].errors = -1, {1: code}
        stage.logs[A].append(records(3))
        assert stage.read(fetcher, 1) == {A: [3]}
        assert stage.brokers.requests[-1][0] == 0
        assert fetcher.deleted == {}


def test_the_next_request_is_sent_before_records_are_returned_only_if_there_are_more(stage: Stage) -> None:
    fetcher = stage.fetcher(A, limits=SMALL)
    assert fetcher.poll(WAIT_S) is not None
    assert fetcher.is_behind()
    assert len(stage.brokers.requests) == 2
    assert fetcher.poll(WAIT_S) is not None
    assert not fetcher.is_behind()
    assert len(stage.brokers.requests) == 2


def test_records_come_before_the_error_of_the_next_request(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise BrokerUnreachable("for the test")

    fetcher = stage.fetcher(A, limits=SMALL)
    monkeypatch.setattr(fetcher, "_ask_ahead", fail)
    item = fetcher.poll(WAIT_S)
    assert item is not None
    assert item.rows["offset"].to_pylist() == [0, 1]
    assert fetcher.positions[A].offset == 2
    with pytest.raises(BrokerUnreachable, match="for the test"):
        fetcher.poll(WAIT_S)


def test_a_bounded_read_ends_exactly_there(stage: Stage) -> None:
    fetcher = stage.fetcher(A, B, ends={A: 1, B: 3})
    assert stage.read(fetcher, 4) == {A: [0], B: [0, 1, 2]}
    assert fetcher.is_done()
    assert {at: position.offset for at, position in fetcher.positions.items()} == {A: 1, B: 3}
    n = len(stage.brokers.requests)
    assert fetcher.poll(WAIT_S) is None
    assert len(stage.brokers.requests) == n


def test_aborted_transactions_are_dropped(stage: Stage) -> None:
    log = stage.logs[A]
    log.append(records(3, 4), producer=5, attributes=TRANSACTIONAL)
    log.append_bytes(marker(5, 5, commit=False), 5, 6)
    log.append(records(6), producer=5, attributes=TRANSACTIONAL)
    log.aborted, log.stable = [(5, 3, 5)], 6
    fetcher = stage.fetcher(A)
    assert stage.read(fetcher, 3) == {A: [0, 1, 2]}
    assert fetcher.positions[A].offset == 6
    assert fetcher.log_ends[A] == LogEnd(6, 7)
    log.stable = None
    assert stage.read(fetcher, 1) == {A: [6]}


def test_a_corrupted_batch_is_an_error_after_the_good_ones(stage: Stage) -> None:
    spoiled = bytearray(batch(records(3)))
    spoiled[-1] ^= 1
    stage.logs[A].append_bytes(bytes(spoiled), 3, 4)
    fetcher = stage.fetcher(A)
    assert stage.read(fetcher, 3) == {A: [0, 1, 2]}
    for _ in range(2):
        with pytest.raises(Unreadable, match="events, partition 0: the record batch at offset 3 has a wrong checksum"):
            fetcher.poll(WAIT_S)
    assert fetcher.positions[A].offset == 3


def test_a_batch_that_never_ends_is_an_error(stage: Stage) -> None:
    stage.logs[A].append_bytes(batch(records(3))[:8] + b"\x7f\0\0\0" + bytes(60), 3, 4)
    fetcher = stage.fetcher(A)
    stage.read(fetcher, 3)
    with pytest.raises(Unreadable, match="events, partition 0, offset 3: the broker returns no whole record batch"):
        stage.read(fetcher, 1)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (errors.CorruptRecordError.errno, Unreadable, "the broker cannot read the record batch at offset 0"),
        (errors.TopicAuthorizationFailedError.errno, Forbidden, "SECURITY.md"),
        (errors.UnknownTopicOrPartitionError.errno, TopicMissing, "events has no partition 0"),
        (errors.KafkaStorageError.errno, BrokerUnreachable, "kafka storage"),
        (errors.UnknownError.errno, BrokerUnreachable, "unknown"),
        (errors.OffsetOutOfRangeError.errno, BrokerUnreachable, "no offset 0, although it lists those from 0 to 3"),
    ],
)
def test_an_error_of_a_partition_that_lasts_is_raised(stage: Stage, code: int, error: Any, text: str) -> None:
    stage.logs[A].errors = {0: code}
    fetcher = stage.fetcher(A)
    with pytest.raises(error, match=text):
        stage.read(fetcher, 1, most_polls=3_000)


def test_an_error_of_the_program_amid_a_request_is_raised(stage: Stage) -> None:
    """Such as one of a token provider during re-authentication, which kafka-python passes on."""
    fetcher = stage.fetcher(A)
    assert stage.read(fetcher, 3) == {A: [0, 1, 2]}

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with patch.object(fetcher._client, "send", broken), pytest.raises(ZeroDivisionError):
        stage.read(fetcher, 1)


def test_a_topic_that_does_not_exist_is_an_error(stage: Stage) -> None:
    del stage.brokers.partition_logs[C]
    with pytest.raises(TopicMissing, match="changes"):
        stage.read(stage.fetcher(C), 1)


def test_a_large_answer_is_returned_piece_by_piece_and_the_next_request_comes_after_the_last(stage: Stage) -> None:
    for offset in range(3, 10):
        stage.logs[A].append([record._replace(value=b"%d" % record.offset) for record in records(offset)])
    fetcher = stage.fetcher(A, piece_bytes=10, ends={A: 9})
    offsets = []
    for _ in range(4):
        item = fetcher.poll(WAIT_S)
        assert item is not None
        offsets += item.rows["offset"].to_pylist()
        assert fetcher.positions[A].offset == offsets[-1] + 1
        assert len(stage.brokers.requests) == 1
    offsets += stage.read(fetcher, 9 - len(offsets))[A]
    assert offsets == list(range(9))


@pytest.mark.parametrize("piece_bytes", [1_000, 65_535, 1 << 30])
def test_a_large_answer_arrives_in_any_parts(stage: Stage, piece_bytes: int) -> None:
    def in_parts(name: str, response: Any) -> Iterator[Frame]:
        for _, frame in whole(name, response):
            for at in range(0, len(frame or b""), piece_bytes):
                yield 0.001, (frame or b"")[at : at + piece_bytes]

    stage.wire.spoil = in_parts
    values = [bytes([i]) * 200_000 for i in range(3)]
    stage.logs[A].append([record._replace(value=values[i]) for i, record in enumerate(records(3, 4, 5))])
    item = stage.fetcher(A, begin=3).poll(10)
    assert item is not None
    assert item.rows["value"].to_pylist() == values


def test_a_poll_ends_in_time_and_the_answer_comes_with_a_later_one(stage: Stage) -> None:
    fetcher = stage.fetcher(A, begin=3)
    begin = stage.brokers.now
    assert fetcher.poll(0.1) is None
    assert stage.brokers.now - begin < 0.2
    assert fetcher.poll(0.0) is None
    stage.logs[A].append(records(3))
    assert stage.read(fetcher, 1) == {A: [3]}
    assert {A} in stage.asked()


def test_a_fetcher_that_is_closed_during_a_long_poll_closes_its_session_at_once(stage: Stage) -> None:
    fetcher = stage.fetcher(A, limits=FetchLimits(max_wait_ms=30_000))
    stage.read(fetcher, 3)
    fetcher.poll(0.1)
    begin = stage.brokers.now
    fetcher.close()
    assert stage.brokers.now - begin < 0.5
    assert stage.brokers.sessions == {}


def spoiled(stage: Stage, change: Callable[[Any], None]) -> None:
    """Change each answer to a Fetch request that has partitions."""

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        if name == "Fetch" and response.responses:
            change(response)
        return whole(name, response)

    stage.wire.spoil = spoil


@pytest.mark.parametrize("again", ["partitions", "topics"])
def test_an_answer_that_names_a_partition_twice_gives_its_records_once(stage: Stage, again: str) -> None:
    def change(response: Any) -> None:
        if again == "topics":
            response.responses = response.responses * 2
        else:
            for topic in response.responses:
                topic.partitions = topic.partitions * 2

    spoiled(stage, change)
    assert stage.read(stage.fetcher(), 9) == {A: [0, 1, 2], B: [0, 1, 2], C: [0, 1, 2]}


@pytest.mark.parametrize("opens", [True, False])
def test_a_partition_that_answers_lack_is_asked_for_again(stage: Stage, opens: bool) -> None:
    """A broker names each partition of a request without a session, and of the first one of a session."""
    stage.brokers.opens = opens
    left = [3]

    def change(response: Any) -> None:
        if left[0]:
            left[0] -= 1
            response.responses = []

    spoiled(stage, change)
    fetcher = stage.fetcher(A)
    assert stage.read(fetcher, 3) == {A: [0, 1, 2]}
    assert fetcher.errors == {"Fetch NETWORK_EXCEPTION": 3}


def test_a_partition_that_all_answers_lack_is_an_error(stage: Stage) -> None:
    def change(response: Any) -> None:
        response.responses = []

    spoiled(stage, change)
    with pytest.raises(BrokerUnreachable, match=r"events, partition 0 .* the answer lacks partition 0"):
        stage.read(stage.fetcher(A), 1, most_polls=3_000)


@pytest.mark.parametrize("replica", [7, 2**31 - 1])
def test_a_replica_that_does_not_exist_is_an_error_if_the_leader_insists(stage: Stage, replica: int) -> None:
    def change(response: Any) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                partition.preferred_read_replica, partition.records = replica, b""

    spoiled(stage, change)
    with pytest.raises(BrokerUnreachable, match="events, partition 0 could not be read"):
        stage.read(stage.fetcher(A), 1, most_polls=3_000)


def test_a_replica_with_a_negative_number_is_none(stage: Stage) -> None:
    left = [1]

    def change(response: Any) -> None:
        if left[0]:
            left[0] -= 1
            (topic,) = response.responses
            (partition,) = topic.partitions
            partition.preferred_read_replica, partition.records = -5, b""

    stage.brokers.opens = False
    spoiled(stage, change)
    assert stage.read(stage.fetcher(A), 3) == {A: [0, 1, 2]}


@pytest.mark.parametrize("first", [-1, 2**62])
def test_ends_of_a_log_that_contradict_each_other_are_asked_for_again(stage: Stage, first: int) -> None:
    stage.logs[A].delete_before(2)
    left = [2]

    def spoil(name: str, response: Any) -> Iterable[Frame]:
        if name == "ListOffsets" and left[0] and response.topics[0].partitions[0].offset == 2:
            left[0] -= 1
            response.topics[0].partitions[0].offset = first
        return whole(name, response)

    stage.wire.spoil = spoil
    fetcher = stage.fetcher(A)
    assert stage.read(fetcher, 1) == {A: [2]}
    assert fetcher.deleted == {A: 2}


def test_an_error_of_transactions_is_named_as_the_brokers(stage: Stage) -> None:
    """Only a producer's request is about transaction.timeout.ms."""

    def change(response: Any) -> None:
        response.error_code = errors.InvalidTransactionTimeoutError.errno

    stage.brokers.opens = False
    spoiled(stage, change)
    with pytest.raises(JobError, match="Kafka rejected Fetch of events"):
        stage.read(stage.fetcher(A), 1)


@pytest.mark.parametrize("version", range(5))
def test_the_double_answers_in_any_version_what_that_version_has(stage: Stage, version: int) -> None:
    """The features of transactions are of version 3 on."""
    request = ApiVersionsRequest(version=version, client_software_name="x", client_software_version="1")
    request.with_header(correlation_id=7, client_id="c")
    _, (_, answer) = stage.wire.answer(0, bytes(request.encode(header=True)))
    assert answer is not None
    assert (b"transaction.version" in answer) == (version >= 3)
