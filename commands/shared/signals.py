"""Handle Ctrl-C and SIGTERM in commands that run until they are stopped."""

from __future__ import annotations

import signal
import threading

STOPPED = 130  # the exit code of shells after Ctrl-C


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set; a second signal interrupts at once."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
