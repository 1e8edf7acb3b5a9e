"""Compile kernels: without the GIL, and cached on disk so that a second process starts warm."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# A cache does not know whether its code checks bounds, so checked code is never cached.
_CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def kernel(function: Function) -> Function:
    return cast(Function, numba.njit(nogil=True, cache=not _CHECKED)(function))


def inlined(function: Function) -> Function:
    """A kernel that is inlined into its callers."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))
