"""Read the arrays of a held tuple by its address, without counting references.

A kernel that takes a tuple of arrays out of a handle (`matchers/contract/held.py`) counts a reference to each array,
some 5 ns each: a large part of what an event takes that comes alone. So the kernel passes `address_of(held)` to an
`inner` one, which counts nothing and reads `arrays_at(address)`. The handle must live until that returns.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types
from numba.experimental import structref
from numba.extending import intrinsic

_SETTINGS: Any = numba.config  # numba sets them when it is imported
_Pointer: Any = types.CPointer
_Payload: Any = structref._Utils


@intrinsic
def _address(_: Any, held: Any) -> Any:
    pointer = _Pointer(held.field_dict["arrays"])

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        place = _Payload(context, builder, held).get_data_struct(arguments[0])._get_ptr_by_name("arrays")
        return builder.bitcast(place, context.get_value_type(pointer))

    return pointer(held), generate


@intrinsic
def _arrays(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return context.unpack_value(builder, address.dtype, arguments[0])

    return address.dtype(address), generate


def _address_plain(held: Any) -> Any:
    return held


def _arrays_plain(held: Any) -> Any:
    return held.arrays


address_of: Any = _address_plain if _SETTINGS.DISABLE_JIT else _address
arrays_at: Any = _arrays_plain if _SETTINGS.DISABLE_JIT else _arrays
