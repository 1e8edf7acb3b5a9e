"""Keep the job running: start it as a process of its own, and again whenever it ended for a reason that may pass."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streaming.broker import die_with_parent

log = logging.getLogger("sluice.supervision")

TRY_AGAIN = 75  # sysexits.h, a temporary failure: the exit code of a JobError with `retry`
STEADY_S = 60.0  # who ran for so long starts again at once
LONGEST_PAUSE_S = 30.0
POLL_S = 0.05


@dataclass(frozen=True)
class Past:
    """What became of the processes before one that is supervised."""

    restarts: int = 0
    exit_code: int | None = None  # of the last of them; a signal is negative


def supervise(command: Callable[[Past], Sequence[str]], stop: threading.Event) -> int:
    """Until the process ends in order, or for a reason that stays, or `stop` is set; returns its exit code.

    It is started again if it was killed by a signal, or said that the same may work later. All that it started is
    killed first: a JVM that outlived its driver would write to the same checkpoint.
    """
    pause = 0.0
    past = Past()
    while True:
        began = time.monotonic()
        process = subprocess.Popen(command(past), start_new_session=True, preexec_fn=die_with_parent)
        code = _ended(process, stop)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if stop.is_set() or not (code < 0 or code == TRY_AGAIN):
            return code
        lived = time.monotonic() - began
        pause = 0.0 if lived >= STEADY_S else min(LONGEST_PAUSE_S, 2 * pause or 1.0 * (code == TRY_AGAIN))
        fields = {"exit_code": code, "lived_s": round(lived, 1), "pause_s": pause}
        log.warning("the job ended, starting it again", extra={"fields": fields})
        if stop.wait(pause):
            return code
        past = Past(past.restarts + 1, code)


def _ended(process: subprocess.Popen[bytes], stop: threading.Event) -> int:
    while (code := process.poll()) is None:
        if stop.wait(POLL_S):
            process.terminate()  # it ends after the batch in hand
            return process.wait()
    return code
