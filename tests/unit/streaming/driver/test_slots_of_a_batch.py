"""The number of slots of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.driver.pipeline import Pipeline
from streaming.driver.runs import source_run
from streaming.rows import EVENTS
from tests.support.doubles.stage import ListSink, change, event, pipeline, step

pytestmark = pytest.mark.kernels

ANY = {"x": [{"exists": True}]}


def with_subscribers(n: int) -> Pipeline:
    """Each gets every event; each has a topic."""
    p = pipeline(ListSink())
    p.tasks = 3
    step(p, *(change(i, f"s{i}", {"subscriber": f"s{i}", "pattern": ANY}) for i in range(n)))
    return p


def slots_after(p: Pipeline, events: int) -> int:
    """The slots of the batch that follows one of so many events."""
    begin = p.state.positions[EVENTS, 0]
    step(p, *(event(begin + i, {"x": 1}) for i in range(events)))
    slots: Any = p.slots
    asked: list[int] = []
    whole = slots.work

    def work(n: int, *rest: Any) -> Any:
        asked.append(n)
        return whole(n, *rest)

    slots.work = work
    step(p, event(begin + events, {"x": 1}))
    slots.work = whole
    return asked[0]


def test_a_batch_has_a_slot_more_for_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_run, "SMALL_TASK_ROWS", 3)
    monkeypatch.setattr(source_run, "ROWS_PER_PARTITION", 1)
    p = with_subscribers(1)
    assert [slots_after(p, events) for events in (1, 2, 3, 5, 6, 100)] == [1, 1, 2, 2, 3, 3]


def test_a_batch_for_many_topics_has_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_run, "SMALL_TASK_ROWS", 1)
    monkeypatch.setattr(source_run, "ROWS_PER_PARTITION", 2)
    p = with_subscribers(3)
    assert [slots_after(p, events) for events in (1, 5, 6, 11, 12)] == [1, 1, 2, 2, 3]


def test_executors_that_come_and_go_change_the_number_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_run, "SMALL_TASK_ROWS", 1)
    monkeypatch.setattr(source_run, "ROWS_PER_PARTITION", 1)
    p = with_subscribers(1)
    slots: Any = p.slots
    opened: list[int] = []
    slots.open = lambda number, broadcast: opened.append(number)
    asked = []
    for cores in (3, 2, 2, 3, 1):
        p.cores = lambda cores=cores: cores
        asked.append(slots_after(p, 20))
    assert asked == [3, 2, 2, 3, 1]
    assert opened == [2, 3, 1]
