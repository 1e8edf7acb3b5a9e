"""Arrays that grow while they are filled."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from matchers.kernels.jit import kernel

Scalar = TypeVar("Scalar", bound=np.generic)


def with_room(array: NDArray[Scalar], length: int, fill: Any = 0) -> NDArray[Scalar]:
    """The array, or, if it is shorter than `length`, a copy of at least twice its length, padded with `fill`."""
    if length <= len(array):
        return array
    larger = np.full(max(length, 2 * len(array)), fill, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def twice(array: Any) -> Any:
    """A copy of twice the length; the second half is zeros."""
    larger = np.zeros(2 * array.shape[0], array.dtype)
    larger[: array.shape[0]] = array
    return larger
