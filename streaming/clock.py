"""Tell the time by a clock that grows evenly, whatever becomes of the machine's clock."""

from __future__ import annotations

import os
import sys
import time

_EPOCH_S = time.time() - time.monotonic()  # of this process


def _begin() -> None:
    global _EPOCH_S
    _EPOCH_S = time.time() - time.monotonic()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_begin)  # from one that may have run for days


def steady_s() -> float:
    """Return the seconds since the epoch by the machine's clock when this process started, and evenly from then on.

    Decisions about durations use it, since the machine's clock can be set while the process runs."""
    return _EPOCH_S + time.monotonic()
