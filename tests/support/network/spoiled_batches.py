"""Record batches with wrong lengths, offsets, counts, codecs and checksums, by the structure of Kafka's formats."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from random import Random
from typing import NamedTuple

from tests.support.doubles.fetched_batches import CODECS, CONTROL, HEAD, TRANSACTIONAL, sealed

LENGTHS = (-(2**31), -1, 0, 1, 13, 14, 48, 49, 50, 2**31 - 1)
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 63, 64, 2**31 - 1, 2**31, 2**63 - 1)
MOST_BOMB_BYTES = 3 << 20
ENDLESS = b"\xff" * 11  # a varint that does not end


class Effect(IntEnum):
    """The outcomes that a reader may have; of several the greatest counts."""

    EXACT = 0  # the right records, or an error after some of them
    LIE = 1  # no reader could notice: only that offsets ascend is sure


class Spoiled(NamedTuple):
    batches: Sequence[bytes]
    effect: Effect


def split(data: bytes) -> list[bytes]:
    """The batches and messages, one by one; the last may be cut off."""
    pieces, at = list[bytes](), 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        pieces.append(data[at:end])
        at = end
    return pieces


def is_whole(batch: bytes) -> bool:
    return len(batch) >= 26 and len(batch) == 12 + int.from_bytes(batch[8:12], "big")


def marked(batch: bytes) -> int | None:
    """The producer whose transaction a batch ends; None if it is no control batch."""
    return _get(batch, 43, 8) if batch[16] == 2 and _is_control(batch) else None


def spoil(r: Random, data: bytes) -> tuple[bytes, str, Effect]:
    """Return other data, the name of the fault, and its effect."""
    batches = split(data)
    whole = [b for b, batch in enumerate(batches) if is_whole(batch)]
    if not whole:
        return data, "nothing", Effect.EXACT
    b = r.choice(whole)
    kinds: dict[str, Callable[[Random, bytes], tuple[bytes, Effect]]] = {**OF_BATCHES}
    if batches[b][16] != 2:
        kinds = {**OF_MESSAGES}
    name = r.choice([*kinds, *OF_LISTS])
    if name in OF_LISTS:
        batches, effect = OF_LISTS[name](r, batches, b)
    else:
        batches[b], effect = kinds[name](r, batches[b])
    return b"".join(batches), name, effect


def _put(batch: bytes, at: int, value: int, width: int) -> bytes:
    return batch[:at] + (value % (1 << 8 * width)).to_bytes(width, "big") + batch[at + width :]


def _get(batch: bytes, at: int, width: int) -> int:
    return int.from_bytes(batch[at : at + width], "big", signed=True)


def _is_control(batch: bytes) -> bool:
    return bool(_get(batch, 21, 2) & CONTROL)


def _length(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    length = r.choice([*LENGTHS, len(batch) - 13, len(batch) - 11, r.randrange(2 * len(batch))])
    return _put(batch, 8, length, 4), Effect.EXACT


def _checksum(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return _put(batch, 17, _get(batch, 17, 4) ^ (1 << r.randrange(32)), 4), Effect.EXACT


def _format(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return _put(batch, 16, r.choice([0, 1, 3, 127, 128, 255]), 1), Effect.EXACT


def _base(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    base = _get(batch, 0, 8)
    other = r.choice([*NUMBERS, base - 1, base + 1, base - 3, base + 10, base ^ (1 << r.randrange(63))])
    return _put(batch, 0, other, 8), Effect.LIE


def _leader_epoch(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return _put(batch, 12, r.choice([-(2**31), -2, 1, 2**31 - 1]), 4), Effect.EXACT


def _last(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    last = _get(batch, 23, 4)
    other = r.choice([*LENGTHS, last - 1, last + 1])
    return sealed(_put(batch, 23, other, 4)), Effect.EXACT if other <= last else Effect.LIE


def _count(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    n = _get(batch, 57, 4)
    return sealed(_put(batch, 57, r.choice([*LENGTHS, n - 1, n + 1, 10 * n]), 4)), _of(batch)


def _codec(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    attributes = _get(batch, 21, 2)
    return sealed(_put(batch, 21, attributes & ~7 | r.randrange(8), 2)), _of(batch)


def _attributes(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    other = _get(batch, 21, 2) ^ r.choice([8, TRANSACTIONAL, CONTROL, 64, 1 << 14, 1 << 15])
    return sealed(_put(batch, 21, other, 2)), Effect.LIE


def _owner(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return sealed(_put(batch, 43, r.choice(NUMBERS), 8)), Effect.LIE


def _times(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return sealed(_put(batch, r.choice([27, 35]), r.choice(NUMBERS), 8)), Effect.LIE


def _cut(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    return sealed(batch[: r.randint(21, len(batch) - 1)]), _of(batch)


def _more(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    """Bytes behind the last record, or behind the end of the compressed stream."""
    some = r.choice([b"\0", b"\0" * 300, r.randbytes(r.randint(1, 40)), gzip.compress(b""), gzip.compress(b"x")])
    return sealed(batch + some * r.choice([1, 1, 1, 500])), _of(batch)


def _stream(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    """Other bytes amid the records, which may be a compressed stream."""
    if len(batch) == HEAD:
        return batch, Effect.EXACT
    out = bytearray(batch)
    for _ in range(r.choice([1, 1, 3])):
        out[r.randrange(HEAD, len(out))] = r.choice([0, 1, 127, 128, 255, r.randrange(256)])
    return sealed(out), Effect.LIE


def _bomb(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    """A stream of some thousand times its size, which is no record, or one of that size."""
    if _get(batch, 57, 4) == 0 or _is_control(batch):
        return batch, Effect.EXACT
    number, pack = CODECS[r.choice([codec for codec in CODECS if codec != "none"])]
    first = r.choice([b"", varint(r.choice([MOST_BOMB_BYTES, 2**31 - 1, 2**40, -1]))])
    packed = pack(first + bytes(r.choice([1 << 16, 1 << 20, MOST_BOMB_BYTES])))
    attributes = _get(batch, 21, 2) & ~7 | number
    return sealed(_put(batch[:HEAD], 21, attributes, 2) + packed), Effect.LIE


def _record_field(r: Random, batch: bytes) -> tuple[bytes, Effect]:
    """Another number in a field of a record."""
    if _get(batch, 21, 2) & 7 or _get(batch, 57, 4) <= 0:
        return batch, Effect.EXACT
    begin, end = r.choice(list(fields(batch)))
    value, _ = _read(batch, begin)
    other = r.choice(
        [varint(r.choice([*NUMBERS, value - 1, value + 1])), varint(value, 10), varint(value, end - begin + 1), ENDLESS]
    )
    return sealed(batch[:begin] + other + batch[end:]), Effect.LIE


def _of(batch: bytes) -> Effect:
    """A control batch is not checked beyond its key."""
    return Effect.LIE if _is_control(batch) else Effect.EXACT


OF_BATCHES: dict[str, Callable[[Random, bytes], tuple[bytes, Effect]]] = {
    "length": _length,
    "checksum": _checksum,
    "format": _format,
    "base offset": _base,
    "leader epoch": _leader_epoch,
    "last offset": _last,
    "number of records": _count,
    "codec": _codec,
    "attributes": _attributes,
    "producer": _owner,
    "times": _times,
    "cut": _cut,
    "bytes behind": _more,
    "bytes within": _stream,
    "bomb": _bomb,
    "field of a record": _record_field,
}


def _message(message: bytes) -> bytes:
    """A message of an old format with the length and checksum of its bytes."""
    out = bytearray(message)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[12:16] = zlib.crc32(out[16:]).to_bytes(4, "big")
    return bytes(out)


def _message_field(r: Random, message: bytes) -> tuple[bytes, Effect]:
    """Another number in the attributes, the time or the length of the key."""
    at, width = r.choice([(17, 1), (18, 8), (18, 4), (26, 4), (22, 4), (30, 4)])
    return _message(_put(message, at, r.choice(NUMBERS), width)), Effect.LIE


def _message_within(r: Random, message: bytes) -> tuple[bytes, Effect]:
    """Another number in a field of a message within a compressed one."""
    begin = 18 + 8 * message[16]  # of the lengths of key and value: there is no key
    within = bytearray()
    for _ in range(r.randint(1, 3)):
        inner = bytearray(begin + 8)
        inner[8:12] = (len(inner) - 12).to_bytes(4, "big")
        inner[16] = message[16]
        inner[begin : begin + 8] = b"\xff" * 8
        within += inner
    at, width = r.choice([(0, 8), (8, 4), (8, 4), (16, 1), (17, 1), (begin, 4), (begin + 4, 4)])
    within[at : at + width] = r.choice([*NUMBERS, -12, -13]).to_bytes(16, "big", signed=True)[-width:]
    packed = gzip.compress(bytes(within) + r.choice([b"", bytes(MOST_BOMB_BYTES)]))
    head = bytearray(message[:begin])
    head[17] = 1
    return _message(bytes(head) + b"\xff" * 4 + len(packed).to_bytes(4, "big") + packed), Effect.LIE


def _message_checksum(r: Random, message: bytes) -> tuple[bytes, Effect]:
    return _put(message, 12, _get(message, 12, 4) ^ (1 << r.randrange(32)), 4), Effect.EXACT


def _message_format(r: Random, message: bytes) -> tuple[bytes, Effect]:
    return _put(message, 16, r.choice([2, 3, 127, 255]), 1), Effect.EXACT


def _message_cut(r: Random, message: bytes) -> tuple[bytes, Effect]:
    return _message(message[: r.randint(18, len(message) - 1)]), Effect.LIE


OF_MESSAGES: dict[str, Callable[[Random, bytes], tuple[bytes, Effect]]] = {
    "length of a message": _length,
    "offset of a message": _base,
    "checksum of a message": _message_checksum,
    "format of a message": _message_format,
    "field of a message": _message_field,
    "field of a message within": _message_within,
    "cut message": _message_cut,
}


def _twice(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    return [*batches[: b + 1], *([batches[b]] * r.choice([1, 1, 100])), *batches[b + 1 :]], Effect.EXACT


def _swapped(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    return [*batches[:b], *batches[b + 1 : b + 2], batches[b], *batches[b + 2 :]], Effect.LIE


def _removed(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    return [*batches[:b], *batches[b + 1 :]], Effect.LIE


def _rubbish(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    some = r.choice([bytes(r.randint(1, 80)), b"\xff" * r.randint(1, 80), r.randbytes(r.randint(1, 80))])
    return [*batches[:b], some, *batches[b:]], Effect.EXACT


def _cut_off(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    data = b"".join(batches)
    return [data[: r.randrange(len(data))]], Effect.EXACT


def _again_later(r: Random, batches: list[bytes], b: int) -> tuple[list[bytes], Effect]:
    return [*batches, batches[b]] if is_whole(batches[-1]) else batches, Effect.EXACT


OF_LISTS: dict[str, Callable[[Random, list[bytes], int], tuple[list[bytes], Effect]]] = {
    "twice": _twice,
    "swapped": _swapped,
    "removed": _removed,
    "rubbish between": _rubbish,
    "cut off": _cut_off,
    "again later": _again_later,
}


def varint(value: int, width: int = 1) -> bytes:
    """A signed varint of at least `width` bytes."""
    bits, out = (value << 1) ^ (value >> 63), bytearray()
    while bits >= 128 or len(out) < width - 1:
        out.append(bits & 127 | 128)
        bits >>= 7
    return bytes([*out, bits])


def _read(data: bytes, at: int) -> tuple[int, int]:
    bits = shift = 0
    while True:
        byte = data[at]
        at += 1
        bits |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (bits >> 1) ^ -(bits & 1), at


def fields(batch: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the varints of the records begin and end."""
    at = HEAD
    for _ in range(_get(batch, 57, 4)):
        yield at, (at := _read(batch, at)[1])
        at += 1  # attributes
        for _ in range(2):  # differences of time and offset
            yield at, (at := _read(batch, at)[1])
        for _ in range(2):  # key and value
            begin = at
            length, at = _read(batch, at)
            yield begin, at
            at += max(length, 0)
        begin = at
        count, at = _read(batch, at)
        yield begin, at
        for _ in range(2 * count):  # names and contents of headers
            begin = at
            length, at = _read(batch, at)
            yield begin, at
            at += max(length, 0)
