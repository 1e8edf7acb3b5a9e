"""Decompress the records of a batch, piece by piece: a small batch may hold gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import pyarrow as pa

Piece = tuple[bytes | memoryview, bool]  # some of the records, and whether they are the last; may be empty then

# What the libraries raise for data that they cannot read.
ERRORS = (OSError, RuntimeError, ValueError, EOFError, zlib.error)

# The most that one record may hold, and one block of snappy: memory, whatever a small batch unpacks to.
MOST_RECORD_BYTES = 1 << 28

_READ_BYTES = 1 << 14  # of gzip at once: zlib copies what it did not use
_SNAPPY = pa.Codec("snappy")
_XERIAL = b"\x82SNAPPY\x00"  # then two versions of 4 bytes, then blocks
_XERIAL_HEAD = 16
_SNAPPY_RATIO = 22  # an element of 3 bytes copies 64


def unpacked(codec: int, data: memoryview, size: int) -> Iterator[Piece]:
    """Yield the records in pieces of at most `size` bytes; a block of snappy is a piece. Raises ERRORS."""
    if codec not in _CODECS:
        raise ValueError(f"codec {codec} is unknown")
    return _CODECS[codec](data, size)


def _gzip(data: memoryview, size: int) -> Iterator[Piece]:
    """Decompress gzip, which may be thousands of members one after the other."""
    decompressor = zlib.decompressobj(wbits=31)
    pieces: list[bytes] = []
    at = ready = 0
    rest: bytes | memoryview = b""
    while True:
        if not rest:
            rest = data[at : at + _READ_BYTES]
            at += len(rest)
        is_out = not rest
        pieces.append(decompressor.decompress(rest, size - ready))
        ready += len(pieces[-1])
        rest = decompressor.unconsumed_tail
        if decompressor.eof:
            rest = decompressor.unused_data
            if not rest and at == len(data):
                yield b"".join(pieces), True
                return
            decompressor = zlib.decompressobj(wbits=31)
        elif is_out and not pieces[-1]:
            raise EOFError("the compressed data end early")
        if ready >= size:
            yield b"".join(pieces), False
            pieces, ready = [], 0


def _snappy(data: memoryview, size: int) -> Iterator[Piece]:
    """Decompress snappy: Java's clients write a frame of blocks, librdkafka writes a single block."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        yield _snappy_block(data), True
        return
    blocks: list[bytes] = []
    at, ready = _XERIAL_HEAD, 0
    while at < len(data):
        begin = at + 4
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > len(data):
            raise EOFError("the compressed data end early")
        blocks.append(_snappy_block(data[begin:at]))
        ready += len(blocks[-1])
        if ready >= size and at < len(data):
            yield b"".join(blocks), False
            blocks, ready = [], 0
    yield b"".join(blocks), True


def _snappy_block(data: memoryview) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > _SNAPPY_RATIO * len(data):  # it would be allocated before anything is read
        raise ValueError(f"{len(data)} bytes cannot hold {size}")
    if size > MOST_RECORD_BYTES:
        raise ValueError(f"a block of snappy has more than {MOST_RECORD_BYTES} bytes")
    block: bytes = _SNAPPY.decompress(pa.py_buffer(data), size, asbytes=True)
    return block


def _lz4(data: memoryview, size: int) -> Iterator[Piece]:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    rest: bytes | memoryview = data
    while True:
        piece = decompressor.decompress(rest, size)
        if not decompressor.eof and (decompressor.needs_input or not (rest or piece)):
            raise EOFError("the compressed data end early")
        rest = b""  # it keeps what it has not used
        yield piece, decompressor.eof
        if decompressor.eof:
            return


def _zstd(data: memoryview, size: int) -> Iterator[Piece]:
    """Decompress zstd; a frame need not state its size."""
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while True:
            piece = stream.read(size)
            yield piece, len(piece) < size
            if len(piece) < size:
                return


def _none(data: memoryview, size: int) -> Iterator[Piece]:
    yield data, True


# The number of each in a batch's attributes.
_CODECS: dict[int, Callable[[memoryview, int], Iterator[Piece]]] = {0: _none, 1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
