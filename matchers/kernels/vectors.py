"""Vectors of 64 bytes: 512 bits of a row, or 64 cells of events at once.

These are vectors of LLVM, which maps them to the widest registers of the machine: one of AVX-512, two of AVX2, four of
NEON. Without compilation a row is an array of 8 words, and everything works the same.

A vector that crosses the border of a cache line takes two loads, which halves the speed, so arrays begin at multiples
of 64 bytes (`aligned`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numpy.typing import DTypeLike, NDArray

WORDS = 8  # of 64 bits, in a row
LANES = 64  # events that are tested at once

_WORD, _CELL, _BIT = ir.IntType(64), ir.IntType(16), ir.IntType(1)
_ROW = ir.VectorType(_WORD, WORDS)
_CELLS = ir.VectorType(_CELL, LANES)


def aligned(n: int, dtype: DTypeLike) -> NDArray[Any]:
    """n zeros that begin at a multiple of 64 bytes. With `empty`, numpy uses huge pages where there are some."""
    size = n * np.dtype(dtype).itemsize
    room = np.empty(size + 64, np.uint8)
    begin = -room.ctypes.data % 64
    array = room[begin : begin + size].view(dtype)
    array[:] = 0
    return array


class _Row(types.Type):
    def __init__(self) -> None:
        super().__init__(name="row")


@register_model(_Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, row: Any) -> None:
        super().__init__(manager, row, _ROW)  # type: ignore[no-untyped-call]


_row = _Row()


def _at(context: Any, builder: Any, array_type: Any, array: Any, i: Any, vector: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [i]), vector.as_pointer())


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    declared: Any = cgutils.get_or_insert_function(builder.module, function, name)  # type: ignore[no-untyped-call]
    return builder.call(declared, arguments)


def _nothing() -> Any:
    return np.zeros(WORDS, np.uint64)


def _nothing_compiled(typing_context: Any) -> Any:
    """A row with no bit set."""
    return _row(), lambda context, builder, signature, arguments: ir.Constant(_ROW, [0] * WORDS)


def _everything() -> Any:
    return np.full(WORDS, 2**64 - 1, np.uint64)


def _everything_compiled(typing_context: Any) -> Any:
    """A row with all bits set."""
    return _row(), lambda context, builder, signature, arguments: ir.Constant(_ROW, [2**64 - 1] * WORDS)


def _load(words: Any, i: Any) -> Any:
    assert int(i) + WORDS <= len(words)
    return words[int(i) : int(i) + WORDS].copy()


def _load_compiled(typing_context: Any, words: Any, i: Any) -> Any:
    """words[i : i + 8] as a row. The caller guarantees that they exist."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = builder.load(_at(context, builder, signature.args[0], arguments[0], arguments[1], _ROW))
        row.align = 8
        return row

    return _row(words, types.uint64), generate


def _store(row: Any, words: Any, i: Any) -> None:
    words[int(i) : int(i) + WORDS] = row


def _store_compiled(typing_context: Any, row: Any, words: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, words, i = arguments
        builder.store(row, _at(context, builder, signature.args[1], words, i, _ROW)).align = 8
        return context.get_dummy_value()

    return types.void(_row, words, types.uint64), generate


def _either(a: Any, b: Any) -> Any:
    return a | b


def _either_compiled(typing_context: Any, a: Any, b: Any) -> Any:
    return _row(_row, _row), lambda context, builder, signature, arguments: builder.or_(*arguments)


def _both(a: Any, b: Any) -> Any:
    return a & b


def _both_compiled(typing_context: Any, a: Any, b: Any) -> Any:
    return _row(_row, _row), lambda context, builder, signature, arguments: builder.and_(*arguments)


def _invert(row: Any) -> Any:
    return ~row


def _invert_compiled(typing_context: Any, row: Any) -> Any:
    return _row(_row), lambda context, builder, signature, arguments: builder.not_(arguments[0])


def _full(row: Any) -> bool:
    return bool((row == np.uint64(2**64 - 1)).all())


def _full_compiled(typing_context: Any, row: Any) -> Any:
    """Test whether all bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64 * WORDS)
        clear = builder.bitcast(builder.not_(arguments[0]), whole)
        return builder.icmp_unsigned("==", clear, ir.Constant(whole, 0))

    return types.boolean(_row), generate


def _within(cells: Any, i: Any, low: Any, width: Any) -> Any:
    assert int(i) + LANES <= len(cells)
    there = cells[int(i) : int(i) + LANES] - low <= width
    return np.packbits(there, bitorder="little").view(np.uint64)[0]


def _within_compiled(typing_context: Any, cells: Any, i: Any, low: Any, width: Any) -> Any:
    """A word with a bit set for each of cells[i : i + 64] in low .. low + width. The caller guarantees that they exist.

    Subtracting low turns the cells below it into large numbers, so one comparison is enough.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, low, width = arguments
        vector = builder.load(_at(context, builder, signature.args[0], array, at, _CELLS))
        vector.align = 2

        def everywhere(x: Any) -> Any:
            undefined = ir.Constant(_CELLS, ir.Undefined)
            first = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * 64))

        there = builder.icmp_unsigned("<=", builder.sub(vector, everywhere(low)), everywhere(width))
        return builder.bitcast(there, _WORD)

    return types.uint64(cells, types.uint64, types.uint16, types.uint16), generate


def _lowest(word: Any) -> Any:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


def _lowest_compiled(typing_context: Any, word: Any) -> Any:
    """The position of the lowest set bit of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.cttz.i64", _WORD, arguments[0], ir.Constant(_BIT, 1))

    return types.uint64(types.uint64), generate


def _ones(word: Any) -> int:
    return int(word).bit_count()


def _ones_compiled(typing_context: Any, word: Any) -> Any:
    """The number of set bits of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.ctpop.i64", _WORD, arguments[0])

    return types.int64(types.uint64), generate


def _prefetch(words: Any, i: Any) -> None:
    pass


def _prefetch_compiled(typing_context: Any, words: Any, i: Any) -> Any:
    """Load the cache line of words[i] into the second cache. words[i] need not exist.

    What is prefetched is for later, and what is read at present would be driven out of the first cache.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _at(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(8))
        read, near, data = (ir.Constant(ir.IntType(32), k) for k in (0, 2, 1))
        _call(builder, "llvm.prefetch.p0i8", ir.VoidType(), pointer, read, near, data)
        return context.get_dummy_value()

    return types.void(words, types.uint64), generate


_PLAIN = numba.config.DISABLE_JIT  # type: ignore[attr-defined]

nothing: Any = _nothing if _PLAIN else intrinsic(_nothing_compiled)
everything: Any = _everything if _PLAIN else intrinsic(_everything_compiled)
load: Any = _load if _PLAIN else intrinsic(_load_compiled)
store: Any = _store if _PLAIN else intrinsic(_store_compiled)
either: Any = _either if _PLAIN else intrinsic(_either_compiled)
both: Any = _both if _PLAIN else intrinsic(_both_compiled)
invert: Any = _invert if _PLAIN else intrinsic(_invert_compiled)
full: Any = _full if _PLAIN else intrinsic(_full_compiled)
within: Any = _within if _PLAIN else intrinsic(_within_compiled)
lowest: Any = _lowest if _PLAIN else intrinsic(_lowest_compiled)
ones: Any = _ones if _PLAIN else intrinsic(_ones_compiled)
prefetch: Any = _prefetch if _PLAIN else intrinsic(_prefetch_compiled)
