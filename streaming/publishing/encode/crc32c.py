"""CRC-32C of a range of bytes: by the processor's instruction where it has one (SSE4.2), else by tables.

The tables serve eight bytes at a time ("slicing by 8"): TABLES[k, b] is the remainder of byte b and k bytes after it.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchers.kernels.jit import inlined, kernel
from matchers.kernels.texts import CHECKED, load

_code: Any = cgutils  # without types
_POLYNOMIAL = np.uint32(0x82F63B78)  # bits reversed
_ALL = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)
_8, _16, _24, _32 = np.uint32(8), np.uint32(16), np.uint32(24), np.uint64(32)


def _tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    tables = np.zeros((8, 256), np.uint32)
    rest = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        rest = (rest >> np.uint32(1)) ^ np.where(rest & np.uint32(1), _POLYNOMIAL, np.uint32(0))
    tables[0] = rest
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> _8) ^ tables[0][tables[k - 1] & _BYTE]
    return tables


TABLES = _tables()

LANE = 512  # bytes of each of three lanes: an instruction waits 3 cycles for the one before, unless that is of a lane


def _beyond() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """BEYOND[k, b] is what LANE zero bytes make of the remainder b << 8 k."""
    bytes_of_four = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    beyond: np.ndarray[Any, np.dtype[np.uint32]]
    beyond = TABLES[0, bytes_of_four & _BYTE] ^ (bytes_of_four >> _8)  # one byte more
    for _ in range(LANE.bit_length() - 1):  # twice as many
        beyond = (
            beyond[0, beyond & _BYTE]
            ^ beyond[1, (beyond >> _8) & _BYTE]
            ^ beyond[2, (beyond >> _16) & _BYTE]
            ^ beyond[3, beyond >> _24]
        )
    return beyond


BEYOND = _beyond()


def has_instruction() -> bool:
    """Return whether kernels may use SSE4.2: the processor has it, and numba compiles for this processor."""
    settings: Any = numba.config
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if settings.CPU_FEATURES is not None:
        return "+sse4.2" in settings.CPU_FEATURES
    if settings.CPU_NAME not in (None, "host"):
        return False
    return bool(llvm.get_host_cpu_features().get("sse4.2", False))


def _instruction(_: Any, crc: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_words = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(64)])
        function = _code.get_or_insert_function(builder.module, of_words, "llvm.x86.sse42.crc32.64.64")
        return builder.call(function, arguments)

    return types.uint64(types.uint64, types.uint64), generate


_crc_of_word: Any = intrinsic(_instruction)


@kernel
def by_tables(data: Any, begin: int, end: int) -> Any:
    """CRC-32C of data[begin:end], uint32."""
    crc = _ALL
    i = begin
    while i + 8 <= end:
        word = load(data, i)
        low = np.uint32(word & np.uint64(_ALL)) ^ crc
        high = np.uint32(word >> _32)
        crc = (
            TABLES[7, low & _BYTE]
            ^ TABLES[6, (low >> _8) & _BYTE]
            ^ TABLES[5, (low >> _16) & _BYTE]
            ^ TABLES[4, low >> _24]
            ^ TABLES[3, high & _BYTE]
            ^ TABLES[2, (high >> _8) & _BYTE]
            ^ TABLES[1, (high >> _16) & _BYTE]
            ^ TABLES[0, high >> _24]
        )
        i += 8
    while i < end:
        crc = TABLES[0, (crc ^ np.uint32(data[i])) & _BYTE] ^ (crc >> _8)
        i += 1
    return crc ^ _ALL


@inlined
def _beyond_lane(words: Any) -> Any:
    """The remainder after LANE zero bytes more, uint64."""
    crc = np.uint32(words)
    return np.uint64(
        BEYOND[0, crc & _BYTE]
        ^ BEYOND[1, (crc >> _8) & _BYTE]
        ^ BEYOND[2, (crc >> _16) & _BYTE]
        ^ BEYOND[3, crc >> _24]
    )


@kernel
def by_instruction(data: Any, begin: int, end: int) -> Any:
    """CRC-32C of data[begin:end], uint32."""
    words = np.uint64(_ALL)
    i = begin
    while i + 3 * LANE <= end:
        second = third = np.uint64(0)
        for j in range(i, i + LANE, 8):
            words = _crc_of_word(words, load(data, j))
            second = _crc_of_word(second, load(data, j + LANE))
            third = _crc_of_word(third, load(data, j + 2 * LANE))
        words = _beyond_lane(_beyond_lane(words) ^ second) ^ third
        i += 3 * LANE
    while i + 8 <= end:
        words = _crc_of_word(words, load(data, i))
        i += 8
    crc = np.uint32(words)
    while i < end:
        crc = TABLES[0, (crc ^ np.uint32(data[i])) & _BYTE] ^ (crc >> _8)
        i += 1
    return crc ^ _ALL


crc32c = by_instruction if has_instruction() and not CHECKED else by_tables
