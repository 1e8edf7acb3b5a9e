"""Tasks that take too long are cancelled; what that is follows from those before."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from config import Settings
from streaming.driver.limits.time_limit import FIRST_S, LIMIT_FACTOR, REMEMBERED_JOBS, TimeLimit
from tests.support.patience import PATIENCE_S


@dataclass
class Jobs:
    calls: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        self.calls.append("begin")

    def end(self) -> None:
        self.calls.append("end")

    def cancel(self) -> None:
        self.calls.append("cancel")
        self.ended.set()


def limit(least_s: float, *took_s: float) -> TimeLimit:
    made = TimeLimit(Jobs(), least_s)
    made._took_s.extend(took_s)
    return made


@pytest.mark.parametrize(
    ("least_s", "took_s", "expected_s"),
    [
        (120, [], FIRST_S),
        (1_000, [], 1_000),
        (120, [0.1, 0.2], 120),
        (120, [0.1, 50, 0.2], LIMIT_FACTOR * 50),
        (120, [50, *REMEMBERED_JOBS * [0.1]], 120),
    ],
)
def test_the_limit_is_a_multiple_of_the_longest_of_the_last_jobs(
    least_s: float, took_s: list[float], expected_s: float
) -> None:
    assert limit(least_s, *took_s).seconds() == expected_s


def test_the_first_limit_ends_before_the_job_is_restarted() -> None:
    assert Settings().monitoring.stalled_after_s > FIRST_S


def test_a_job_that_takes_too_long_is_cancelled() -> None:
    jobs = Jobs()
    made = limit(0.01, 0.0)
    made.jobs = jobs
    with suppress(ValueError), made.watched() as cancelled:
        assert jobs.ended.wait(PATIENCE_S)
        raise ValueError("cancelled")
    assert cancelled.is_set()
    assert jobs.calls == ["begin", "cancel", "end"]
    assert made.seconds() == 0.01  # it does not count


def test_a_job_that_is_done_in_time_is_not() -> None:
    jobs = Jobs()
    made = TimeLimit(jobs, 120)
    began = time.monotonic()
    with made.watched() as cancelled:
        pass
    took_s = time.monotonic() - began
    assert not cancelled.is_set()
    assert jobs.calls == ["begin", "end"]
    assert made.seconds() == 120 >= took_s
