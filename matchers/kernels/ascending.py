"""Binary search for a bound among ascending values."""

from __future__ import annotations

from typing import Any

from matchers.kernels.jit import inlined


@inlined
def first_from(values: Any, begin: int, end: int, bound: float) -> int:
    """The first of the ascending values at begin .. end that is not less than the bound."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def first_beyond(values: Any, begin: int, end: int, bound: float) -> int:
    """The first of the ascending values at begin .. end that is greater than the bound."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= bound:
            begin = middle + 1
        else:
            end = middle
    return begin
