"""Handle Ctrl-C and SIGTERM in commands that run until they are stopped."""

from __future__ import annotations

import signal
import socket
import threading

STOPPED = 130  # the exit code of shells after Ctrl-C


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set; a second signal interrupts at once.

    Python runs handlers of signals between two steps of the main thread, which may hold the event's lock just then:
    a handler that sets the event could wait for itself. So a thread sets it; Python tells it the signal's number.
    """
    stop = threading.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    told, tells = socket.socketpair()
    tells.setblocking(False)
    heard = False

    def listen() -> None:
        while True:
            if told.recv(1)[0] in signals:
                stop.set()

    def on_signal(*_: object) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True

    threading.Thread(target=listen, name="sluice-signals", daemon=True).start()
    signal.set_wakeup_fd(tells.detach(), warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, on_signal)
    return stop
