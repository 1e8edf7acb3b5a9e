"""Write numbers and bytes as Kafka does: varints, unsigned varints, big-endian numbers, copies of bytes.

Each `put_...` writes at a position of a byte array and returns the position after it. Numbers are below 2^62.

Copies compile to single instructions without bounds checks. Where numba checks bounds, or does not compile, they are
plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchers.kernels.jit import inlined
from matchers.kernels.texts import CHECKED

_code: Any = cgutils  # without types
_MOST_DIGITS = 19  # of numbers below 2^63
_TEN, _ZERO = np.uint64(10), np.uint64(48)


def _memcpy(_: Any, to: Any, at: Any, source: Any, begin: Any, length: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        write, read = builder.gep(target.data, [arguments[1]]), builder.gep(origin.data, [arguments[3]])
        _code.raw_memcpy(builder, write, read, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(to, types.int64, source, types.int64, types.int64), generate


_copy_bytes: Any = intrinsic(_memcpy)


def _copy_compiled(to: Any, at: int, source: Any, begin: int, end: int) -> int:
    """Copy source[begin:end], byte by byte."""
    _copy_bytes(to, at, source, begin, end - begin)
    return at + (end - begin)


def _copy_checked(to: Any, at: int, source: Any, begin: int, end: int) -> int:
    to[at : at + (end - begin)] = source[begin:end]
    return at + (end - begin)


copy = inlined(_copy_checked if CHECKED else _copy_compiled)


@inlined
def put_number(out: Any, at: int, width: int, number: int) -> int:
    """Write a signed big-endian number of `width` bytes."""
    for i in range(width):
        out[at + i] = (number >> (8 * (width - 1 - i))) & 255
    return at + width


@inlined
def unsigned_length(number: int) -> int:
    """Return the length in bytes of the unsigned varint of a non-negative number."""
    n = 1
    while number >= 128:
        number >>= 7
        n += 1
    return n


@inlined
def put_unsigned(out: Any, at: int, number: int) -> int:
    """Write an unsigned varint: 7 bits per byte, the lowest first."""
    while number >= 128:
        out[at] = (number & 127) | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@inlined
def zigzag(number: int) -> int:
    """Map 0, -1, 1, -2 ... to 0, 1, 2, 3 ..."""
    return (number << 1) ^ (number >> 63)


@inlined
def varint_length(number: int) -> int:
    return unsigned_length(zigzag(number))


@inlined
def put_varint(out: Any, at: int, number: int) -> int:
    """Write a signed varint: the unsigned varint of the number's zigzag."""
    return put_unsigned(out, at, zigzag(number))


@inlined
def digits_of(number: int) -> int:
    """Return the number of decimal digits of a non-negative number."""
    n = 1
    most = 10
    while n < _MOST_DIGITS and number >= most:
        most *= 10
        n += 1
    return n


@inlined
def put_digits(out: Any, at: int, number: int, n: int) -> int:
    """Write a non-negative number in n decimal digits."""
    rest = np.uint64(number)  # divides faster than a number with a sign
    for i in range(n - 1, -1, -1):
        tens = rest // _TEN
        out[at + i] = _ZERO + (rest - tens * _TEN)
        rest = tens
    return at + n
