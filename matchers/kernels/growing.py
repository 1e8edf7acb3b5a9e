"""Arrays that grow while they are filled."""

from __future__ import annotations

from typing import Any

import numpy as np

from matchers.kernels.jit import kernel


@kernel
def twice(array: Any) -> Any:
    """A copy of twice the length; the second half is zeros."""
    larger = np.zeros(2 * array.shape[0], array.dtype)
    larger[: array.shape[0]] = array
    return larger
