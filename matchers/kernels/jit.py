"""Compile kernels: without the GIL, and cached on disk so that a second process starts warm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# A cache does not know whether its code checks bounds, so checked code is cached only in a directory of its own.
_SETTINGS: Any = numba.config  # numba sets them when it is imported
_CACHED = _SETTINGS.BOUNDSCHECK != 1 or bool(_SETTINGS.CACHE_DIR)


_njit: Any = numba.njit  # its types do not know all of its options


def kernel(function: Function) -> Function:
    # Nobody calls a kernel by C's conventions, and the code for that takes a tenth of the time to compile one.
    return cast(Function, _njit(nogil=True, cache=_CACHED, no_cfunc_wrapper=True)(function))


def borrower(function: Function) -> Function:
    """A kernel that makes no arrays, so it need not count references to those that its caller holds.

    A count takes some 3 ns whenever an array is taken out of a tuple or passed on; tuples of many arrays make it much.
    """
    return cast(Function, _njit(nogil=True, cache=_CACHED, no_cfunc_wrapper=True, _nrt=False)(function))


def inlined(function: Function) -> Function:
    """A kernel that is inlined into its callers."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))


def compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel runs compiled without being compiled first: it is in this process, or in the cache on disk.

    For some types of arguments, that is; those of our kernels hardly vary. False where numba compiles nothing.
    """
    if _SETTINGS.DISABLE_JIT:
        return False
    if function.signatures:  # type: ignore[attr-defined]
        return True
    file = getattr(function._cache, "_cache_file", None)  # type: ignore[attr-defined]
    return file is not None and bool(file._load_index())
