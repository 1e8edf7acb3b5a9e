"""Quotas on deliveries: tasks count them, the driver decides, and tasks publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from streaming.documents import records
from streaming.documents.records import NO_TIMESTAMP, Record
from streaming.driver.limits.quotas import REMEMBERED_S, DeliveryQuota
from streaming.driver.pipeline import Pipeline
from streaming.driver.runs import source_run
from streaming.errors import ExecutorLost, Unsettled
from streaming.rows import EVENTS
from streaming.worker import publishing
from tests.support.doubles.stage import (
    ALICE,
    BOB,
    ListSink,
    Reports,
    Slots,
    change,
    event,
    headers_of,
    pipeline,
    sink_of,
    slots_of,
    step,
)

pytestmark = pytest.mark.kernels

OVER = "over"


def limited(most: int, drop: bool = False, tasks: int = 1) -> Pipeline:
    p = pipeline(ListSink())
    p.delivery_quota, p.tasks = DeliveryQuota(most, drop), tasks
    step(p, change(0, "a", ALICE))
    return p


def deliveries(p: Pipeline, *times_ms: int, partition: int = 0) -> list[str]:
    """Return what became of the deliveries to alice of events of these times in a batch."""
    begin = p.state.positions.get((EVENTS, partition), 0)
    rows = [event(begin + i, {"x": 1}, time, partition) for i, time in enumerate(times_ms)]
    found = {place(record): record for record in step(p, *rows, most=4)}
    return [what(found[partition, row["offset"]]) for row in rows if (partition, row["offset"]) in found]


def place(record: Record) -> tuple[int, int]:
    """Return the partition and offset of its event."""
    headers = headers_of(record)
    if record.topic == "dead":
        return int(headers["sluice_origin_partition"]), int(headers["sluice_origin_offset"])
    _, partition, offset = headers["ce_id"].split(b"-")
    return int(partition), int(offset)


def what(record: Record) -> str:
    if record.topic != "dead":
        return record.topic.removeprefix("to.")
    assert dict(record.headers)["sluice_reason"] == records.OVER_QUOTA.encode()
    return OVER


def test_deliveries_are_counted_by_the_second_of_their_event_over_all_batches() -> None:
    p = limited(2)
    times = 1_000, 1_999, 2_000, 1_500, 2_999, 2_001
    assert deliveries(p, *times) == ["alice", "alice", "alice", OVER, "alice", OVER]
    assert deliveries(p, 2_500, 1_000, 3_000) == [OVER, OVER, "alice"]
    assert deliveries(p, 3_000) == ["alice"]


def test_all_transactions_of_a_batch_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MATCHES_AT_ONCE", 1)
    p = limited(1)
    assert deliveries(p, 1_000, 1_000, 1_000, 2_000) == ["alice", OVER, OVER, "alice"]
    assert len(sink_of(p).transactions) == 5


@pytest.mark.parametrize("shards", [1, 2])
def test_the_lowest_partition_comes_first_whichever_task_has_it(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_run, "SMALL_TASK_ROWS", 1)
    p = limited(3, tasks=3)
    step(p, change(1, "b", None), change(2, "c", None))
    p.state.snapshot = replace(p.state.snapshot, shards=shards)
    rows = [event(offset, {"x": 1}, partition=partition) for partition in (2, 0, 1) for offset in (0, 1)]
    found = {place(record): what(record) for record in step(p, *rows)}
    assert [at for at in sorted(found) if found[at] == "alice"] == [(0, 0), (0, 1), (1, 0)]
    assert len(found) == 6
    assert deliveries(p, 1_000, partition=0) == [OVER]


def test_each_subscriber_has_its_own_deliveries() -> None:
    p = limited(1)
    step(p, change(1, "b", BOB), change(2, "c", BOB))
    found = step(p, event(0, {"x": 1}), event(1, {"x": 1}))
    assert Counter(map(what, found)) == {"alice": 1, "bob": 1, OVER: 2}


def test_several_subscriptions_of_a_subscriber_make_one_delivery_that_counts() -> None:
    p = limited(3)
    step(p, change(1, "b", ALICE))
    assert deliveries(p, 1_000, 1_000) == ["alice"] * 2
    assert deliveries(p, 1_000, 1_000) == ["alice", OVER]


def test_a_delivery_too_many_is_a_dead_letter_with_the_subscriber_and_its_subscriptions() -> None:
    p = limited(1)
    letter, _ = step(p, event(0, {"x": 1}), event(1, {"x": 1}))
    headers = dict(letter.headers)
    assert (letter.topic, letter.value) == ("dead", b'{"x": 1}')
    assert headers["sluice_reason"] == records.OVER_QUOTA.encode()
    assert headers["sluice_detail"] == b"more than 1 deliveries of a second (quotas.deliveries_per_second)"
    assert (headers["sluice_subscriber"], headers["sluice_subscriptionids"]) == (b"alice", b'["a"]')
    assert headers["sluice_origin_offset"] == b"1"
    assert headers["sluice_matchversion"] == b"1"


@pytest.mark.parametrize(("drop", "left"), [(True, ["alice", "alice"]), (False, ["alice", OVER, OVER, "alice"])])
def test_deliveries_over_the_quota_are_counted_and_with_drop_that_is_all(drop: bool, left: list[str]) -> None:
    p = limited(1, drop)
    p.observer = reports = Reports()
    assert deliveries(p, 1_000, 1_000, 1_000, 2_000) == left
    (report,) = reports.seen
    assert (report.counts["over_quota"], report.counts["deliveries"]) == (2, 2)


def test_a_transaction_that_is_tried_again_is_counted_once() -> None:
    p = limited(2)
    sink_of(p).aborts = 3
    assert deliveries(p, 1_000) == ["alice"]
    assert deliveries(p, 1_000, 1_000) == ["alice", OVER]


@pytest.mark.parametrize(
    ("error", "counted"),
    [(ExecutorLost("first attempt of its task"), "workers_lost"), (Unsettled("fenced"), "transactions_aborted")],
)
def test_a_task_that_an_executor_took_with_it_counts_as_lost_and_not_as_aborted(
    error: Unsettled, counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = limited(0)
    p.observer = reports = Reports()
    publish = Slots.publish
    answers: Iterator[Callable[..., Any]] = iter([partial(raising, error), publish])
    monkeypatch.setattr(Slots, "publish", lambda *given: next(answers)(*given))
    assert deliveries(p, 1_000) == ["alice"]
    (report,) = reports.seen
    assert {name: report.counts[name] for name in ("workers_lost", "transactions_aborted") if report.counts[name]} == {
        counted: 1
    }


def test_a_batch_of_which_a_part_was_published_before_a_task_was_fenced_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow's batches have four events, so the first four are committed."""
    p = limited(6)
    p.observer = reports = Reports()
    publish = Slots.publish
    fenced = partial(raising, Unsettled("fenced"))
    answers: Iterator[Callable[..., Any]] = iter([publish, fenced, publish, publish])
    monkeypatch.setattr(Slots, "publish", lambda *given: next(answers)(*given))
    assert deliveries(p, *[1_000] * 8) == ["alice"] * 6 + [OVER] * 2
    (report,) = reports.seen
    assert (report.events, report.counts["matched"]) == (8, 8)
    monkeypatch.undo()
    assert deliveries(p, 1_000, 2_000) == [OVER, "alice"]


def test_deliveries_that_a_partition_was_not_allowed_do_not_count_for_the_partitions_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Partition 0 may have all of its eight, and partition 1 two; only that of partition 1 is committed at first."""
    monkeypatch.setattr(source_run, "SMALL_TASK_ROWS", 1)
    p = limited(10, tasks=2)
    publish = Slots.publish
    fenced = partial(raising, Unsettled("fenced"))
    answers: Iterator[Callable[..., Any]] = iter([publish, fenced, publish])
    monkeypatch.setattr(Slots, "publish", lambda *given: next(answers)(*given))
    rows = [event(offset, {"x": 1}, 1_000, partition) for partition in (1, 0) for offset in range(8)]
    assert Counter(map(what, step(p, *rows))) == {"alice": 10, OVER: 6}


def test_counting_may_take_longer_than_missing_topics_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.driver.attempts.MISSING_TOPICS_S", -1.0)
    monkeypatch.setattr("streaming.driver.attempts.KEEP_TRYING_S", 0.5)
    p = limited(10)
    slots_of(p).absent.add("to.alice")
    (letter,) = step(p, event(0, {"x": 1}, 1_000))
    assert headers_of(letter)["sluice_reason"] == records.MISSING_TOPIC.encode()


def raising(error: Unsettled, *_: Any) -> Any:
    raise error


def test_a_topic_that_is_made_meanwhile_costs_nobody_a_delivery() -> None:
    p = limited(2)
    absent = slots_of(p).absent
    absent.add("to.alice")

    def made(topics: Any) -> set[str]:
        absent.clear()
        return set()

    p.outputs.missing = made  # type: ignore[method-assign]
    assert deliveries(p, 1_000) == ["alice"]
    assert deliveries(p, 1_000, 1_000) == ["alice", OVER]


def test_late_events_count_with_their_second_for_a_while() -> None:
    p = limited(1)
    deliveries(p, 1_000, 10**15)
    assert deliveries(p, 1_000) == [OVER]
    deliveries(p, *(1_000 * (2 + i) for i in range(REMEMBERED_S)))
    assert deliveries(p, 500_000, 1_000) == ["alice", OVER]
    deliveries(p, *(1_000 * (2 + i) for i in range(REMEMBERED_S)))
    deliveries(p, 600_000)
    assert deliveries(p, 1_000) == ["alice"]
    assert len(p.delivery_quota._count) == REMEMBERED_S + 1


def test_a_batch_of_many_seconds_counts_all_of_them() -> None:
    p = limited(1)
    times = [1_000 * i for i in range(2 * REMEMBERED_S)]
    assert deliveries(p, *times) == ["alice"] * len(times)
    assert deliveries(p, times[0], times[-1]) == [OVER] * 2


def test_events_without_a_timestamp_are_of_no_second() -> None:
    p = limited(1)
    assert deliveries(p, *[NO_TIMESTAMP] * 3) == ["alice"] * 3
    assert deliveries(p, -2, NO_TIMESTAMP, -2, NO_TIMESTAMP) == ["alice", "alice", OVER, "alice"]
    assert deliveries(p, 0, 2**63 - 1, -(2**40), 0, 2**63 - 1, -(2**40)) == ["alice"] * 3 + [OVER] * 3


def test_without_a_quota_nobody_counts() -> None:
    p = limited(0)
    assert deliveries(p, *[1_000] * 9) == ["alice"] * 9
    assert p.delivery_quota._count == {}
