"""A job's code loads while Spark starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streaming.driver.launch import beside


def test_a_context_is_entered_in_a_thread_and_ends_with_the_one_that_waits_for_it() -> None:
    steps: list[str] = []
    goes_on = threading.Event()

    @contextmanager
    def context() -> Iterator[int]:
        assert goes_on.wait(60)
        steps.append("entered")
        try:
            yield 7
        finally:
            steps.append("ended")

    with beside(context()) as waited:
        steps.append("meanwhile")
        goes_on.set()
        with waited as value:
            assert value == 7
            steps.append("used")
        steps.append("after")
    assert steps == ["meanwhile", "entered", "used", "ended", "after"]


def test_a_context_that_nobody_waits_for_ends_too() -> None:
    ended = threading.Event()

    @contextmanager
    def context() -> Iterator[None]:
        yield
        ended.set()

    with beside(context()):
        pass
    assert ended.is_set()


def test_the_error_of_a_context_comes_where_it_is_waited_for() -> None:
    @contextmanager
    def context() -> Iterator[None]:
        raise OSError("no JVM")
        yield

    with beside(context()):
        pass
    with pytest.raises(OSError, match="no JVM"), beside(context()) as waited, waited:
        pass
