"""Load eight bytes as one integer, from any position."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _load(array: Any, i: int) -> Any:
    return np.uint64(int.from_bytes(array[i : i + 8].tobytes(), "little"))


def _load_compiled(typing_context: Any, array: Any, i: Any) -> Any:
    """numba loads element by element. The caller must know that array[i : i + 8] is there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        eight = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.load(eight)
        word.align = 1
        return word

    return types.uint64(array, types.intp), generate


load: Any = _load if numba.config.DISABLE_JIT else intrinsic(_load_compiled)  # type: ignore[attr-defined]
