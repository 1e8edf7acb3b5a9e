"""Choose how many events an index takes at once."""

from __future__ import annotations

from matchers.kernels.jit import inlined

GROUP = 16  # events


@inlined
def group_size(done: int, listed: int, room: int, most: int = GROUP) -> int:
    """The number of events to mark together: as many as will probably fit, judged by those before."""
    return 1 if done == 0 else max(1, min(most, room * done // (2 * listed + 1)))
