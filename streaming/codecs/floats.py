"""Convert a 32-bit float to the shortest decimal it stands for: 0.1, not 0.10000000149011612."""

from __future__ import annotations

import numpy as np


def shortest(value: float) -> float:
    """The double with the fewest digits that rounds to this 32-bit float: the number that people and JSON write."""
    return float(str(np.float32(value)))
