"""When the machine's clock jumps by hours, durations stay what they are, and the job is as healthy as before."""

from __future__ import annotations

import itertools
import time

import pytest

from streaming.clock import steady_s
from streaming.errors import BrokerUnreachable
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.reporting import Report
from streaming.monitoring.verdicts import ailing, stuck, waiting
from streaming.monitoring.view import RUNNING, About, SparkProgress
from streaming.source_topics import SourceTopics
from tests.support.doubles.stage import state

ABOUT = About("orders", "scan", "json", 1234, steady_s(), stalled_after_s=300, stuck_after_s=30, past=None)
JUMPS_S = pytest.mark.parametrize("jump_s", [36_000.0, -36_000.0], ids=["ahead", "back"])


def jump(patch: pytest.MonkeyPatch, jump_s: float) -> None:
    now = time.time() + jump_s
    patch.setattr(time, "time", lambda: now)


@JUMPS_S
def test_the_steady_clock_does_not_jump(jump_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    before = steady_s()
    assert abs(before - time.time()) < abs(jump_s) / 2
    jump(monkeypatch, jump_s)
    assert 0 <= steady_s() - before < abs(jump_s) / 2


@JUMPS_S
def test_a_batch_lasts_no_longer_and_no_shorter(jump_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(1, 0.0)
    jump(monkeypatch, jump_s)
    assert 0 <= report.fields()["duration_ms"] < 1000 * abs(jump_s) / 2


@JUMPS_S
def test_a_job_with_a_batch_in_hand_and_records_to_read_stays_ready(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = Monitor(ABOUT, SourceTopics("subs", ["events"]), lambda: {("events", 0): 7, ("subs", 0): 0})
    monitor.enter(RUNNING, state({}))
    monitor.ask()
    monitor.doing(1, "match")
    jump(monkeypatch, jump_s)
    view = monitor.view()
    assert (ailing(view), waiting(view), stuck(view)) == ([], [], None)


def test_a_clock_that_is_set_back_hides_no_broker_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver looks at Spark, too, as often as before."""
    answers = iter([{("events", 0): 7, ("subs", 0): 0}])

    def ask() -> dict[tuple[str, int], int]:
        for answer in answers:
            return answer
        raise BrokerUnreachable("no answer")

    seconds = itertools.count(0.0, 100.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    monitor = Monitor(ABOUT, SourceTopics("subs", ["events"]), ask)
    monitor.enter(RUNNING, state({}))
    monitor.ask()
    jump(monkeypatch, -36_000.0)
    monitor.ask()
    asked: list[int] = []
    for n in range(3):
        monitor.beat(lambda n=n: asked.append(n) or SparkProgress())  # type: ignore[func-returns-value, misc]
    assert asked == [0, 1, 2]
    assert any("has not answered" in reason for reason in waiting(monitor.view()))
    assert any("no sign of life" in reason for reason in ailing(monitor.view()))
