"""What Ctrl-C and SIGTERM do to a command that goes on until it is stopped."""

from __future__ import annotations

import signal
import threading

STOPPED = 130  # what shells say of Ctrl-C


def stop_on_signals() -> threading.Event:
    """Set by Ctrl-C and SIGTERM; a second one no longer waits for what is in hand."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
