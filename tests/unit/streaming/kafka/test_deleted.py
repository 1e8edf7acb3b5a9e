"""Counting the events that were deleted before they were read, while the broker answers and while it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
from confluent_kafka import KafkaError

from streaming.errors import BrokerUnreachable, JobError
from streaming.kafka.deleted import EVERY_S, MOST, DeletedEvents
from streaming.kafka.errors import translate
from streaming.publishing.contract import TopicPartition
from tests.support.doubles.stage import ListSink, event, pipeline, step
from tests.support.logged import fields_of

A, B = ("events", 0), ("events", 1)


class FirstOffsets:
    """A broker whose partitions begin at `firsts`, or that answers with `error`; `now` is the time."""

    def __init__(self) -> None:
        self.firsts = {A: 0, B: 0}
        self.error: JobError | None = None
        self.asked: list[list[TopicPartition]] = []
        self.now = 100.0

    def __call__(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(sorted(partitions))
        if self.error is not None:
            raise self.error
        return {partition: self.firsts[partition] for partition in self.asked[-1]}


@pytest.fixture
def broker() -> FirstOffsets:
    return FirstOffsets()


@pytest.fixture
def deleted(broker: FirstOffsets) -> DeletedEvents:
    return DeletedEvents(broker, lambda: broker.now)


@pytest.mark.parametrize(
    "error",
    [
        BrokerUnreachable("no answer"),
        JobError("a reason that no other try mends"),
        translate(KafkaError(KafkaError.FENCED_LEADER_EPOCH), "cannot read first offsets"),
    ],
    ids=["silent", "rejected", "of a standstill"],
)
def test_a_count_of_deleted_events_never_ends_a_job(broker: FirstOffsets, error: JobError) -> None:
    p = pipeline(ListSink())
    p.deleted.firsts = broker
    broker.error = error
    assert [d.value for d in step(p, event(3, {}), event(5, {}))] == []
    assert broker.asked == [[A]]


def test_what_the_broker_did_not_answer_is_counted_once_it_does(broker: FirstOffsets, deleted: DeletedEvents) -> None:
    """Gaps that were seen in the meantime are counted too."""
    broker.error = BrokerUnreachable("no answer")
    broker.firsts = {A: 5, B: 7}
    deleted.read({A: 5}, {A: 9})  # the first five were deleted
    assert deleted.count() == 0
    deleted.read({A: 8, B: 3}, {A: 19, B: 9})  # two ends of transactions; the first seven were deleted
    broker.now += EVERY_S
    assert deleted.count() == 0
    broker.error = None
    assert deleted.count() == 0, "it is not asked at once"
    broker.now += EVERY_S
    assert deleted.count() == 12
    assert broker.asked == [[A], [A, B], [A, B]]
    broker.now += EVERY_S
    assert deleted.count() == 0
    assert len(broker.asked) == 3, "nothing waits for an answer"


def test_the_broker_is_asked_seldom_though_each_batch_has_gaps(broker: FirstOffsets, deleted: DeletedEvents) -> None:
    for n in range(1_000):
        deleted.read({A: 1}, {A: 2 * n + 1})
        assert deleted.count() == 0
        broker.now += EVERY_S / 100
    assert len(broker.asked) == 10


def test_gaps_that_wait_for_long_are_joined(broker: FirstOffsets, deleted: DeletedEvents) -> None:
    broker.error = BrokerUnreachable("no answer")
    for n in range(3 * MOST):
        deleted.read({A: 1}, {A: 2 * n + 1})
        deleted.count()
    assert len(deleted._gaps[A]) == MOST
    broker.error, broker.now, broker.firsts = None, broker.now + EVERY_S, {A: 100 * MOST}
    assert deleted.count() == 3 * MOST


def test_that_the_broker_does_not_answer_is_said_once(
    broker: FirstOffsets, deleted: DeletedEvents, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("sluice").propagate = True
    deleted.read({A: 1}, {A: 2})
    for error in (BrokerUnreachable("first"), BrokerUnreachable("second"), None, BrokerUnreachable("third")):
        broker.error = error
        deleted.count()
        deleted.read({A: 1}, {A: deleted._reached[A] + 1})
        broker.now += EVERY_S
    assert [fields_of(record)["error"] for record in caplog.records] == ["first", "third"]
