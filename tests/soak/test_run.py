"""However a run ends, what was seen until then is in its outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from rig.load import Load
from streaming.errors import JobError
from tests.soak import run as run_module
from tests.soak.checking.check import Found
from tests.soak.run import Outcome, run
from tests.soak.system import Progress

LOAD = Load(events_per_second=100, changes_per_second=10, minutes=1)
RIGHT = Found(windows=2, events=6_000).as_data()


class Part:
    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    def go(self) -> None: ...


class Double:
    """A system that is done with all events after `late_s`, and the clock. `happens` is called at each look."""

    def __init__(self, late_s: float = 1.0, happens: Callable[[float], None] = lambda _: None) -> None:
        self.now, self._late_s, self._happens = 0.0, late_s, happens
        self.generator, self.reader = Part({}), Part({"checked": RIGHT})
        self.start = {"job_running": {"s": 1.0, "job_mb": 900}}
        self.code: int | JobError = 0
        self.left = False

    def __call__(self, *_: object) -> Double:
        return self

    def __enter__(self) -> Double:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def check(self) -> None:
        self._happens(self.now)
        if self.now >= LOAD.seconds:
            self.generator.report |= {"events": 6_000, "changes": 600, "longest_pause_ms": 1.0, "done": True}

    def progress(self) -> Progress:
        written = round(100 * min(self.now, LOAD.seconds))
        done = round(100 * min(max(0.0, self.now - self._late_s), LOAD.seconds))
        return Progress(written, done, written // 10, done // 10)

    def sample(self) -> dict[str, Any]:
        latency_ms = {"p50": 1.0, "p99": 2.0, "max": 3.0}
        return {"deliveries": round(100 * self.now), "latency_ms": latency_ms, "processes": {}, "disk_mb": {}}

    def stop_generator(self) -> None: ...

    def stop_job(self) -> int:
        if isinstance(self.code, JobError):
            raise self.code
        return self.code

    def stop_reader(self) -> None:
        self.reader.report["done"] = True

    def restarts(self) -> int:
        return 0

    def dead_letters(self) -> int:
        return 0

    @property
    def job(self) -> Double:
        return self

    def last_lines(self) -> str:
        return "the last lines"


def ran(system: Double, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(run_module, "System", system)
    monkeypatch.setattr(run_module, "time", system)
    outcome = Outcome(LOAD, {}, 10.0)
    run(outcome, lambda _: None, lambda _: None)
    assert system.left
    return outcome


def test_a_run_to_its_end_has_a_sample_for_each_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = ran(Double(), monkeypatch)
    assert outcome.exit_code == 0, outcome
    assert outcome.drain_s == pytest.approx(1.0, abs=0.5)
    assert [round(sample["at_s"]) for sample in outcome.samples] == [10, 20, 30, 40, 50, 60]
    assert [sample["events_per_second"] for sample in outcome.samples] == pytest.approx([100] * 6, rel=0.05)
    assert [sample["lag"] for sample in outcome.samples] == [100] * 6
    assert [abs(sample["generator_late"]) < 30 for sample in outcome.samples] == [True] * 6


def test_a_job_that_falls_behind_is_not_sustained(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = ran(Double(late_s=20.0), monkeypatch)
    assert (outcome.right, outcome.sustained, outcome.exit_code) == (True, False, 1)


def test_who_is_stopped_has_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(now: float) -> None:
        if now > 25:
            sys.exit(143)

    outcome = ran(Double(happens=stopped), monkeypatch)
    assert (outcome.exit_code, len(outcome.samples), outcome.checked, outcome.all_checked) == (143, 2, RIGHT, True)


def test_a_job_that_ends_is_a_failure_and_what_was_seen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(now: float) -> None:
        if now > 25:
            raise JobError("the supervisor ended")

    outcome = ran(Double(happens=ended), monkeypatch)
    assert (outcome.exit_code, len(outcome.samples), outcome.checked) == (1, 2, RIGHT)
    assert outcome.failure == "the supervisor ended"


@pytest.mark.parametrize("code", [1, JobError("the job did not stop")])
def test_a_job_that_does_not_stop_in_order_is_a_failure(code: int | JobError, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Double()
    system.code = code
    outcome = ran(system, monkeypatch)
    assert (outcome.exit_code, len(outcome.samples), outcome.checked) == (1, 6, RIGHT)
    assert outcome.failure
    assert outcome.all_checked is (code == 1)


def test_without_progress_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = ran(Double(late_s=1_000.0), monkeypatch)
    assert outcome.exit_code == 1
    assert outcome.failure
    assert outcome.failure.startswith("no progress for 300 s")
