"""Slots on a real broker: what they commit, and what becomes of everything that can go wrong."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import errors

from rig.broker import EmbeddedBroker, free_port
from streaming.documents.records import Record
from streaming.errors import BrokerUnreachable, Fenced, JobError, Unsettled
from streaming.kafka.clients import Cluster, read
from streaming.kafka.topics import Topic, Topics
from streaming.publishing import slot as slot_module
from streaming.publishing.connection import client as client_module
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted, ProducerEpoch, RecordBatches
from streaming.publishing.fencing import committed_offsets, fence_all, slot_name
from streaming.publishing.ownership import Owner
from streaming.publishing.producer import TransactionalProducer
from streaming.publishing.slot import Committed, Slot
from tests.integration.conftest import JARS, delete, prefix
from tests.integration.streaming.publishing.troubled_client import TroubledClient
from tests.support.doubles.plain_batches import batches
from tests.support.patience import PATIENCE_S, until

GONE_S = 1.0
LONG_AGO_MS = 1_700_000_000_000
REQUESTS = ("Produce", "TxnOffsetCommit", "EndTxn")
# Of older brokers; the timeouts of transactions are looked after more often than each 10 s.
VERSION_1 = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class Stage:
    """Topics `out-0`, `out-1` and `events` with two partitions each, and a client."""

    def __init__(self, kafka: str, name: str, replicas: int = 1) -> None:
        self.kafka = kafka
        self.replicas = replicas
        self.topics = Topics(kafka, {})
        self.client = TroubledClient(kafka)
        self.events = f"{name}.events"
        self.out = [f"{name}.out-0", f"{name}.out-1"]
        self.create(self.events, *self.out)
        self.destinations = [(topic, partition) for topic in self.out for partition in range(2)]
        self.group = f"{name}.query"

    def create(self, *topics: str, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        assert not self.topics.create([Topic(topic, 2, self.replicas, settings) for topic in topics])
        while {*topics} - self.client.partitions(topics).keys():  # a broker hears of a topic a moment after it is made
            time.sleep(0.01)

    def slot(self, number: int = 0, client: Client | None = None) -> Slot:
        name = slot_name(self.group, number)
        return Slot(client or self.client, name, self.group, timeout_ms=int(1000 * PATIENCE_S))

    def publish(self, producer: ProducerEpoch, values: Sequence[bytes], offset: int = 0) -> Committed:
        """A value to each destination in turn."""
        some = batches(producer, [(at, [value]) for at, value in enumerate(values)])
        offsets = {(self.events, 0): offset} if offset else {}
        return self.slot().publish(producer, [some], self.destinations, offsets)

    def read(self, *topics: str) -> list[bytes]:
        """Return the committed records, sorted."""
        records = read(Cluster(self.kafka, {}), topics or self.out, follow=False)
        return sorted(record.value() or b"" for record in records if record is not None)

    def committed(self) -> dict[int, tuple[int, str | None]]:
        """Offset and note of the partitions of the events, as librdkafka reads them."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.group})
        with closing(consumer):
            positions = consumer.committed([Position(self.events, partition) for partition in range(2)], PATIENCE_S)
        return {p.partition: (p.offset, p.metadata) for p in positions if p.offset >= 0}

    def offset(self) -> int:
        """The committed one of partition 0, once no transaction is open; else 0."""
        return sum(offset for offset, _ in committed_offsets(self.client, self.group, [(self.events, 0)]).values())


@pytest.fixture(scope="module")
def older_kafka() -> Iterator[str]:
    """Bootstrap servers of a cluster whose transactions are of version 1."""
    with EmbeddedBroker(JARS, properties=VERSION_1, format=("--feature", "transaction.version=1")) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=[2, 1], ids=lambda version: f"transactions of version {version}")
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def stage(request: pytest.FixtureRequest, version: int) -> Iterator[Stage]:
    kafka = request.getfixturevalue("kafka" if version == 2 else "older_kafka")
    with prefix(kafka) as name:
        stage = Stage(kafka, name)
        with closing(stage.client):
            yield stage


@pytest.fixture
def soon_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_module, "GONE_S", GONE_S)
    monkeypatch.setattr(client_module, "GONE_S", GONE_S)


def test_records_and_offsets_are_committed_together(stage: Stage, version: int) -> None:
    slot = stage.slot()
    producer = slot.open()
    some = batches(producer, [(0, [b"a", b"b"]), (1, [b"c"]), (3, [b"d"])])
    first, second = ((stage.events, partition) for partition in range(2))
    notes = {first: "mine", second: "its own"}
    done = slot.publish(producer, [some], stage.destinations, {first: 5, second: 7}, notes)
    assert stage.read() == [b"a", b"b", b"c", b"d"]
    assert stage.committed() == {0: (5, "mine"), 1: (7, "its own")}
    assert (done.records, done.bytes) == (4, len(some.data))
    assert done.sent_at <= done.committed_at
    again = slot.publish(done.producer, [batches(done.producer, [(0, [b"e"])])], stage.destinations, {})
    assert stage.read() == [b"a", b"b", b"c", b"d", b"e"]
    assert again.producer != done.producer != producer
    assert stage.client.transaction_version() == version


def test_notes_are_read_as_they_were_written_by_slots_and_by_librdkafka(stage: Stage) -> None:
    slot = stage.slot()
    producer = slot.open()
    at = (stage.events, 0)
    for note in ("mine", "x" * 36, "Grüße"):
        producer = slot.publish(producer, [], stage.destinations, {at: 5}, {at: note}).producer
        assert stage.committed() == {0: (5, note)}
        assert committed_offsets(stage.client, stage.group, [at, (stage.events, 1)]) == {at: (5, note)}
    consumer = Consumer({"bootstrap.servers": stage.kafka, "group.id": stage.group})
    with closing(consumer):
        consumer.commit(offsets=[Position(*at, 6, "of librdkafka")], asynchronous=False)
    assert committed_offsets(stage.client, stage.group, [at]) == {at: (6, "of librdkafka")}


def test_offsets_that_need_not_be_stable_are_read_while_a_transaction_is_open(stage: Stage) -> None:
    producer = stage.publish(stage.slot().open(), [b"a"], offset=5).producer
    at, seen = (stage.events, 0), []
    with closing(Client(stage.kafka, {})) as other:
        read = partial(committed_offsets, other, stage.group, [at])
        stage.client.before["EndTxn"] = lambda: seen.append(read(stable=False))
        stage.publish(producer, [b"b"], offset=6)
        assert seen == [{at: (5, "")}]
        assert read() == {at: (6, "")}  # once the commit shows


def test_nothing_to_commit_opens_no_transaction(stage: Stage) -> None:
    producer = stage.slot().open()
    stage.client.sent.clear()
    done = stage.slot().publish(producer, [batches(producer, [])], stage.destinations, {})
    assert done.producer == producer
    assert not set(stage.client.sent) & {*REQUESTS, "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn"}


def test_pieces_are_one_transaction_and_each_destination_keeps_its_order(stage: Stage) -> None:
    producer = stage.slot().open()
    sequences: dict[int, int] = {}
    seen: list[list[bytes]] = []

    def pieces() -> Iterator[RecordBatches]:
        for piece in range(3):
            seen.append(stage.read())
            numbers = [b"%d" % (10 * piece + i) for i in range(6)]
            yield batches(producer, [(0, numbers[:2]), (0, numbers[2:3]), (0, numbers[3:]), (2, [])][:3], sequences)

    done = stage.slot().publish(producer, pieces(), stage.destinations, {})
    assert seen == [[], [], []]
    records = [r for r in read(Cluster(stage.kafka, {}), stage.out, follow=False) if r is not None]
    assert [record.value() for record in records] == [b"%d" % (10 * piece + i) for piece in range(3) for i in range(6)]
    assert done.records == 18


def test_large_requests_are_sent_in_parts(stage: Stage) -> None:
    with closing(TroubledClient(stage.kafka, {"message.max.bytes": "1000"})) as client:
        slot = stage.slot(client=client)
        producer = slot.open()
        some = batches(producer, [(at, [b"%d" % at * 400, b"x"]) for at in range(4)])
        slot.publish(producer, [some], stage.destinations, {})
        assert client.sent["Produce"] >= 2
        assert 500 < client.largest_body < 1_500  # all batches have 1,900 bytes
    assert len(stage.read()) == 8


def test_offsets_that_exceed_a_record_batch_of_the_coordinator_are_committed_in_parts(stage: Stage) -> None:
    n, note = 300, "x" * 4_000  # 1.2 MB; brokers take 1 MB, and notes of 4 KB
    wide = f"{stage.events}.wide"
    assert not stage.topics.create([Topic(wide, n, stage.replicas)])
    offsets = {(wide, partition): partition + 1 for partition in range(n)}
    until(lambda: stage.client.partitions([wide], {wide: n}).get(wide) == n)  # a broker hears of it a moment later
    notes = dict.fromkeys(offsets, note)
    producer = stage.slot().open()
    with closing(Client(stage.kafka, {})) as other:
        stage.client.before["EndTxn"] = stage.slot(client=other).open
        with pytest.raises(Unsettled):
            stage.slot().publish(producer, [], stage.destinations, offsets, notes)
    assert committed_offsets(stage.client, stage.group, [*offsets]) == {}  # all parts, or none
    producer = stage.slot().open()
    stage.client.sent.clear()
    done = stage.slot().publish(producer, [], stage.destinations, offsets, notes)
    repeated = sum(n for error, n in done.errors.items() if error.startswith("TxnOffsetCommit "))
    assert stage.client.sent["TxnOffsetCommit"] - repeated == 3
    assert committed_offsets(stage.client, stage.group, [*offsets]) == {at: (n, note) for at, n in offsets.items()}


def test_a_caller_that_fails_leaves_nothing_open(stage: Stage) -> None:
    producer = stage.slot().open()

    def pieces() -> Iterator[RecordBatches]:
        yield batches(producer, [(0, [b"lost"])])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage.slot().publish(producer, pieces(), stage.destinations, {(stage.events, 0): 5})
    assert stage.read() == []
    assert stage.topics.ends(stage.out, PATIENCE_S)[stage.destinations[0]] == 2  # the record and the mark of its end


@pytest.mark.parametrize("request_name", REQUESTS)
def test_who_was_fenced_is_unsettled_at_every_step(stage: Stage, request_name: str) -> None:
    older = stage.slot().open()
    with closing(Client(stage.kafka, {})) as other:
        stage.client.before[request_name] = stage.slot(client=other).open
        with pytest.raises(Unsettled, match=f"{slot_name(stage.group, 0)} was fenced.*(Txn|Produce)"):
            stage.publish(older, [b"never", b"seen"], offset=5)
    assert (stage.read(), stage.offset()) == ([], 0)


def test_a_fenced_producer_cannot_begin(stage: Stage) -> None:
    older = stage.slot().open()
    newer = stage.slot().open()
    for values, offset in (([b"never"], 5), ([], 5), ([b"never"], 0)):
        with pytest.raises(Unsettled):
            stage.publish(older, values, offset)
    stage.publish(newer, [b"seen"], 7)
    assert (stage.read(), stage.offset()) == ([b"seen"], 7)


@pytest.mark.parametrize("request_name", ["Metadata", "FindCoordinator", "InitProducerId", *REQUESTS])
@pytest.mark.parametrize("kind", ["lose_requests", "lose_answers"])
def test_what_was_lost_on_the_way_is_sent_again_and_counts_once(stage: Stage, kind: str, request_name: str) -> None:
    producer = stage.slot().open()
    if request_name in ("Metadata", "FindCoordinator"):
        stage.client._coordinators.clear()
        stage.client._topics.clear()
    getattr(stage.client, kind)[request_name] = 2
    if request_name == "InitProducerId":
        producer = stage.slot().open()
    done = stage.publish(producer, [b"a", b"b", b"c"], offset=5)
    done = stage.publish(done.producer, [b"d", b"e", b"f"], offset=6)
    assert (stage.read(), stage.offset()) == ([b"a", b"b", b"c", b"d", b"e", b"f"], 6)
    assert not getattr(stage.client, kind)[request_name]


@pytest.mark.parametrize(
    ("request_name", "error"),
    [
        ("FindCoordinator", errors.CoordinatorNotAvailableError),
        ("FindCoordinator", errors.CoordinatorLoadInProgressError),
        ("Produce", errors.NotLeaderForPartitionError),
        ("Produce", errors.NotEnoughReplicasAfterAppendError),
        ("Produce", errors.NotEnoughReplicasError),
        ("Produce", errors.ConcurrentTransactionsError),
        ("Produce", errors.RequestTimedOutError),
        ("Produce", errors.UnknownTopicOrPartitionError),
        ("Produce", errors.DuplicateSequenceNumberError),
        ("TxnOffsetCommit", errors.CoordinatorLoadInProgressError),
        ("TxnOffsetCommit", errors.NotCoordinatorError),
        ("TxnOffsetCommit", errors.UnknownTopicOrPartitionError),
        ("EndTxn", errors.ConcurrentTransactionsError),
        ("EndTxn", errors.NotCoordinatorError),
        ("EndTxn", errors.CoordinatorNotAvailableError),
    ],
    ids=lambda value: value if isinstance(value, str) else value.message,
)
def test_errors_that_pass(
    stage: Stage, request_name: str, error: type[errors.BrokerResponseError], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (slot_module, client_module):
        monkeypatch.setattr(module, "GONE_S", PATIENCE_S)  # a busy machine may take longer for two answers
    producer = stage.slot().open()
    stage.client._coordinators.clear()
    stage.client.answer_with[request_name] = [error.errno] * 2
    done = stage.publish(producer, [b"a", b"b", b"c"], offset=5)
    stage.publish(done.producer, [b"d"], offset=6)
    assert (stage.read(), stage.offset()) == ([b"a", b"b", b"c", b"d"], 6)
    if error is not errors.DuplicateSequenceNumberError:
        assert done.errors[f"{request_name} {error.message}"]


def test_a_topic_that_was_never_there_is_gone_after_a_while(stage: Stage, soon_gone: None) -> None:
    missing = [(f"{stage.out[0]}.missing", 0), (f"{stage.out[0]}.too", 0)]
    producer = stage.slot().open()
    some = batches(producer, [(0, [b"a"]), (1, [b"b"]), (2, [b"c"])])
    began = time.monotonic()
    with pytest.raises(Aborted, match="unknown topic or partition") as aborted:
        stage.slot().publish(producer, [some], [stage.destinations[0], *missing], {(stage.events, 0): 5})
    assert time.monotonic() - began >= GONE_S
    assert aborted.value.gone == {topic for topic, _ in missing}
    assert not aborted.value.rejected
    assert (stage.read(), stage.offset()) == ([], 0)
    stage.publish(aborted.value.producer, [b"d"], 5)
    assert (stage.read(), stage.offset()) == ([b"d"], 5)


def test_only_topics_that_are_gone(stage: Stage, soon_gone: None) -> None:
    producer = stage.slot().open()
    with pytest.raises(Aborted) as aborted:
        stage.slot().publish(producer, [batches(producer, [(0, [b"a"])])], [("missing", 0)], {})
    assert aborted.value.gone == {"missing"}
    stage.publish(aborted.value.producer, [b"d"], 5)
    assert (stage.read(), stage.offset()) == ([b"d"], 5)


def test_a_deleted_topic_is_gone_and_one_made_again_is_not(stage: Stage, soon_gone: None) -> None:
    done = stage.publish(stage.slot().open(), [b"a", b"b", b"c", b"d"])
    delete(stage.topics, stage.out[1])
    with pytest.raises(Aborted) as aborted:
        stage.publish(done.producer, [b"e", b"f", b"g"])
    assert aborted.value.gone == {stage.out[1]}
    assert stage.client.partitions([*stage.out, "missing"]) == {stage.out[0]: 2}
    stage.create(stage.out[1])
    stage.publish(aborted.value.producer, [b"h", b"i", b"j"])
    assert stage.read() == [b"a", b"b", b"h", b"i", b"j"]


def test_a_topic_that_is_missing_for_a_moment_twice_is_not_gone(stage: Stage, soon_gone: None) -> None:
    producer = stage.publish(stage.slot().open(), [b"a"]).producer
    sequences: dict[int, int] = {}

    def fail() -> None:
        stage.client.answer_with["Produce"] = [errors.UnknownTopicOrPartitionError.errno]

    def pieces() -> Iterator[RecordBatches]:
        stage.client.before["Produce"] = fail
        yield batches(producer, [(0, [b"b"])], sequences)
        yield batches(producer, [(0, [b"c"])], sequences)  # now the broker has the first
        time.sleep(GONE_S)
        stage.client.before["Produce"] = fail
        yield batches(producer, [(0, [b"d"])], sequences)

    done = stage.slot().publish(producer, pieces(), stage.destinations, {})
    assert stage.read() == [b"a", b"b", b"c", b"d"]
    assert done.errors["Produce UNKNOWN_TOPIC_OR_PARTITION"] == 2


def test_a_topic_made_again_between_transactions(stage: Stage) -> None:
    done = stage.publish(stage.slot().open(), [b"a", b"b", b"c", b"d"])
    delete(stage.topics, stage.out[1])
    stage.create(stage.out[1])
    stage.publish(done.producer, [b"e", b"f", b"g"])
    assert stage.read() == [b"a", b"b", b"e", b"f", b"g"]


@pytest.mark.parametrize(
    ("config", "key", "reason"),
    [
        ({"max_message_bytes": "100"}, b"key", "message size too large"),  # a single record
        ({"cleanup_policy": "compact"}, None, "invalid record"),
        ({"message_timestamp_before_max_ms": "1000"}, b"key", "invalid timestamp"),
    ],
)
def test_a_topic_that_rejects_its_records(stage: Stage, config: dict[str, str], key: bytes | None, reason: str) -> None:
    strict = f"{stage.out[0]}.strict"
    stage.create(strict, **config)
    producer = stage.slot().open()
    some = batches(producer, [(0, [b"a"]), (1, [b"x" * 200]), (2, [b"c"])], key=key, timestamp_ms=LONG_AGO_MS)
    destinations = [stage.destinations[0], (strict, 1), stage.destinations[2]]
    with pytest.raises(Aborted, match=strict) as aborted:
        stage.slot().publish(producer, [some], destinations, {(stage.events, 0): 5})
    assert aborted.value.rejected.keys() == {strict}
    assert not aborted.value.too_large
    assert aborted.value.rejected[strict].startswith(reason)
    assert not aborted.value.gone
    assert (stage.read(*stage.out, strict), stage.offset()) == ([], 0)
    stage.publish(aborted.value.producer, [b"d"], 5)
    assert (stage.read(), stage.offset()) == ([b"d"], 5)


def test_a_batch_of_several_records_that_is_too_large_may_fit_in_parts(stage: Stage) -> None:
    small, tiny = (f"{stage.out[0]}.{name}" for name in ("small", "tiny"))
    stage.create(small, max_message_bytes="500")
    stage.create(tiny, max_message_bytes="100")
    producer = stage.slot().open()
    some = batches(producer, [(0, [b"x" * 200] * 3), (1, [b"x" * 200] * 3), (2, [b"x" * 200])])
    with pytest.raises(Aborted) as aborted:
        stage.slot().publish(producer, [some], [(small, 0), (tiny, 0), (tiny, 1)], {})
    assert aborted.value.too_large == {small}
    assert aborted.value.rejected.keys() == {tiny}  # a single record is too large already


def test_a_topic_that_takes_only_small_batches_gets_these(stage: Stage) -> None:
    small = f"{stage.out[0]}.small"
    stage.create(small, max_message_bytes="20000")
    values = [b"%04d" % n + os.urandom(100) for n in range(1_000)]
    records = [Record(topic, b"key", value, []) for value in values for topic in (stage.out[0], small)]
    TransactionalProducer(stage.client, stage.group).publish(records, {(stage.events, 0): 5})
    assert stage.read(small) == stage.read(stage.out[0]) == values
    assert stage.offset() == 5


@pytest.mark.parametrize("kind", ["lose_requests", "lose_answers"])
def test_an_abort_whose_answer_is_lost(stage: Stage, kind: str) -> None:
    producer = stage.slot().open()
    stage.client.answer_with["Produce"] = [errors.InvalidRecordError.errno]
    getattr(stage.client, kind)["EndTxn"] = 2
    with pytest.raises(Aborted) as aborted:
        stage.publish(producer, [b"a", b"b"], 5)
    stage.publish(aborted.value.producer, [b"c"], 6)
    assert (stage.read(), stage.offset()) == ([b"c"], 6)


def test_a_transaction_that_takes_too_long_is_unsettled(stage: Stage) -> None:
    with closing(Client(stage.kafka, {"transaction.timeout.ms": "1000"})) as client:
        slot = stage.slot(client=client)
        producer = slot.open()

        def pieces() -> Iterator[RecordBatches]:
            yield batches(producer, [(0, [b"late"])])
            yield batches(producer, [(1, [b"too"])])  # now the broker has the first
            deadline = time.monotonic() + PATIENCE_S
            while stage.topics.ends(stage.out, PATIENCE_S)[stage.destinations[0]] == 0:  # until it is aborted
                assert time.monotonic() < deadline
                time.sleep(0.1)

        with pytest.raises(Unsettled, match="took longer than its timeout"):
            slot.publish(producer, pieces(), stage.destinations, {(stage.events, 0): 5})
    assert (stage.read(), stage.offset()) == ([], 0)


def test_settling_ends_what_is_open_and_says_where_the_next_begins(stage: Stage) -> None:
    slots = [stage.slot(number) for number in range(5)]
    at = (stage.events, 0)
    first, *_ = fence_all(stage.client, slots)
    assert committed_offsets(stage.client, stage.group, [at]) == {}
    done = stage.publish(first, [b"a"], 3)

    def pieces() -> Iterator[RecordBatches]:
        yield batches(done.producer, [(0, [b"open"])])
        with closing(Client(stage.kafka, {})) as other:
            fenced.append(fence_all(other, [stage.slot(number, other) for number in range(5)]))

    fenced: list[object] = []
    with pytest.raises(Unsettled):
        stage.slot().publish(done.producer, pieces(), stage.destinations, {at: 9})
    producers = fence_all(stage.client, slots)
    assert committed_offsets(stage.client, stage.group, [at, (stage.events, 1)]) == {at: (3, "")}
    for number, producer in enumerate(producers):
        some = batches(producer, [(0, [b"%d" % number])])
        stage.slot(number).publish(producer, [some], stage.destinations, {at: 4 + number})
    assert (stage.read(), stage.offset()) == ([b"0", b"1", b"2", b"3", b"4", b"a"], 8)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_that_is_killed_in_the_middle_of_a_transaction() -> None:
    with EmbeddedBroker(JARS, port=free_port()) as broker, prefix(broker.bootstrap_servers) as name:
        stage = Stage(broker.bootstrap_servers, name)
        with closing(stage.client):
            producer = stage.slot().open()
            sequences: dict[int, int] = {}

            def pieces() -> Iterator[RecordBatches]:
                yield batches(producer, [(0, [b"a", b"b"]), (2, [b"c"])], sequences)
                yield batches(producer, [(0, [b"d"])], sequences)
                broker.kill()
                broker.restart()
                yield batches(producer, [(0, [b"e"]), (1, [b"f"])], sequences)

            done = stage.slot().publish(producer, pieces(), stage.destinations, {(stage.events, 0): 5})
            stage.publish(done.producer, [b"g"], 6)
            assert (stage.read(), stage.offset()) == ([b"a", b"b", b"c", b"d", b"e", b"f", b"g"], 6)
    gc.collect()


def test_the_partitions_of_topics(stage: Stage) -> None:
    assert stage.client.partitions([*stage.out, "missing"]) == dict.fromkeys(stage.out, 2)
    asked = stage.client.sent["Metadata"]
    assert stage.client.partitions(stage.out) == dict.fromkeys(stage.out, 2)
    assert stage.client.sent["Metadata"] == asked
    assert "missing" not in stage.topics.partitions()


def test_a_topic_with_more_partitions_than_are_known_is_asked_about_again(stage: Stage) -> None:
    assert stage.client.partitions(stage.out) == dict.fromkeys(stage.out, 2)
    admin = AdminClient({"bootstrap.servers": stage.kafka})
    admin.create_partitions([NewPartitions(stage.out[0], 3)])[stage.out[0]].result(PATIENCE_S)
    while Topics(stage.kafka, {}).partitions()[stage.out[0]] < 3:  # a broker hears of it a moment after it is made
        time.sleep(0.01)
    assert stage.client.partitions(stage.out, {stage.out[1]: 2}) == dict.fromkeys(stage.out, 2)
    assert stage.client.partitions(stage.out, {stage.out[0]: 3}) == {stage.out[0]: 3, stage.out[1]: 2}
    done = stage.slot().open()
    some = batches(done, [(4, [b"a"])])
    stage.slot().publish(done, [some], [*stage.destinations, (stage.out[0], 2)], {})
    assert stage.read() == [b"a"]


@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "replaced meanwhile"])
def test_a_driver_suspended_beyond_the_timeout_of_its_transaction_while_a_slot_commits(
    stage: Stage, replaced: bool
) -> None:
    """The driver goes on, or reports that another process has taken over."""
    of_slot, of_driver = [(stage.events, partition) for partition in range(2)]
    producer = stage.slot().open()
    limit = {"transaction.timeout.ms": "1000"}

    def suspended() -> None:
        some = batches(producer, [(2, [b"of the slot"])])
        stage.slot().publish(producer, [some], stage.destinations, {of_slot: 7}, {of_slot: driver.note})
        deadline = time.monotonic() + PATIENCE_S
        while stage.topics.ends(stage.out, PATIENCE_S)[stage.destinations[0]] < 2:  # the record and the end
            assert time.monotonic() < deadline
            time.sleep(0.1)
        if replaced:
            with closing(Client(stage.kafka, limit)) as other:
                Owner(other, stage.group, "b").committed([of_slot, of_driver])

    with closing(TroubledClient(stage.kafka, limit)) as client:
        driver = Owner(client, stage.group, "a")
        driver.slots = 1
        driver.publish([], {of_driver: 5})
        assert driver.committed([of_slot, of_driver]) == {of_driver: 5}
        client.before["EndTxn"] = suspended
        with pytest.raises(Fenced if replaced else Aborted):
            driver.publish([Record(stage.out[0], b"key", b"never seen", [], partition=0)], {of_driver: 6})
        if not replaced:
            driver.publish([Record(stage.out[0], b"key", b"of the driver", [], partition=0)], {of_driver: 6})
            assert driver.committed([of_slot, of_driver]) == {of_slot: 7, of_driver: 6}
    assert stage.read() == [b"of the driver", b"of the slot"][replaced:]


# kafka-python leaves the sockets of failed connections to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_that_does_not_answer(kafka: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    for options, there in (({}, address), ({"security.protocol": "ssl"}, kafka)):
        message = rf"{there} failed for 1 s; last error: Metadata: "
        with closing(Client(there, options, timeout_s=1)) as client, pytest.raises(BrokerUnreachable, match=message):
            Slot(client, "q-0", "q").open()
    gc.collect()


def test_a_timeout_that_the_broker_does_not_allow(kafka: str) -> None:
    client = Client(kafka, {"transaction.timeout.ms": "900001"})
    with closing(client), pytest.raises(JobError, match=r"transaction\.max\.timeout\.ms"):
        Slot(client, "q-0", "q").open()


def test_a_client_is_not_used_after_a_fork(kafka: str) -> None:
    with closing(Client(kafka, {})) as client:
        client.transaction_version()
        child = os.fork()
        if not child:
            try:
                client.transaction_version()
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
