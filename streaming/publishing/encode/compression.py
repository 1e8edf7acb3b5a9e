"""Compress the records of a batch."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import lz4.frame
import pyarrow as pa

from streaming.publishing.contract import Bytes

_ZSTD = pa.Codec("zstd", 1)
Packed = bytes | bytearray | memoryview


class Codec(NamedTuple):
    number: int  # in the attributes of a batch
    compress: Callable[[Bytes], Packed] | None


def _gzip(data: Bytes) -> Packed:
    return zlib.compress(data.data, level=1, wbits=31)


def _lz4(data: Bytes) -> Packed:
    """Compress without linked blocks, which Arrow writes and Kafka's format forbids."""
    packed: bytes = lz4.frame.compress(data.data, block_linked=False)
    return packed


def _zstd(data: Bytes) -> Packed:
    packed: bytes = _ZSTD.compress(pa.py_buffer(data), asbytes=True)
    return packed


CODECS = {"none": Codec(0, None), "gzip": Codec(1, _gzip), "lz4": Codec(3, _lz4), "zstd": Codec(4, _zstd)}
