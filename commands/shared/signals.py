"""Handle Ctrl-C and SIGTERM in commands that run until they are stopped."""

from __future__ import annotations

import signal
import socket
import threading

STOPPED = 130  # the exit code of shells after Ctrl-C


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set; a second signal interrupts at once.

    Python runs signal handlers between two steps of the main thread. If that thread holds the event's lock then, a
    handler that sets the event waits for itself. So a thread sets it; Python writes the signal's number to its socket.
    """
    stop = threading.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signaled = False

    def listen() -> None:
        while True:
            if receiver.recv(1)[0] in signals:
                stop.set()

    def on_signal(*_: object) -> None:
        nonlocal signaled
        if signaled:
            raise KeyboardInterrupt
        signaled = True

    threading.Thread(target=listen, name="sluice-signals", daemon=True).start()
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, on_signal)
    return stop
