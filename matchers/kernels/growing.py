"""Arrays that grow while they are filled."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import kernel


@kernel
def twice(array: Any) -> Any:
    """The same with room for as much again, zeros for now."""
    larger = np.zeros(2 * array.shape[0], array.dtype)
    larger[: array.shape[0]] = array
    return larger
