"""Read named fields of JSON events from their bytes into arrays, without an object per field.

Every byte is read once, and fields that no subscription names are checked as well. An event that is read here is JSON
(RFC 8259) throughout. Rare documents are left to a slower reader, which also names the errors in them: escapes in a
name or a value that is wanted, names that come twice in an object, arrays in arrays, objects in arrays, numbers of
more than 19 digits or near the ends of the range, nesting deeper than DEPTH.

Fast, because
- a name is compared first with the one that followed its predecessor in an earlier event: no hash where events have
  their names in one order;
- digits become doubles in integer registers: exact for 15 digits and small powers of ten (Clinger, PLDI 1990), and by
  one 64 x 128 bit product for the rest (Lemire, "Number parsing at a gigabyte per second", 2021, sec. 5 to 8).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.jit import inlined, inner, kernel
from matchers.kernels.texts import load

ROOT = 0
DEAD = -1  # within what no subscription names
DEPTH = 64

NULL, FALSE, TRUE, NUMBER, TEXT = 1, 2, 3, 4, 5  # kinds of values; tags on the token line as well

UNKNOWN = np.uint64((1 << 64) - 1)  # the bits of no number

_KEY, _FIRST_KEY, _VALUE, _FIRST_VALUE, _AFTER = 0, 1, 2, 3, 4  # what may come next

_MASK = (1 << 64) - 1
_LOWEST, _HIGHEST = -342, 308  # powers of ten that a double may need
_MOST_POWER = 100_000  # numbers with an exponent from here on are left to the slower reader


def _powers() -> tuple[np.ndarray, np.ndarray]:
    """The 128 leading bits of each power of ten, cut off: high and low half."""
    high, low = [], []
    for exponent in range(_LOWEST, _HIGHEST + 1):
        if exponent >= 0:
            power = 10**exponent
            shift = 128 - power.bit_length()
            mantissa = power << shift if shift >= 0 else power >> -shift
        else:
            power = 10**-exponent
            mantissa = (1 << (power.bit_length() + 127)) // power
            mantissa >>= mantissa.bit_length() - 128
        high.append(mantissa >> 64)
        low.append(mantissa & _MASK)
    return np.array(high, np.uint64), np.array(low, np.uint64)


class Documents(NamedTuple):
    """N documents in U bytes: document d is text[begins[d] : ends[d]], UTF-8."""

    text: Any  # [U] uint8
    begins: Any  # [N] int64
    ends: Any  # [N] int64


class Names(NamedTuple):
    """The tree of fields: a hash table of (node, name), open addressing, T places, a power of two."""

    node: Any  # [T] int32: whose child it is; -1: free
    child: Any  # [T] int32
    start: Any  # [T] int32: the name is text[start : start + length]
    length: Any  # [T] int32
    text: Any  # uint8
    path: Any  # [nodes] int32: position in Fields.paths or -1
    inner: Any  # [nodes] bool: has children


class Found(NamedTuple):
    """The V values of N events; event e owns offsets[e] .. offsets[e + 1]."""

    offsets: Any  # [N + 1] int64
    path: Any  # [V] int32: position in Fields.paths
    kind: Any  # [V] uint8
    number: Any  # [V] float64, of a NUMBER
    start: Any  # [V] int64, of a TEXT: where it begins in the text of the documents
    length: Any  # [V] int32, of a TEXT


class Memory(NamedTuple):
    """The memory that a reader of T names and `nodes` nodes needs, and may keep from call to call."""

    stack: Any  # [DEPTH] int32: the node of each open object or array
    is_array: Any  # [DEPTH] bool
    serial: Any  # [DEPTH] int64: of each open object
    seen: Any  # [nodes] int64, first 0: the serial of the object in which a node came last
    follows: Any  # [T + 1] int64, first 0: the slot that came after each slot; the last: first of all
    last_serial: Any  # [1] int64, first 0


_POWER_HIGH, _POWER_LOW = _powers()
_EXACT = np.array([10.0**e for e in range(23)])

# Bytes within a text: 0 stands for itself, 1 ends it, 2 escapes, 3 begins a longer character, 4 may not be there.
_CLASS = np.zeros(256, np.uint8)
_CLASS[:0x20] = 4
_CLASS[ord('"')] = 1
_CLASS[ord("\\")] = 2
_CLASS[0x80:] = 3


@kernel
def key_hash(node: int, name: Any) -> int:
    h = np.uint32(2166136261) ^ np.uint32(node)
    for i in range(name.shape[0]):
        h = _mix(h, name[i])
    return int(h)


@inner
def _mix(h: Any, byte: Any) -> Any:
    """FNV-1a, kept to 32 bits."""
    return np.uint32(((np.uint64(h) ^ np.uint64(byte)) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF))


@kernel
def read_json(documents: Documents, names: Names, memory: Memory, found: Found, several: Any, hard: Any) -> int:
    """Fill `found`, whose first offset is 0, with the values of events; returns how many there are.

    several: [N] bool: an array of several elements was read. hard: [N] bool: the event is left to the slower reader.
    """
    blob, begins, ends = documents
    t_node, t_child, t_start, t_length, t_text, n_path, n_inner = names
    offsets, path, kind, number, start, length = found
    number_bits = number.view(np.uint64)
    stack, is_array, serial, seen, follows, last_serial = memory
    objects = last_serial[0]
    m = 0
    mask = t_node.shape[0] - 1
    for e in range(begins.shape[0]):
        m0 = m
        i = begins[e]
        end = ends[e]
        depth = -1
        node = ROOT
        expect = _VALUE
        previous = t_node.shape[0]
        many = False
        good = False
        while i < end:
            c = blob[i]
            if c == 0x20 or c == 0x0A or c == 0x0D or c == 0x09:
                i += 1
                continue
            if expect == _AFTER:
                if depth < 0:  # something after the event's end
                    good = False
                    break
                if c == 0x2C:  # ,
                    i += 1
                    if is_array[depth]:
                        expect = _VALUE
                        node = stack[depth]
                        many = many or node >= 0
                    else:
                        expect = _KEY
                    continue
                if (c == 0x5D) if is_array[depth] else (c == 0x7D):  # ] }
                    i += 1
                    depth -= 1
                    good = depth < 0
                    continue
                break
            if expect == _KEY or expect == _FIRST_KEY:  # noqa: SIM109
                if c == 0x7D and expect == _FIRST_KEY:
                    i += 1
                    depth -= 1
                    good = depth < 0
                    expect = _AFTER
                    continue
                if c != 0x22:
                    break
                i += 1
                parent = stack[depth]
                if parent < 0:
                    i = _skip_text(blob, i, end)
                    if i < 0:
                        break
                    node = DEAD
                else:
                    slot = follows[previous]
                    n = t_length[slot]
                    same = t_node[slot] == parent and i + n < end and blob[i + n] == 0x22
                    if same:
                        s = t_start[slot]
                        for k in range(n):
                            if blob[i + k] != t_text[s + k]:
                                same = False
                                break
                    if same:
                        i += n
                        node = t_child[slot]
                        previous = slot
                    else:
                        begin = i
                        h = np.uint32(2166136261) ^ np.uint32(parent)
                        while i < end and _CLASS[blob[i]] == 0:
                            h = _mix(h, blob[i])
                            i += 1
                        while i < end and blob[i] != 0x22:
                            if _CLASS[blob[i]] == 3:
                                stop = _skip_character(blob, i, end)
                                if stop < 0:
                                    i = end
                                    break
                                while i < stop:
                                    h = _mix(h, blob[i])
                                    i += 1
                            elif _CLASS[blob[i]] == 0:
                                h = _mix(h, blob[i])
                                i += 1
                            else:
                                i = end
                        if i >= end:
                            break
                        slot = np.int64(h) & mask
                        node = DEAD
                        while t_node[slot] >= 0:
                            n = t_length[slot]
                            if t_node[slot] == parent and n == i - begin:
                                s = t_start[slot]
                                same = True
                                for k in range(n):
                                    if blob[begin + k] != t_text[s + k]:
                                        same = False
                                        break
                                if same:
                                    node = t_child[slot]
                                    follows[previous] = slot
                                    previous = slot
                                    break
                            slot = (slot + 1) & mask
                    if node >= 0:
                        if seen[node] == serial[depth]:  # the name came before: which one counts is not decided here
                            break
                        seen[node] = serial[depth]
                i += 1  # the closing quote
                while i < end and (blob[i] == 0x20 or blob[i] == 0x0A or blob[i] == 0x0D or blob[i] == 0x09):
                    i += 1
                if i >= end or blob[i] != 0x3A:  # :
                    break
                i += 1
                expect = _VALUE
                continue

            # a value of the field `node`
            if c == 0x5D and expect == _FIRST_VALUE:
                i += 1
                depth -= 1
                expect = _AFTER
                continue
            wanted = node >= 0 and n_path[node] >= 0
            if c == 0x22:
                if depth < 0:
                    break
                i += 1
                begin = i
                i = skip_plain(blob, i, end)
                if i < end and blob[i] != 0x22:
                    i = skip_plain_text(blob, i, end) if wanted else _skip_text(blob, i, end)
                    if i < 0:
                        break
                if i >= end:
                    break
                if wanted:
                    path[m] = n_path[node]
                    kind[m] = TEXT
                    start[m] = begin
                    length[m] = i - begin
                    m += 1
                i += 1
                expect = _AFTER
            elif c == 0x2D or 0x30 <= c <= 0x39:
                if depth < 0:
                    break
                i, mantissa, exponent, _ = scan_number(blob, i, end)
                if i < 0:
                    break
                if wanted:
                    bits = nearest_double(mantissa, exponent)
                    if bits == UNKNOWN:
                        break
                    number_bits[m] = bits | (np.uint64(c == 0x2D) << np.uint64(63))
                    path[m] = n_path[node]
                    kind[m] = NUMBER
                    m += 1
                expect = _AFTER
            elif c == 0x7B:  # {
                if depth + 1 == DEPTH or (node >= 0 and depth >= 0 and is_array[depth]):
                    break
                depth += 1
                stack[depth] = node if node >= 0 and n_inner[node] else DEAD
                is_array[depth] = False
                objects += 1
                serial[depth] = objects
                i += 1
                expect = _FIRST_KEY
            elif c == 0x5B:  # [
                if depth < 0 or depth + 1 == DEPTH or (node >= 0 and is_array[depth]):
                    break
                depth += 1
                stack[depth] = node
                is_array[depth] = True
                i += 1
                expect = _FIRST_VALUE
            else:
                if depth < 0:
                    break
                which = 0
                if c == 0x74 and i + 4 <= end and blob[i + 1] == 0x72 and blob[i + 2] == 0x75 and blob[i + 3] == 0x65:
                    which = TRUE
                    i += 4
                elif (
                    c == 0x66
                    and i + 5 <= end
                    and blob[i + 1] == 0x61
                    and blob[i + 2] == 0x6C
                    and blob[i + 3] == 0x73
                    and blob[i + 4] == 0x65
                ):
                    which = FALSE
                    i += 5
                elif c == 0x6E and i + 4 <= end and blob[i + 1] == 0x75 and blob[i + 2] == 0x6C and blob[i + 3] == 0x6C:
                    which = NULL
                    i += 4
                else:
                    break
                if wanted:
                    path[m] = n_path[node]
                    kind[m] = which
                    m += 1
                expect = _AFTER
        if i < end or not good:
            hard[e] = True
            m = m0
        else:
            several[e] = many
        offsets[e + 1] = m
    last_serial[0] = objects
    return m


@inner
def skip_plain(blob: Any, i: int, end: int) -> int:
    """The place of the first byte that does not stand for itself in a text, eight at a time.

    In (word ^ c) - 01..01 the lowest byte that borrows is one that equals c; in word - 20..20, one below 20.
    """
    high = np.uint64(0x8080808080808080)
    ones = np.uint64(0x0101010101010101)
    while i + 8 <= end:
        word = load(blob, i)
        quote = (word ^ np.uint64(0x2222222222222222)) - ones
        escape = (word ^ np.uint64(0x5C5C5C5C5C5C5C5C)) - ones
        control = word - np.uint64(0x2020202020202020)
        if (quote | escape | control | word) & high:
            break
        i += 8
    while i < end and _CLASS[blob[i]] == 0:
        i += 1
    return i


@inner
def _skip_text(blob: Any, i: int, end: int) -> int:
    """The place of the quote that ends a text, or -1 where it is none."""
    while i < end:
        what = _CLASS[blob[i]]
        if what == 0:
            i = skip_plain(blob, i, end)
        elif what == 1:
            return i
        elif what == 3:
            i = _skip_character(blob, i, end)
            if i < 0:
                return -1
        elif what == 2:
            if i + 1 >= end:
                return -1
            c = blob[i + 1]
            if c == 0x75:  # \uXXXX
                code = _hexadecimal(blob, i + 2, end)
                if 0xD800 <= code < 0xDC00:  # the first half of a pair
                    if i + 7 >= end or blob[i + 6] != 0x5C or blob[i + 7] != 0x75:
                        return -1
                    i += 6
                    code = _hexadecimal(blob, i + 2, end)
                    if not 0xDC00 <= code < 0xE000:
                        return -1
                elif code < 0 or 0xDC00 <= code < 0xE000:
                    return -1
                i += 6
                continue
            if not (
                c == 0x22 or c == 0x5C or c == 0x2F or c == 0x62 or c == 0x66 or c == 0x6E or c == 0x72 or c == 0x74
            ):
                return -1
            i += 2
        else:
            return -1
    return -1


@inner
def _hexadecimal(blob: Any, i: int, end: int) -> int:
    """The value of four digits, or -1."""
    if i + 4 > end:
        return -1
    value = 0
    for k in range(i, i + 4):
        c = int(blob[k])
        if 0x30 <= c <= 0x39:
            value = value * 16 + c - 0x30
        elif 0x41 <= c <= 0x46:
            value = value * 16 + c - 0x41 + 10
        elif 0x61 <= c <= 0x66:
            value = value * 16 + c - 0x61 + 10
        else:
            return -1
    return value


@inner
def skip_plain_text(blob: Any, i: int, end: int) -> int:
    """The place of the quote that ends a text without escapes, or -1 where there is none."""
    while i < end:
        what = _CLASS[blob[i]]
        if what == 0:
            i += 1
        elif what == 1:
            return i
        elif what == 3:
            i = _skip_character(blob, i, end)
            if i < 0:
                return -1
        else:
            return -1
    return -1


@inner
def _skip_character(blob: Any, i: int, end: int) -> int:
    """The place after a character of two to four bytes of UTF-8 (RFC 3629), or -1."""
    c = blob[i]
    if 0xC2 <= c <= 0xDF:
        n = 2
    elif 0xE0 <= c <= 0xEF:
        n = 3
    elif 0xF0 <= c <= 0xF4:
        n = 4
    else:
        return -1
    if i + n > end:
        return -1
    for k in range(1, n):
        if blob[i + k] & 0xC0 != 0x80:
            return -1
    second = blob[i + 1]
    if (c == 0xE0 and second < 0xA0) or (c == 0xED and second > 0x9F):  # overlong; surrogates
        return -1
    if (c == 0xF0 and second < 0x90) or (c == 0xF4 and second > 0x8F):  # overlong; beyond U+10FFFF
        return -1
    return i + n


@inlined
def scan_number(blob: Any, i: int, end: int) -> Any:
    """The place after a number, its digits as an integer, the power of ten to multiply that with, and whether it was
    written as an integer. The place is -1 for what is no number, has more than 19 digits or may not be a double."""
    none = (-1, np.uint64(0), 0, False)
    if blob[i] == 0x2D:
        i += 1
    first = i
    mantissa = np.uint64(0)
    while i < end and 0x30 <= blob[i] <= 0x39:
        mantissa = mantissa * np.uint64(10) + np.uint64(blob[i] - 0x30)
        i += 1
    digits = i - first
    if digits == 0 or (digits > 1 and blob[first] == 0x30):
        return none
    exponent = 0
    integer = True
    if i < end and blob[i] == 0x2E:
        integer = False
        i += 1
        point = i
        while i < end and 0x30 <= blob[i] <= 0x39:
            mantissa = mantissa * np.uint64(10) + np.uint64(blob[i] - 0x30)
            i += 1
        exponent = point - i
        if exponent == 0:
            return none
        digits -= exponent
        if blob[first] == 0x30:  # 0.000123: leading zeros are no digits
            while point < i and blob[point] == 0x30:
                point += 1
            digits = i - point
    if i < end and (blob[i] == 0x65 or blob[i] == 0x45):  # e E
        integer = False
        i += 1
        down = i < end and blob[i] == 0x2D
        if i < end and (blob[i] == 0x2D or blob[i] == 0x2B):
            i += 1
        first = i
        power = 0
        while i < end and 0x30 <= blob[i] <= 0x39:
            power = min(power * 10 + int(blob[i]) - 0x30, _MOST_POWER)
            i += 1
        if i == first or power == _MOST_POWER:
            return none
        exponent += -power if down else power
    if digits > 19 or exponent < -300 or exponent > 280:
        return none
    return i, mantissa, exponent, integer


@inlined
def nearest_double(mantissa: Any, exponent: int) -> Any:
    """The bits of the double nearest to mantissa * 10^exponent, or UNKNOWN where 128 bits do not decide."""
    if exponent == 0 or (mantissa <= np.uint64(1 << 53) and -22 <= exponent <= 22):
        value = float(mantissa)
        value = value * _EXACT[exponent] if exponent >= 0 else value / _EXACT[-exponent]
        return np.float64(value).view(np.uint64)
    if mantissa == np.uint64(0):
        return np.uint64(0)
    return _double(mantissa, exponent)


@inner
def _double(mantissa: Any, exponent: int) -> Any:
    one = np.uint64(1)
    zeros = 0
    while mantissa & (one << np.uint64(63)) == 0:
        mantissa <<= one
        zeros += 1
    index = exponent - _LOWEST
    high, low = _product(mantissa, _POWER_HIGH[index])
    tail = np.uint64(0x1FF)
    if high & tail == tail and low + mantissa < mantissa:
        more_high, more_low = _product(mantissa, _POWER_LOW[index])
        merged = low + more_high
        if merged < low:
            high += one
        if high & tail == tail and merged + one == 0 and more_low + mantissa < mantissa:
            return UNKNOWN
        low = merged
    top = high >> np.uint64(63)
    bits = high >> (top + np.uint64(9))
    power = ((217706 * exponent) >> 16) + 64 + 1023 - zeros - (0 if top else 1)
    if low == 0 and high & tail == 0 and bits & np.uint64(3) == one:
        return UNKNOWN
    bits += bits & one
    bits >>= one
    if bits >> np.uint64(53):
        bits >>= one
        power += 1
    if power < 1 or power > 2046:
        return UNKNOWN
    return (np.uint64(power) << np.uint64(52)) | (bits & np.uint64((1 << 52) - 1))


@inner
def _product(a: Any, b: Any) -> Any:
    """The 128 bits of a product, as two halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    p00, p01, p10 = a0 * b0, a0 * b1, a1 * b0
    middle = (p00 >> half) + (p01 & low) + (p10 & low)
    return a1 * b1 + (p01 >> half) + (p10 >> half) + (middle >> half), (middle << half) | (p00 & low)
