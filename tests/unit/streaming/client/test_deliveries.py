"""Deliveries are read to their end or on and on, and committed as far as they were returned."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from threading import Event, Thread
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from streaming.admin.deliveries import Delivery
from streaming.client.deliveries import Deliveries, GroupChanged
from streaming.errors import BrokerUnreachable, Forbidden, JobError
from streaming.kafka.topics import TIMEOUT_S
from tests.support.doubles.topic import Record


class End:
    """The present end of a partition, or another error in place of a record."""

    def __init__(self, partition: int = 0, code: int = KafkaError._PARTITION_EOF) -> None:
        self._partition, self._code = partition, code

    def error(self) -> KafkaError:
        return KafkaError(self._code)

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 0


class Scripted:
    """A consumer that returns what it was given; a function among it is called, as a rebalance is."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.commits: list[dict[int, int]] = []
        self.committed_before: dict[int, int] = {}
        self.failure: KafkaError | None = None
        self.closed = 0

    def subscribe(self, topics: list[str], on_assign: Callable[..., None], on_revoke: Callable[..., None]) -> None:
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def assign(self, partitions: list[TopicPartition]) -> None: ...

    def poll(self, timeout: float) -> Any:
        if self.script and callable(self.script[0]):
            self.script.pop(0)(self)
            return None
        return self.script.pop(0) if self.script else None

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if self.failure is not None:
            raise KafkaException(self.failure)
        self.commits.append({tp.partition: tp.offset for tp in offsets})
        self.committed_before |= self.commits[-1]
        return offsets

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        known = self.committed_before
        return [TopicPartition(tp.topic, tp.partition, known.get(tp.partition, OFFSET_INVALID)) for tp in partitions]

    def close(self) -> None:
        self.closed += 1


def given(*partitions: int) -> Callable[[Scripted], None]:
    return lambda consumer: consumer.on_assign(consumer, [TopicPartition("t", p) for p in partitions])


def taken(*partitions: int) -> Callable[[Scripted], None]:
    return lambda consumer: consumer.on_revoke(consumer, [TopicPartition("t", p) for p in partitions])


def record(offset: int, partition: int = 0, key: str = "alice") -> Record:
    return Record(key, {"n": offset}, partition, offset)


def of_group(
    *script: Any,
    follow: bool = False,
    only_key: bytes | None = None,
    stop: Event | None = None,
    from_now: Collection[int] = (),
    ends: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> tuple[Deliveries, Scripted]:
    consumer = Scripted(*script)
    untyped: Any = consumer
    deliveries = Deliveries(untyped, "t", only_key, "service", follow, stop or Event())
    deliveries._join(from_now, lambda: ends)
    return deliveries, consumer


def places(deliveries: Deliveries) -> list[tuple[int, int]]:
    return [(d.partition, d.offset) for d in deliveries]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ((given(0), record(0), record(1), End()), [(0, 0), (0, 1)]),
        ((given(0, 1), record(0), End(0), record(0, 1), End(1)), [(0, 0), (1, 0)]),
        ((given(0, 1), End(0), record(0), End(1), record(1), End(0)), [(0, 0), (0, 1)]),
        ((given(0, 1), End(0), taken(0, 1), given(1), record(7, 1), End(1)), [(1, 7)]),
        ((given(0, 1), End(0), taken(0, 1), given(0), record(7), End(0)), [(0, 7)]),
        ((None, given(), None), []),
    ],
    ids=[
        "one partition",
        "two",
        "records after an end",
        "another member takes one",
        "or gives it back",
        "others have all",
    ],
)
def test_a_bounded_reader_ends_at_the_present_end_of_all_its_partitions(
    script: tuple[Any, ...], expected: list[tuple[int, int]]
) -> None:
    deliveries, _ = of_group(*script)
    assert places(deliveries) == expected
    assert deliveries.at_end


def test_a_reader_that_follows_goes_on_until_it_is_stopped() -> None:
    stop = Event()
    deliveries, _ = of_group(given(0), record(0), End(), record(1), End(), follow=True, stop=stop)
    assert next(deliveries).offset == 0
    assert next(deliveries).offset == 1
    assert deliveries.poll(0.0) is None
    stop.set()
    assert list(deliveries) == []


def test_what_was_returned_is_committed_and_no_more() -> None:
    deliveries, consumer = of_group(given(0, 1), record(4), record(9, 1), record(5), follow=True)
    deliveries.commit()
    assert consumer.commits == []
    assert next(deliveries).offset == 4
    deliveries.commit()
    assert (next(deliveries).offset, next(deliveries).offset) == (9, 5)
    deliveries.commit()
    deliveries.commit()
    assert consumer.commits == [{0: 5}, {0: 6, 1: 10}]


def test_records_of_others_in_a_shared_topic_are_passed_over_and_committed() -> None:
    deliveries, consumer = of_group(
        given(0), record(0, key="bob"), record(1), record(2, key="bob"), End(), only_key=b"alice"
    )
    assert places(deliveries) == [(0, 1)]
    deliveries.commit()
    assert consumer.commits == [{0: 3}]


def test_a_partition_that_another_member_has_is_not_committed() -> None:
    deliveries, consumer = of_group(given(0, 1), record(0), record(0, 1), taken(0, 1), given(1), End(1))
    assert places(deliveries) == [(0, 0), (1, 0)]
    deliveries.commit()
    assert consumer.commits == []


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (KafkaError.ILLEGAL_GENERATION, GroupChanged, "the group service has given t to other members"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Forbidden, "the group service cannot commit"),
    ],
)
def test_a_commit_that_fails_says_why_and_may_be_tried_again(code: int, error: type[JobError], text: str) -> None:
    deliveries, consumer = of_group(given(0), record(0), follow=True)
    next(deliveries)
    consumer.failure = KafkaError(code)
    with pytest.raises(error, match=text):
        deliveries.commit()
    consumer.failure = None
    deliveries.commit()
    assert consumer.commits == [{0: 1}]


def test_an_error_of_the_broker_is_raised_and_a_slow_member_joins_again() -> None:
    slow = End(code=KafkaError._MAX_POLL_EXCEEDED)
    deliveries, _ = of_group(given(0), slow, record(0), End(code=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert next(deliveries).offset == 0
    with pytest.raises(Forbidden, match="t cannot be read"):
        next(deliveries)


class Others(Scripted):
    """Has a record of another subscriber whenever it is asked."""

    def poll(self, timeout: float) -> Any:
        return record(0, key="bob")


def test_records_of_others_do_not_lengthen_the_wait() -> None:
    consumer: Any = Others()
    deliveries = Deliveries(consumer, "t", b"alice", None, True, Event())
    deliveries._assign({0: 0})
    assert deliveries.poll(0.01) is None


class Growing(Scripted):
    """A topic with one more partition than the reader was given."""

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None, 1: None})})

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        assert [(one.partition, one.offset) for one in partitions] == [(1, OFFSET_BEGINNING)]
        self.script.append(record(0, 1))


def test_a_reader_without_a_group_reads_added_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.client.deliveries.PARTITIONS_EVERY_S", 0.0)
    consumer: Any = Growing()
    deliveries = Deliveries(consumer, "t", None, None, True, Event())
    deliveries._assign({0: 0})
    assert next(deliveries).partition == 1
    assert deliveries._assigned == {0, 1}


def test_without_a_group_nothing_is_committed_and_what_is_closed_stays_closed() -> None:
    consumer: Any = Scripted(record(0))
    deliveries = Deliveries(consumer, "t", None, None, False, Event())
    deliveries._assign({0: 0})
    with deliveries:
        next(deliveries)
        with pytest.raises(ValueError, match="opened with a group"):
            deliveries.commit()
    deliveries.close()
    assert consumer.closed == 1
    with pytest.raises(ValueError, match="are closed"):
        deliveries.poll(0.0)


def test_a_group_that_begins_now_commits_the_end_of_each_partition_it_has_not_read_yet() -> None:
    ends = {("t", 0): 9, ("t", 1): 7, ("t", 2): 3}
    rebalanced = (given(0, 1), taken(0, 1), given(0, 1, 2), record(3, 1), End(0), End(1), End(2))
    deliveries, consumer = of_group(*rebalanced, from_now=range(2), ends=ends)
    consumer.committed_before[0] = 5
    assert places(deliveries) == [(1, 3)]
    assert consumer.commits == [{1: 7}]  # partition 2 was added later, and is read from its first record on


class Refusing(Scripted):
    """Its answers have an error for each partition."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [self._with_error(tp) for tp in super().committed(partitions, timeout)]

    def _with_error(self, partition: TopicPartition) -> Any:
        error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
        return SimpleNamespace(topic=partition.topic, partition=partition.partition, offset=OFFSET_INVALID, error=error)


class RefusingCommits(Refusing):
    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return Scripted.committed(self, partitions, timeout)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        return [self._with_error(tp) for tp in offsets]


@pytest.mark.parametrize("refusing", [Refusing, RefusingCommits])
def test_a_group_that_cannot_begin_now_returns_no_older_deliveries(refusing: type[Scripted]) -> None:
    consumer: Any = refusing(given(0), record(0), record(1), End())
    deliveries = Deliveries(consumer, "t", None, "service", False, Event())
    deliveries._join(range(1), lambda: {("t", 0): 9})
    for _ in range(2):
        with pytest.raises(Forbidden, match=r"t cannot be read: .*; open the deliveries again"):
            next(deliveries)


def test_a_group_whose_beginning_is_not_known_returns_no_older_deliveries() -> None:
    def unreachable() -> Mapping[tuple[str, int], int]:
        raise BrokerUnreachable("no broker answers")

    consumer: Any = Scripted(given(0), record(0), record(1), End())
    deliveries = Deliveries(consumer, "t", None, "service", False, Event())
    deliveries._join(range(1), unreachable)
    for _ in range(2):
        with pytest.raises(BrokerUnreachable, match="no broker answers; open the deliveries again") as failed:
            next(deliveries)
        assert not failed.value.retry  # the same call cannot succeed


class Silent(Scripted):
    """Partition 0 has a record every 10 s, but the leader of partition 1 is gone."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(record(0), End(0))
        self.clock = clock

    def poll(self, timeout: float) -> Any:
        self.clock[0] += 10.0
        return super().poll(timeout) or record(int(self.clock[0]))

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        assert partition.partition == 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_leader_that_goes_away_ends_a_bounded_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000.0]
    monkeypatch.setattr("streaming.client.deliveries.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("streaming.kafka.clients.TIMEOUT_S", 0.0)
    consumer: Any = Silent(clock)
    deliveries = Deliveries(consumer, "t", None, None, False, Event())
    deliveries._assign({0: 0, 1: 0})
    with pytest.raises(BrokerUnreachable, match="t cannot be read"):
        list(islice(deliveries, 20))
    assert clock[0] <= 1_000.0 + 2 * TIMEOUT_S


def test_a_reader_in_another_thread_comes_to_its_end_before_the_consumer_is_closed() -> None:
    class Polled(Scripted):
        is_polled = False

        def poll(self, timeout: float) -> Any:
            self.is_polled = True
            time.sleep(timeout)
            self.is_polled = False
            return None

        def close(self) -> None:
            assert not self.is_polled
            super().close()

    consumer: Any = Polled()
    deliveries = Deliveries(consumer, "t", None, None, True, Event())
    deliveries._assign({0: 0})
    found: list[list[Delivery]] = []
    thread = Thread(target=lambda: found.append(list(deliveries)))
    thread.start()
    while not consumer.is_polled:
        time.sleep(0.001)
    deliveries.close()
    thread.join()
    assert (consumer.closed, found) == (1, [[]])
