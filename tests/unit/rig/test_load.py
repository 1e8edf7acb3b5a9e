"""A load is written tick by tick: all of it, each event and change with the time at which it is due."""

from __future__ import annotations

import sys
from dataclasses import replace
from io import StringIO
from itertools import accumulate
from typing import Any

import pytest

from rig import generator
from rig.load import Load, LoadError

LOAD_OF_A_SECOND = Load(5, 300.0, 30.0, minutes=1 / 60, symbols=5)


@pytest.mark.parametrize("seconds", [1.0, 0.999, 0.001, 0.1 + 0.2])
def test_all_events_are_due_by_the_last_tick_and_none_before_its_time(seconds: float) -> None:
    (stretch,) = replace(LOAD_OF_A_SECOND, minutes=seconds / 60).stretches()
    ticks = [*stretch.ticks(0.005)]
    assert ticks[-1].at_s == pytest.approx(seconds)
    for column, rate in (("events", 300), ("changes", 30)):
        due = [*accumulate(getattr(tick, column) for tick in ticks)]
        assert due == [int(rate * tick.at_s) for tick in ticks]


def test_in_a_warm_up_rates_rise_to_those_of_the_load() -> None:
    warm_up, load = replace(LOAD_OF_A_SECOND, warm_up_s=2.0).stretches()
    ticks = [*warm_up.ticks(0.1)]
    assert sum(tick.events for tick in ticks) == 300
    assert [tick.events for tick in ticks[:2]] == [0, 3]
    assert ticks[-1].events in (29, 30)
    assert {tick.events for tick in load.ticks(0.1)} == {30}


def test_a_warm_up_cannot_be_negative() -> None:
    with pytest.raises(LoadError, match="warm_up_s cannot be -1; it must be at least 0"):
        Load(warm_up_s=-1)


class Clock:
    """Stands for `time`; once, a sleep takes half a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_000.0 + self.now

    def sleep(self, s: float) -> None:
        self.now += 0.5 if 0.2 < self.now < 0.25 else s


def test_events_and_changes_have_the_times_at_which_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, list[tuple[float, int]]] = {"events": [], "subscriptions": []}
    told: dict[str, Any] = {}
    clock = Clock()

    class Writer:
        def __init__(self, cluster: Any) -> None: ...

        def write_all(self, topic: str, records: Any) -> None: ...

        def write(self, topic: str, key: Any, value: Any, partition: int = -1, timestamp_ms: int = 0) -> None:
            written[topic].append((1000 * clock.time(), timestamp_ms))

        def poll(self) -> None: ...

        def finish(self) -> None: ...

    monkeypatch.setattr(generator, "time", clock)
    monkeypatch.setattr(generator, "Writer", Writer)
    monkeypatch.setattr(generator, "tell", lambda **what: told.update(what))
    monkeypatch.setattr(sys, "stdin", StringIO("\n\n"))
    cluster: Any = None
    generator.run(replace(LOAD_OF_A_SECOND, warm_up_s=1.0), cluster, "events", 2, "subscriptions")
    assert (told["events"], told["changes"], told["warmed_up"], told["done"]) == (450, 45, True, True)
    for topic, per_second in (("events", 300), ("subscriptions", 30)):
        load = written[topic][per_second // 2 :]
        due_ms = [told["began_ms"] + 1000 * (n + 1) / per_second for n in range(per_second)]
        assert all(0 <= stamp + 1 - due <= 6 for (_, stamp), due in zip(load, due_ms, strict=True))
        assert max(at - stamp for at, stamp in written[topic]) > 400
        assert min(at - stamp for at, stamp in written[topic]) > -1
