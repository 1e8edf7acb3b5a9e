"""Compile kernels: without the GIL, and cached on disk so that a second process starts warm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# A cache does not know whether its code checks bounds, so checked code is cached only in a directory of its own.
_SETTINGS: Any = numba.config  # numba sets them when it is imported
_CACHED = _SETTINGS.BOUNDSCHECK != 1 or bool(_SETTINGS.CACHE_DIR)


def kernel(function: Function) -> Function:
    # Nobody calls a kernel by C's conventions, and the code for that takes a tenth of the time to compile one.
    return cast(Function, numba.njit(nogil=True, cache=_CACHED, no_cfunc_wrapper=True)(function))


def inlined(function: Function) -> Function:
    """A kernel that is inlined into its callers."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))
