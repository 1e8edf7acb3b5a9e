"""Hold tuples of arrays for kernels: one word crosses the border of compiled code, however many arrays there are.

An array costs 0.1 to 0.5 µs at each call, since its parts are copied and its references counted; an `ArraysHandle`
costs that of one, and its arrays are taken over once. Kernels read its attribute `arrays`; one that is called once an
event reads them by their address (`matchers/kernels/jit/address.py`).

That attribute counts a reference to each array, some 5 ns each. A kernel that is called once an event passes
`address_of(held)` to an `inner` one instead, which counts nothing and reads `arrays_at(address)`. The handle must live
until it returns.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types
from numba.experimental import structref
from numba.extending import intrinsic

from matchers.kernels.jit import kernel

_SETTINGS: Any = numba.config  # numba sets them when it is imported
_Pointer: Any = types.CPointer
_Payload: Any = structref._Utils


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


@intrinsic
def _address_compiled(_: Any, held: Any) -> Any:
    pointer = _Pointer(held.field_dict["arrays"])

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        place = _Payload(context, builder, held).get_data_struct(arguments[0])._get_ptr_by_name("arrays")
        return builder.bitcast(place, context.get_value_type(pointer))

    return pointer(held), generate


@intrinsic
def _at_compiled(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return context.unpack_value(builder, address.dtype, arguments[0])

    return address.dtype(address), generate


def _address_plain(held: _Plain) -> _Plain:
    return held


def _at_plain(held: _Plain) -> Any:
    return held.arrays


ArraysHandle: Any = _Plain if _SETTINGS.DISABLE_JIT else _Compiled
address_of: Any = _address_plain if _SETTINGS.DISABLE_JIT else _address_compiled
arrays_at: Any = _at_plain if _SETTINGS.DISABLE_JIT else _at_compiled
