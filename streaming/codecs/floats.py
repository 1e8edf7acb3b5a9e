"""A 32-bit float as the number that was meant: 0.1, not the 0.10000000149011612 that its bits come to as a double."""

from __future__ import annotations

import numpy as np


def shortest(value: float) -> float:
    """The double with the fewest digits that is this 32-bit float. JSON has it so, and patterns are written so."""
    return float(str(np.float32(value)))
