"""The steps from the bytes of one event to its subscriptions, on arrays that are held between calls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.index.kernels.encode import Columns, Cuts, Events, encode_into
from matchers.index.kernels.json import Documents, Found, Memory, Names, read_json
from matchers.kernels.ascending import first_from
from matchers.kernels.jit import inner, kernel
from matchers.kernels.jit.address import address_of, arrays_at

UNREAD = -1
IN_DOUBT = -1


class Reading(NamedTuple):
    names: Names
    memory: Memory
    found: Found
    starts: Any  # [1, V]: start and length in `found`, as `encode` takes them
    lengths: Any
    text: Any  # [U] uint8: the event, or the texts of its values
    begins: Any  # [1] int64: 0
    ends: Any  # [1] int64
    several: Any  # [1] bool: an array of several elements was read
    hard: Any  # [1] bool


class Encoding(NamedTuple):
    columns: Columns
    cuts: Cuts
    seen: Any  # [A + 1] int64: memory of `encode_into`
    offsets: Any  # [2] int64, the first of them 0
    column: Any  # int32, with room for all that the event may hold
    value: Any  # float64


class Rows(NamedTuple):
    """The R rows of a segment's table; a row belongs to a subscription."""

    owner: Any  # [R] int32, ascending
    doubt: Any  # [R] uint8: 0: the columns decide; 1: not for events with arrays of several elements; 2: not at all
    removed: Any  # int32, ascending: subscriptions that are no more


@kernel
def read_one(n: int, held: Any) -> int:
    """Read the event in the first n bytes of the text of a held `Reading`, which has room; returns how many values, or
    UNREAD if a slower reader must read it."""
    return _read_one(n, address_of(held))


@inner
def _read_one(n: int, address: Any) -> int:
    reading = arrays_at(address)
    several, hard, ends = reading.several, reading.hard, reading.ends
    several[0] = hard[0] = False
    ends[0] = n
    documents = Documents(reading.text, reading.begins, ends)
    m = read_json(documents, reading.names, reading.memory, reading.found, several, hard)
    return UNREAD if hard[0] else m


@kernel
def fill_one(values: Any, held: Any) -> None:
    """Put values [V, 4], each its path, kind, number and length of text, into a held `Reading`, which has room."""
    offsets, path, kind, number, start, length = held.arrays.found
    n = values.shape[0]
    offsets[1] = n
    at = 0
    for v in range(n):
        path[v] = np.int32(values[v, 0])
        kind[v] = np.uint8(values[v, 1])
        number[v] = values[v, 2]
        start[v] = at
        length[v] = np.int32(values[v, 3])
        at += int(values[v, 3])


@kernel
def encode_one(held_reading: Any, held: Any) -> int:
    """Encode the event that was read into a held `Encoding`, which has room; returns how many places it has."""
    return _encode_one(address_of(held_reading), address_of(held))


@inner
def _encode_one(of_reading: Any, of_encoding: Any) -> int:
    reading = arrays_at(of_reading)
    found = reading.found
    columns, cuts, seen, offsets, column, value = arrays_at(of_encoding)
    starts, lengths = reading.starts, reading.lengths
    events = Events(found.offsets, found.path, found.kind, found.number, starts, lengths, reading.text)
    return encode_into(events, columns, cuts, seen, offsets, column, value)


@kernel
def read_and_encode_one(n: int, held_reading: Any, held: Any) -> int:
    """`read_one` and `encode_one` in one call; returns how many places the event has, or UNREAD."""
    reading = address_of(held_reading)
    if _read_one(n, reading) == UNREAD:
        return UNREAD
    return _encode_one(reading, address_of(held))


@kernel
def settle_one(rows: Any, several: bool, held: Any, out: Any) -> int:
    """Fill `out` with the subscriptions of the rows that matched, of held `Rows`, each once and without the removed
    ones; returns how many, or IN_DOUBT if one of the rows needs a look at the event."""
    owner, doubt, removed = held.arrays
    m = 0
    last = -1
    for i in range(rows.shape[0]):
        r = rows[i]
        if doubt[r] > (0 if several else 1):
            return IN_DOUBT
        s = owner[r]
        if s == last:
            continue
        last = s
        at = first_from(removed, 0, removed.shape[0], s)
        if at == removed.shape[0] or removed[at] != s:
            out[m] = s
            m += 1
    return m
