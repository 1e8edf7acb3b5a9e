"""Wait in tests for what must happen: a busy machine takes its time, so only what never happens fails."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 600.0


def until(condition: Callable[[], object]) -> None:
    """Wait until it is true, for at most PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
