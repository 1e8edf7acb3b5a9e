"""Find the cell of a value (`algorithms/cells.py`)."""

from __future__ import annotations

from matchers.kernels.jit import inlined


@inlined
def cell_of(value: float, begin: float, per_unit: float, n: int) -> int:
    """Ascending with the value, so a smaller cell means a smaller value; -inf and inf are in the outer cells."""
    if not per_unit > 0.0:  # a domain without width
        return 0
    at = (value - begin) * per_unit
    if not at > 0.0:
        return 0
    return n - 1 if at >= n else int(at)
