"""Ctrl-C and SIGTERM set an event, whatever the main thread does just then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from commands.shared.signals import stop_on_signals
from tests.support.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_event_and_a_second_one_interrupts(number: signal.Signals) -> None:
    stop = stop_on_signals()
    assert not stop.is_set()
    os.kill(os.getpid(), number)
    assert stop.wait(PATIENCE_S)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


def test_the_main_thread_may_hold_the_events_lock() -> None:
    stop = stop_on_signals()
    with stop._cond:  # type: ignore[attr-defined]  # as in the middle of stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(PATIENCE_S)
