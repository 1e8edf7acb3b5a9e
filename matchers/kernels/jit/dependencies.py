"""Fingerprint what a compiled kernel contains beside its own file: kernels that it calls, and constants.

numba compiles these into a kernel, but looks only at the file of the kernel itself when it checks whether compiled code
is of the present sources. After an upgrade a kernel would go on with the old code of another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core import types

_types: Any = types
_SINGLE = (bool, int, float, str, bytes, type(None), np.generic, np.dtype)


def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of the bytecode and the constants of all functions that are compiled with this one."""
    seen = {function}
    pending = [function]
    while pending:
        _, called = _own(pending.pop())
        pending += called - seen
        seen |= called
    return hashlib.sha256("\n".join(sorted(_own(one)[0] for one in seen)).encode()).hexdigest()


def fields_of(arguments: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """The fields of the named tuples among numba's types of arguments, and of those in tuples."""
    for one in arguments:
        if isinstance(one, _types.BaseNamedTuple):
            yield tuple(one.fields)
        if isinstance(one, _types.BaseTuple):
            yield from fields_of(one)


@cache
def _own(function: Callable[..., Any]) -> tuple[str, frozenset[Callable[..., Any]]]:
    """A digest of the function alone, and the functions that it calls."""
    code: CodeType = function.__code__
    parts = [f"{function.__module__}.{function.__qualname__}", *_texts(code)]
    called = set()
    for name, value in sorted(_referenced(function, frozenset(_names(code))), key=lambda pair: pair[0]):
        if (other := _python(value)) is not None:
            called.add(other)
        else:
            parts.append(f"{name}={_text(value)}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest(), frozenset(called)


def _text(value: Any) -> str:
    """A constant, the same in every process; of anything else only its type."""
    if isinstance(value, _SINGLE):
        return repr(value)
    if isinstance(value, (tuple, frozenset)):
        texts = [_text(one) for one in value]
        return f"{type(value).__name__}{texts if isinstance(value, tuple) else sorted(texts)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes()!r}"
    if isinstance(value, type):
        return f"{value.__qualname__}{getattr(value, '_fields', ())}"
    return type(value).__qualname__


def _python(value: Any) -> Callable[..., Any] | None:
    """The Python function of a kernel, of an intrinsic or of itself; None for anything else, and for others' code."""
    function = getattr(value, "py_func", None) or getattr(value, "_defn", None) or value
    return function if isinstance(function, FunctionType) and not _is_foreign(function.__module__) else None


def _is_foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("numpy", "numba", "llvmlite")


def _referenced(function: Any, names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The values of global names and of closures that the function mentions, also as attributes of a module."""
    spaces = function.__globals__
    for name in names & spaces.keys():
        yield name, spaces[name]
        if isinstance(module := spaces[name], ModuleType) and not _is_foreign(module.__name__):
            yield from ((f"{name}.{one}", getattr(module, one)) for one in names if hasattr(module, one))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType) -> Iterator[str]:
    for one in _codes(code):
        yield from one.co_names


def _texts(code: CodeType) -> Iterator[str]:
    for one in _codes(code):
        yield f"{one.co_name} {one.co_code.hex()} {one.co_names} {one.co_varnames} {_text(one.co_consts)}"
