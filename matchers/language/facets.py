"""Facets: ordered lines of event values, on which operators become ranges.

`number` is the line of doubles; other types have no place on it. On `token` every value of every type has one, as
bytes: in the order of the types, numbers in theirs, texts in that of their UTF-8:

    00        01     02      03     04 <8 bytes>   05 <UTF-8>      06
    absent    null   false   true   numbers        texts           end

A region of it is a list of half-open byte ranges. Exactly `k` is [k, k 00), every text that starts with `p` is
[05 p, successor(05 p)), any value at all is [01, 06), and "anything but" is what is left of that. The other facets
are the same line with texts changed first: reversed, case folded, both, or read as an IP address, as a number or a time
that is written there, or counted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from math import inf, isfinite, nextafter
from typing import TypeVar, cast

from matchers.language import times
from matchers.language.model import Absent, Constraint, Interval, Range, Region, Scalar

NUMBER = "number"
TOKEN = "token"
REVERSED = "reversed"
FOLDED = "folded"
FOLDED_REVERSED = "folded-reversed"
ADDRESS = "address"
LENGTH = "length"
WRITTEN_NUMBER = "written-number"
TIME = "time"

ABSENT_TOKEN = b"\x00"
ANY = (b"\x01", b"\x06")
ANY_OR_ABSENT = (ABSENT_TOKEN, b"\x06")
NUMBERS_AND_TEXTS = (b"\x04", b"\x06")
TEXTS_END = b"\x06"
_NUMBER_TAG = b"\x04"
_TEXT_TAG = b"\x05"
_SIGN = 1 << 63
_WRITTEN = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

Bound = TypeVar("Bound", float, bytes)


def token(value: Scalar) -> bytes:
    """A value's place on the token line. Equal numbers share one: 1, 1.0; 0.0, -0.0. NaN lies above all numbers."""
    if isinstance(value, str):
        return _TEXT_TAG + value.encode("utf-8", "surrogatepass")
    if value is None:
        return b"\x01"
    if value is False:
        return b"\x02"
    if value is True:
        return b"\x03"
    if isinstance(value, Absent):
        return ABSENT_TOKEN
    return number_token(number(value))


def number_token(value: float) -> bytes:
    """Bytes in the order of the numbers: all bits of negative numbers are inverted, the sign of others."""
    if value != value:
        return _NUMBER_TAG + b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # + 0.0 makes -0.0 the other zero
    return _NUMBER_TAG + struct.pack(">Q", bits ^ (2 * _SIGN - 1 if bits & _SIGN else _SIGN))


def number(value: float) -> float:
    """The double nearest to an event's number; an integer beyond all doubles becomes an infinity."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def fold(text: str) -> str:
    """Fold the case of a text by Unicode's full case folding: texts that differ in case only become equal."""
    return text.casefold()


def address(text: str) -> bytes | None:
    """An IPv4 or IPv6 address as bytes, the version first."""
    try:
        if ":" not in text:
            return b"\x04" + IPv4Address(text).packed
        return b"\x06" + IPv6Address(text).packed if "%" not in text else None
    except AddressValueError:
        return None


def written_number(text: str) -> float | None:
    """The number that a text is, in JSON's spelling; zeros may lead. A number beyond all doubles is none."""
    number = float(text) if _WRITTEN.fullmatch(text) else inf
    return number if isfinite(number) else None


def _written_place(text: str) -> bytes:
    number = written_number(text)
    return b"" if number is None else number_token(number)[1:]


def _changed(change: Callable[[str], bytes]) -> Callable[[Scalar], bytes]:
    return lambda value: _TEXT_TAG + change(value) if isinstance(value, str) else token(value)


# A value's place on each of the facets that are lines of bytes.
PLACE: dict[str, Callable[[Scalar], bytes]] = {
    TOKEN: token,
    REVERSED: _changed(lambda text: text.encode("utf-8", "surrogatepass")[::-1]),
    FOLDED: _changed(lambda text: fold(text).encode("utf-8", "surrogatepass")),
    FOLDED_REVERSED: _changed(lambda text: fold(text).encode("utf-8", "surrogatepass")[::-1]),
    ADDRESS: _changed(lambda text: address(text) or b""),
    LENGTH: _changed(lambda text: number_token(len(text))[1:]),
    WRITTEN_NUMBER: _changed(_written_place),
    TIME: _changed(lambda text: times.place(text) or b""),
}


def exactly(key: bytes) -> Range:
    return key, key + b"\x00"


def starting_with(key: bytes) -> Range:
    """Return the range of all bytes with this prefix. Neither a tag nor UTF-8 has a byte FF, so the last byte can be
    raised."""
    return key, key[:-1] + bytes([key[-1] + 1])


def between(low: bytes, low_closed: bool, high: bytes, high_closed: bool) -> tuple[Range, ...]:
    """Return the bytes between two bounds as a range, or no range where nothing lies between."""
    low += b"" if low_closed else b"\x00"
    high += b"\x00" if high_closed else b""
    return ((low, high),) if low < high else ()


def as_tokens(intervals: Iterable[Interval]) -> list[Range]:
    """Numbers between closed bounds, on the token line."""
    return [(number_token(low), number_token(high) + b"\x00") for low, high in intervals if low <= high]


def as_texts(intervals: Iterable[Interval]) -> list[Range]:
    """Numbers between closed bounds, on a line on which texts are changed into numbers."""
    return [(_TEXT_TAG + low[1:], _TEXT_TAG + high[1:]) for low, high in as_tokens(intervals)]


def on_tokens(regions: Mapping[str, Region]) -> dict[str, Sequence[Range]]:
    """Move the region of doubles to the token line. The regions must not hold both."""
    on: dict[str, Sequence[Range]] = {}
    for facet, region in regions.items():
        if facet == NUMBER:
            on[TOKEN] = as_tokens(cast("Sequence[Interval]", region))
        else:
            on[facet] = cast("Sequence[Range]", region)
    return on


def conjoin(a: Constraint, b: Constraint) -> Constraint:
    """The conjunction of two constraints."""
    left, right = a.regions, b.regions
    if (NUMBER in left) != (NUMBER in right) and (TOKEN in left or TOKEN in right):
        left, right = on_tokens(left), on_tokens(right)
    regions = {**left, **right}
    for facet in left.keys() & right.keys():
        regions[facet] = intersection(cast("Sequence[Range]", left[facet]), cast("Sequence[Range]", right[facet]))
    return Constraint(regions, a.residual + b.residual)


def conjoined(constraints: Sequence[Constraint]) -> Constraint:
    """The conjunction of one or more constraints, in pairs of pairs: what many have in common is found in n log n."""
    left = list(constraints)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [conjoin(a, b) for a, b in pairs] + left[len(left) & ~1 :]
    return left[0]


def interval(low: float, low_closed: bool, high: float, high_closed: bool) -> tuple[Interval, ...]:
    """The doubles between two bounds as one closed interval, or as none where nothing lies between."""
    low = low if low_closed else nextafter(low, inf)
    high = high if high_closed else nextafter(high, -inf)
    return ((low, high),) if low <= high else ()


def complement(ranges: Iterable[Range], whole: Range = ANY) -> list[Range]:
    """The complement within the whole."""
    left, (at, end) = [], whole
    for low, high in union(ranges):
        if at < low:
            left.append((at, low))
        at = max(at, high)
    return [*left, (at, end)] if at < end else left


def union(ranges: Iterable[Range]) -> list[Range]:
    """Unite ranges: the result is ascending, and its ranges neither overlap nor touch."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def intersection(a: Sequence[tuple[Bound, Bound]], b: Sequence[tuple[Bound, Bound]]) -> list[tuple[Bound, Bound]]:
    """The intersection of two lists of ranges. It may contain an empty range [k, k), which is harmless."""
    a, b = sorted(a), sorted(b)
    common = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            common.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return common
