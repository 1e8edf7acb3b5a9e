"""Tie a child process to the life of its parent, and name it."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Make Linux end this process with the thread that made it, kill -9 included. Call after the fork."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def rename(command: Sequence[str]) -> None:
    """Let `ps` show this command line for a process that was forked, as if it had been executed."""
    from setproctitle import setproctitle  # only jobs need it

    setproctitle(" ".join(command))
