"""The warm-up of a start, and the kernels that an image keeps compiled."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException

from streaming.driver import job, warm_up
from tests.documents import HOME
from tests.stage import ListSink, pipeline

(KEPT,) = re.findall(r"cache\(a\) for a in \((.*)\)\]", (HOME / "docker" / "Dockerfile").read_text())


@pytest.mark.parametrize("algorithm", re.findall(r"\w+", KEPT))
def test_the_image_compiles_what_its_line_names(algorithm: str) -> None:
    warm_up.cache(algorithm)


def test_workers_that_are_killed_while_they_are_warmed_up_do_not_end_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def workers(reason: str) -> None:
        raise PySparkException(reason)

    monkeypatch.setattr(job.warm_up, "workers", lambda *_: workers("Python worker exited unexpectedly"))
    job._warm(None, pipeline(ListSink()))  # type: ignore[arg-type]
    monkeypatch.setattr(job.warm_up, "workers", lambda *_: workers("Traceback (most recent call last): …"))
    with pytest.raises(PySparkException):
        job._warm(None, pipeline(ListSink()))  # type: ignore[arg-type]
