"""Run a command as its user does: it may be killed at any time, and is repeated until it has done its work."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from random import Random

from rig.child import HOME
from streaming.errors import JobError
from streaming.process.child import die_with_parent

LIVES_S = (1.0, 4.0)  # before a kill: it takes a second or two until it sends something
ENDS_WITHIN_S = 240.0
TRY_AGAIN, PAUSE_S = 75, 1.0
LOOKS_S = 0.2


def complete(
    command: Sequence[str], r: Random, kills: int, stop: threading.Event | None = None, patience_s: float = 0.0
) -> bool:
    """Run a command to its end, and begin it again after each of `kills`. For `patience_s` repeat it also if it exits
    with 75. Returns False if `stop` was set meanwhile. Raises JobError."""
    stop = stop or threading.Event()
    until = time.monotonic() + patience_s
    while not stop.is_set():
        with subprocess.Popen(
            [sys.executable, "run_stream.py", *command],
            cwd=HOME,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,
        ) as process:
            said = _said(process, r.uniform(*LIVES_S) if kills else ENDS_WITHIN_S, stop)
        if said is None and not (kills or stop.is_set()):
            raise JobError(f"`{' '.join(command)}` did not end in {ENDS_WITHIN_S:.0f} s")
        if said is None:
            kills -= 1
        elif process.returncode == 0:
            return True
        elif process.returncode == TRY_AGAIN and time.monotonic() < until:
            stop.wait(PAUSE_S)
        else:
            raise JobError(f"`{' '.join(command)}` ended with exit code {process.returncode}:\n{said}")
    return False


def _said(process: subprocess.Popen[str], lives_s: float, stop: threading.Event) -> str | None:
    """Return what a process that ends in time has printed; kill another, and return None."""
    until = time.monotonic() + lives_s
    while not stop.is_set() and time.monotonic() < until:
        try:
            return process.communicate(timeout=LOOKS_S)[0]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.communicate()
    return None
