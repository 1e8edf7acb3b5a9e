"""Facets: the two number lines that a field's values are laid on, so that operators become intervals.

    number   the double itself; other types have no place on it
    token    every value of every type, as bytes; in the order of the types, and within texts in that of UTF-8:

             00        01     02      03     04 <8 bytes>   05 <UTF-8>      06
             absent    null   false   true   numbers        texts           end

A region of the token line is a list of half-open byte ranges. Exactly `k` is [k, k + 00), every text that starts
with `p` is [05 p, successor(05 p)), any value at all is [01, 06), and "anything but" is what is left of that. So
text, null, booleans, presence and absence need one column a field, and they may be mixed freely in one list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, nextafter

from matchers.model import Absent, Scalar

NUMBER = "number"
TOKEN = "token"

ABSENT_TOKEN = b"\x00"
ANY = (b"\x01", b"\x06")
_NUMBER_TAG = b"\x04"
_TEXT_TAG = b"\x05"

Interval = tuple[float, float]  # closed
Range = tuple[bytes, bytes]  # half-open


@dataclass(frozen=True)
class Region:
    """The values an operator accepts: those on one of the intervals or in one of the ranges."""

    numbers: tuple[Interval, ...] = ()
    tokens: tuple[Range, ...] = ()


def token(value: Scalar) -> bytes:
    """A value's place on the token line. Equal numbers share one: 1, 1.0; 0.0, -0.0."""
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
    return _NUMBER_TAG + struct.pack(">d", number(value) + 0.0)  # + 0.0 makes -0.0 the other zero


def number(value: float) -> float:
    """The double nearest to an event's number; an integer beyond all doubles becomes an infinity."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def exactly(key: bytes) -> Range:
    return key, key + b"\x00"


def starting_with(prefix: str) -> Range:
    """All texts that start with `prefix`. UTF-8 holds no FF, so the last byte can always be raised."""
    low = token(prefix)
    return low, low[:-1] + bytes([low[-1] + 1])


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """What is left of ANY."""
    left, at = [], ANY[0]
    for low, high in union(ranges):
        if at < low:
            left.append((at, low))
        at = high
    return (*left, (at, ANY[1])) if at < ANY[1] else tuple(left)


def union(ranges: Iterable[Range]) -> list[Range]:
    """The same set as disjoint ascending ranges that do not touch."""
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def interval(low: float, low_closed: bool, high: float, high_closed: bool) -> tuple[Interval, ...]:
    """The doubles between two bounds as one closed interval, or as none where nothing lies between."""
    low = low if low_closed else nextafter(low, inf)
    high = high if high_closed else nextafter(high, -inf)
    return ((low, high),) if low <= high else ()
