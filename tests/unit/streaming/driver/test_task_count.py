"""An epoch has as many tasks as its events need."""

from __future__ import annotations

import pytest

from streaming.driver.runs.task_count import EVENTS_PER_PARTITION, TaskCount
from streaming.monitoring.reporting import Report

CORES = 100


def epoch(events: int, *, behind: int = 0, partitions: int = 1) -> Report:
    """Return the report of an epoch of a second."""
    return Report(0, 0.0, duration_s=1.0, events=events, behind=behind, partitions=partitions)


def test_the_first_epoch_and_a_small_load_have_one_task() -> None:
    count = TaskCount()
    assert count.of(None, CORES) == 1
    assert count.of(epoch(30_000), CORES) == 1
    assert count.of(epoch(0), CORES) == 1


def test_events_alone_decide_while_tasks_keep_up() -> None:
    count = TaskCount()
    assert count.of(epoch(100_000), CORES) == 3
    assert count.of(epoch(20_000, behind=1_000), CORES) == 1


def test_tasks_that_are_behind_get_others_until_the_cores_are_used_up() -> None:
    """Each does 10,000 events/s here, however many there are, and much more comes."""
    count, numbers = TaskCount(), [1]
    for _ in range(4):
        numbers.append(count.of(epoch(10_000 * numbers[-1], behind=1_000_000), 12))
    assert numbers == [1, 3, 7, 12, 12]


def test_what_a_task_can_do_is_remembered_and_tried_again_later() -> None:
    count = TaskCount()
    assert count.of(epoch(25_000, behind=20_000), CORES) == 3
    later = [count.of(epoch(30_000), CORES) for _ in range(100)]
    assert later[0] == 3
    assert later[-1] == 1
    assert later == sorted(later, reverse=True)


@pytest.mark.parametrize(("topics", "tasks"), [(1, 4), (130, 3), (1_000, 1)])
def test_a_task_more_would_write_to_all_partitions_too(topics: int, tasks: int) -> None:
    assert EVENTS_PER_PARTITION * 130 * 3 <= 10_000 < EVENTS_PER_PARTITION * 130 * 4
    count = TaskCount(per_task=3_000.0)
    assert count.of(epoch(10_000, partitions=topics), CORES) == tasks


def test_an_epoch_that_is_repeated_has_as_many_as_before() -> None:
    count, last = TaskCount(), epoch(25_000, behind=20_000)
    assert [count.of(last, CORES) for _ in range(3)] == [3, 3, 3]
    assert count.of(last, 2) == 2
