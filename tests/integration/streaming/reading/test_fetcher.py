"""A fetcher reads from real brokers what another client reads: every codec, transaction, gap and time."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from rig.broker import EmbeddedBroker, EmbeddedCluster
from streaming.errors import Forbidden, OffsetsBeyondEnd
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.connection.client import Client
from streaming.reading.contract import Position
from streaming.reading.fetcher import Fetcher
from streaming.reading.requests import FetchLimits
from streaming.rows import EVENTS, ConsumerRecord, consumer_records
from tests.integration.conftest import JARS, prefix
from tests.support.doubles.secured import ADMIN, ADMIN_PASSWORD, Right, secured_kafka
from tests.support.patience import PATIENCE_S

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ANY_TIME = {
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "max.message.bytes": "10000000",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.0",
    "max.compaction.lag.ms": "1000",
}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "times of the broker": {"message.timestamp.type": "LogAppendTime"},
    "compacted": COMPACTED,
    "codec of the broker": {"compression.type": "gzip"},
}
LIMITS = {"1 kB": FetchLimits(100, 1, 1 << 10, 1 << 10), "8 MB": FetchLimits(100)}

Records = list[ConsumerRecord]


def topic(kind: str) -> str:
    return kind.replace(" ", "-")


@pytest.fixture(scope="module")
def written(kafka: str) -> Iterator[str]:
    """The prefix of a topic of each kind, with records of every sort."""
    with prefix(kafka) as name:
        new = [Topic(f"{name}.{topic(kind)}", PARTITIONS, 1, ANY_TIME | config) for kind, config in KINDS.items()]
        assert not Topics(kafka, {}).create(new)
        committed = {kind: _write(kafka, f"{name}.{topic(kind)}", Random(kind)) for kind in KINDS}
        admin = AdminClient({"bootstrap.servers": kafka})
        for future in admin.delete_records([TopicPartition(f"{name}.plain", 0, 7)]).values():
            future.result(PATIENCE_S)
        _compacted(kafka, f"{name}.compacted", committed["compacted"])
        yield name


def _write(kafka: str, name: str, r: Random) -> int:
    """The number of records that were committed."""
    committed = 0
    for number, codec in enumerate((*CODECS, *CODECS)):
        options = {"bootstrap.servers": kafka, "compression.type": codec, "message.max.bytes": 10_000_000}
        is_transactional = number >= len(CODECS)
        if is_transactional:
            options["transactional.id"] = f"{name}.{number}"
        producer = Producer(options)
        if is_transactional:
            producer.init_transactions(PATIENCE_S)
        for n in (1, 300):
            if is_transactional:
                producer.begin_transaction()
            for i in range(n):
                key = b"k%d" % r.randrange(40) if name.endswith("compacted") else _text(r, 200)
                # To librdkafka 0 is now.
                time_ms = r.choice([1, 1_700_000_000_000, 2**62, r.randrange(1, 2**41)])
                producer.produce(name, _text(r, 2_000), key, i % PARTITIONS, timestamp=time_ms, headers=_headers(r))
            if n > 1:
                producer.produce(name, b"x" * 900_000, b"large", r.randrange(PARTITIONS))
            producer.flush(PATIENCE_S)
            if is_transactional and (n == 1 or number % 2):
                producer.abort_transaction(PATIENCE_S)
                continue
            if is_transactional:
                producer.commit_transaction(PATIENCE_S)
            committed += n + (n > 1)
        producer.purge()
    return committed


def _text(r: Random, most: int) -> bytes | None:
    return r.choice([None, b"", b"{}", r.randbytes(r.randrange(1, most))])


def _headers(r: Random) -> list[tuple[str, Any]] | None:
    some = [(r.choice(["", "a", "content-type", "ü" * 40]), _text(r, 80)) for _ in range(r.choice([0, 0, 1, 9]))]
    return some or None


def _compacted(kafka: str, name: str, written: int) -> None:
    """Wait until the cleaner has made gaps among the committed records."""
    deadline = time.monotonic() + PATIENCE_S
    while len(_expected(kafka, name)) > written - 200:
        assert time.monotonic() < deadline
        time.sleep(1)


def _expected(kafka: str, name: str, options: Mapping[str, str] = {}) -> Records:
    """The committed records by partition and offset, as confluent-kafka reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "check.crcs": True,
            **options,
        }
    )
    with closing(consumer):
        partitions = len(consumer.list_topics(name, PATIENCE_S).topics[name].partitions)
        consumer.assign([TopicPartition(name, number, 0) for number in range(partitions)])
        records, ended = [], set[int]()
        while len(ended) < partitions:
            for message in consumer.consume(1_000, 1.0):
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                if message.error():
                    ended.add(number)
                    continue
                headers: Any = message.headers() or []
                time_ms = message.timestamp()[1]
                records.append(ConsumerRecord(number, offset, time_ms, message.key(), message.value(), headers))
    return sorted(records, key=lambda record: record[:2])


def fetcher(
    kafka: str,
    name: str,
    begins: Sequence[int] = (0,) * PARTITIONS,
    ends: Mapping[int, int] = {},
    limits: FetchLimits = LIMITS["8 MB"],
    options: Mapping[str, str] = {},
) -> Fetcher:
    positions = {(name, partition): Position(begin) for partition, begin in enumerate(begins)}
    bounds = {(name, partition): end for partition, end in ends.items()}
    return Fetcher(Client(kafka, options), {name: EVENTS}, positions, ends=bounds, limits=limits)


def read(fetcher: Fetcher) -> Records:
    """Return all records before the ends."""
    records: Records = []
    deadline = time.monotonic() + PATIENCE_S
    while len(fetcher.log_ends) < len(fetcher.positions) or fetcher.is_behind():
        if (item := fetcher.poll(1.0)) is not None:
            item.rows.validate(full=True)
            records += [record._replace(headers=list(record.headers)) for record in consumer_records(item.rows)]
        assert time.monotonic() < deadline
    return sorted(records, key=lambda record: record[:2])


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_another_client_reads(kafka: str, written: str, kind: str, limits: str) -> None:
    name = f"{written}.{topic(kind)}"
    expected = _expected(kafka, name)
    assert len(expected) > 100
    with closing(fetcher(kafka, name, limits=LIMITS[limits])) as reader:
        assert read(reader) == expected
        assert reader.errors == {}
        assert reader.deleted == ({(name, 0): 7} if kind == "plain" else {})


def test_it_begins_and_ends_amid_batches(kafka: str, written: str) -> None:
    name = f"{written}.plain"
    expected = _expected(kafka, name)
    for begin in (13, 200):
        ends = dict.fromkeys(range(PARTITIONS), begin + 50)
        with closing(fetcher(kafka, name, [begin] * PARTITIONS, ends)) as reader:
            records: Records = []
            while not reader.is_done():
                if (item := reader.poll(1.0)) is not None:
                    records += [r._replace(headers=list(r.headers)) for r in consumer_records(item.rows)]
            assert {position.offset for position in reader.positions.values()} == {begin + 50}
        wanted = [record for record in expected if begin <= record.offset < begin + 50]
        assert sorted(records, key=lambda record: record[:2]) == wanted


def test_a_position_beyond_the_end_is_an_error(kafka: str, written: str) -> None:
    with closing(fetcher(kafka, f"{written}.plain", [1_000_000])) as reader, pytest.raises(OffsetsBeyondEnd):
        read(reader)


def test_an_open_transaction_holds_back_what_follows(kafka: str, name: str) -> None:
    assert not Topics(kafka, {}).create([Topic(name)])
    plain, open_one = (
        Producer({"bootstrap.servers": kafka}),
        Producer({"bootstrap.servers": kafka, "transactional.id": name}),
    )
    open_one.init_transactions(PATIENCE_S)
    open_one.begin_transaction()
    open_one.produce(name, b"0")
    open_one.flush(PATIENCE_S)
    plain.produce(name, b"1")
    plain.flush(PATIENCE_S)
    with closing(fetcher(kafka, name, [0])) as reader:
        while not reader.log_ends:
            assert reader.poll(1.0) is None
        assert reader.log_ends[name, 0] == (0, 2)
        open_one.commit_transaction(PATIENCE_S)
        values: list[bytes | None] = []
        while len(values) < 2:
            if (item := reader.poll(1.0)) is not None:
                values += item.rows["value"].to_pylist()
    assert values == [b"0", b"1"]


def test_closing_leaves_no_socket_and_no_thread(kafka: str, written: str) -> None:
    gc.collect()
    threads, sockets = threading.active_count(), _sockets()
    reader = fetcher(kafka, f"{written}.plain", limits=FetchLimits(max_wait_ms=int(2000 * PATIENCE_S)))
    read(reader)
    reader.poll(0.1)  # a long poll is on its way
    assert _sockets() > sockets
    begin = time.monotonic()
    reader.close()
    reader.close()
    assert time.monotonic() - begin < PATIENCE_S
    assert threading.active_count() == threads
    assert _sockets() == sockets


def _sockets() -> int:
    return len(psutil.Process().net_connections("tcp"))


def test_it_goes_on_after_the_death_of_a_broker() -> None:
    with EmbeddedBroker(JARS) as broker:
        kafka = broker.bootstrap_servers
        assert not Topics(kafka, {}).create([Topic("events")])
        producer = Producer({"bootstrap.servers": kafka})
        with closing(fetcher(kafka, "events", [0], limits=FetchLimits(5_000))) as reader:
            values: list[bytes | None] = []
            for value in (b"0", b"1"):
                producer.produce("events", value)
                producer.flush(PATIENCE_S)
                while len(values) < int(value) + 1:
                    if (item := reader.poll(1.0)) is not None:
                        values += item.rows["value"].to_pylist()
                if value == b"0":
                    death = threading.Timer(0.5, broker.kill)
                    death.start()
                    while not reader.errors:  # a long poll is on its way
                        assert reader.poll(5.0) is None
                    death.join()
                    broker.restart()
        assert values == [b"0", b"1"]
        assert reader.errors["Fetch NETWORK_EXCEPTION"]


def test_a_secured_broker_is_read_with_the_right_to(tmp_path: Path) -> None:
    with secured_kafka(JARS, tmp_path) as secured:
        kafka, admin = secured.bootstrap_servers, secured.client(ADMIN, ADMIN_PASSWORD)
        assert not Topics(kafka, admin).create([Topic("events")])
        producer = Producer({"bootstrap.servers": kafka, **admin})
        for _ in range(20):
            producer.produce("events", b"x" * 100_000)
        producer.flush(PATIENCE_S)
        secured.add_user("reader", "hunter2-of-the-reader")
        options = secured.client("reader", "hunter2-of-the-reader")
        secured.allow([Right("reader", "topic", "events", "describe")])
        with closing(fetcher(kafka, "events", [0], options=options)) as reader, pytest.raises(Forbidden):
            read(reader)
        secured.allow([Right("reader", "topic", "events", "read")])
        with closing(fetcher(kafka, "events", [0], options=options)) as reader:
            assert read(reader) == _expected(kafka, "events", admin)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_reads_from_the_nearest_replica_and_from_another_leader_after_a_death() -> None:
    """kafka-python leaves the sockets of failed connections to the garbage collector."""
    cluster = EmbeddedCluster(JARS)
    for node, broker in cluster.brokers.items():
        broker._properties = {
            "broker.rack": f"rack-{node}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
        }
    with cluster:
        kafka = cluster.bootstrap_servers
        assert not Topics(kafka, {}).create([Topic("events", PARTITIONS, 3)])
        producer = Producer({"bootstrap.servers": kafka})
        options = {"client.rack": "rack-2", "metadata.max.age.ms": "5000"}
        with closing(fetcher(kafka, "events", limits=LIMITS["1 kB"], options=options)) as reader:
            values: list[bytes | None] = []

            def write_and_read(n: int) -> None:
                for i in range(n):
                    producer.produce("events", b"%d" % (len(values) + i), partition=i % PARTITIONS)
                producer.flush(PATIENCE_S)
                expected, deadline = len(values) + n, time.monotonic() + PATIENCE_S
                while len(values) < expected:
                    assert time.monotonic() < deadline
                    if (item := reader.poll(0.2)) is not None:
                        values.extend(item.rows["value"].to_pylist())

            write_and_read(30)
            for _ in range(10):
                write_and_read(3)
            assert {node for node, session in reader._sessions.items() if session.positions} >= {2}
            leaders = reader._client.run(reader._client.leaders, ["events"], reader._client.attempt())
            assert len({*leaders["events"].leaders}) > 1
            cluster.brokers[2].kill()
            for _ in range(5):
                write_and_read(30)
        assert sorted(values, key=lambda value: int(value or b"")) == [b"%d" % i for i in range(len(values))]
    gc.collect()


def test_a_silent_address_is_left_without_a_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = fetcher(f"127.0.0.1:{server.getsockname()[1]}", "events", [0])
        sockets = _sockets()
        reader._client.start(reader._ask)
        reader._client.run(reader._client._net.sleep, 0.01)
        reader.close()
        gc.collect()
        assert _sockets() <= sockets
