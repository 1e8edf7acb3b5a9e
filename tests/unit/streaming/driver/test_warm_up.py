"""The warm-up of a start."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from streaming.driver import job
from streaming.driver.starting import warm_up
from tests.support.doubles.stage import ListSink, pipeline


def test_workers_that_are_killed_while_they_are_warmed_up_do_not_end_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def workers(reason: str) -> None:
        raise PySparkException(reason)

    monkeypatch.setattr(warm_up, "workers", lambda *_, **__: workers("Python worker exited unexpectedly"))
    job._warm(None, pipeline(ListSink()), is_warm=False, reading=True)  # type: ignore[arg-type]  # no session is used
    monkeypatch.setattr(warm_up, "workers", lambda *_, **__: workers("Traceback (most recent call last): …"))
    with pytest.raises(PySparkException):
        job._warm(None, pipeline(ListSink()), is_warm=False, reading=True)  # type: ignore[arg-type]  # no session is used
