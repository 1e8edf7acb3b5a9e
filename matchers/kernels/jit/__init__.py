"""Compile kernels: without the GIL, and cached on disk (`code_cache`) so that a second process starts warm.

For: the one way to compile a kernel. May enter: functions that take and fill arrays. Must not know: what they compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.untyped_passes import InlineInlinables

from matchers.kernels.jit.code_cache import CodeCache

Function = TypeVar("Function", bound=Callable[..., Any])

# A cache does not record whether its code checks bounds, so checked code is cached only in a directory of its own.
_SETTINGS: Any = numba.config  # numba sets them when it is imported
_CACHED = not _SETTINGS.DISABLE_JIT and (_SETTINGS.BOUNDSCHECK != 1 or bool(_SETTINGS.CACHE_DIR))

_njit: Any = numba.njit  # its types lack some of its options
_without_its_value: Any = types.unliteral  # of a constant's type
_Scope: Any = ir.Scope


def kernel(function: Function, **more: bool) -> Function:
    # Nobody calls a kernel by C's conventions, and the code for that takes a tenth of the time to compile one.
    compiled = _njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=_Compiler, **more)(function)
    if _CACHED:
        compiled._cache = CodeCache(function)
    return cast(Function, _one_for_all_constants(compiled))


def borrower(function: Function) -> Function:
    """A kernel that makes no arrays, so it need not count references to those that its caller holds.

    A count takes some 3 ns whenever an array is taken out of a tuple or passed on; tuples of many arrays make it much.
    """
    return kernel(function, _nrt=False)


def inner(function: Function) -> Function:
    """A borrower that only kernels call. The way from Python into it is not compiled: a call from there would crash."""
    return kernel(function, _nrt=False, no_cpython_wrapper=True)


def _one_for_all_constants(compiled: Any) -> Any:
    """Keep one version of a kernel for all constants: numba makes another for each constant that a kernel passes.

    That happens to counters too, which have their first value while the type of a loop is not known yet.
    """
    template = getattr(compiled, "get_call_template", None)
    if template is not None:  # it is compiled

        def without_constants(args: Any, kws: Any) -> Any:
            types_of_kws = {name: _without_its_value(kw) for name, kw in kws.items()}
            return template([_without_its_value(arg) for arg in args], types_of_kws)

        compiled.get_call_template = without_constants
    return compiled


def direct(function: Function, *arguments: Any) -> Function:
    """Return the compiled code of a kernel for arguments of the types that these have, or that these are.

    A call of it takes 0.1 to 0.7 µs less for each argument, because nobody looks at its types: with other types it
    crashes. For those that are called once an event, always with the same arrays.
    """
    if not hasattr(function, "typeof_pyval"):  # nothing is compiled
        return function
    kernel: Any = function
    of_types = tuple(_type_of(kernel, argument) for argument in arguments)
    known = kernel.overloads.get(of_types)  # `compile` would find it, in ten times the time
    return cast(Function, kernel.compile(of_types) if known is None else known.entry_point)


def _type_of(kernel: Any, argument: Any) -> Any:
    if isinstance(argument, types.Type):
        return argument
    return getattr(argument, "_numba_type_", None) or kernel.typeof_pyval(argument)  # 1 µs for a handle, not 7


def inlined(function: Function) -> Function:
    """A kernel that is inlined into its callers."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Inlining(InlineInlinables):
    """The pass of numba, which copies the blocks of what it inlines, one by one and twice. The variables of a function
    belong to one scope, to which each block refers, so each copy took all of them along: time in proportion to blocks
    times variables, half of all for a long kernel. What is copied is thrown away, so the copies may share the scope.
    """

    _name = "inlining"

    def run_pass(self, state: Any) -> bool:
        _Scope.__deepcopy__ = lambda scope, memo: scope  # nothing else compiles meanwhile: numba holds its lock
        try:
            return bool(super().run_pass(state))  # type: ignore[no-untyped-call]
        finally:
            del _Scope.__deepcopy__


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.passes = [(_Inlining if one is InlineInlinables else one, name) for one, name in passes.passes]
        passes.finalize()
        return [passes]


def compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel runs compiled without being compiled first: it is in this process, or in the cache on disk.

    For some types of arguments, that is; those of our kernels hardly vary. False where numba compiles nothing.
    """
    if _SETTINGS.DISABLE_JIT:
        return False
    if function.signatures:  # type: ignore[attr-defined]
        return True
    code: Any = function._cache  # type: ignore[attr-defined]
    return isinstance(code, CodeCache) and any(code.directories())
