"""Hold tuples of arrays for kernels: one word crosses the border of compiled code, however many arrays there are.

An array costs 0.1 to 0.5 µs at each call, since its parts are copied and its references counted; an `ArraysHandle`
costs that of one, and its arrays are taken over once. Kernels read its attribute `arrays`; one that is called once an
event reads them by their address (`matchers/kernels/jit/address.py`).
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types
from numba.experimental import structref

from matchers.kernels.jit import kernel


class _Plain:
    """Holds arrays where nothing is compiled."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays


class _Compiled(structref.StructRefProxy):
    def __new__(cls, arrays: Any) -> Any:
        return _made(arrays)


@structref.register
class _Type(types.StructRef):
    pass


structref.define_proxy(_Compiled, _Type, ["arrays"])  # type: ignore[no-untyped-call]


@kernel
def _made(arrays: Any) -> Any:
    """The way of numba's own proxy is compiled in each process anew, which takes a second; this is kept."""
    return _Compiled(arrays)


ArraysHandle: Any = _Plain if numba.config.DISABLE_JIT else _Compiled  # type: ignore[attr-defined]
