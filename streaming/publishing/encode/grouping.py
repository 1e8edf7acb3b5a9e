"""Group matches into deliveries: an event for a subscriber, with the ids of all subscriptions of hers that matched.

    matches                       deliveries
    event 1, subscriber 4, "b"    event 0, subscriber 7, ["c"]
    event 0, subscriber 7, "c"    event 1, subscriber 4, ["a","b"]
    event 1, subscriber 4, "a"

Cost: linear in the matches, plus sorting the ids of each delivery.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int32, Int64
from matchers.index.texts import Texts
from matchers.kernels.jit import inlined, inner, kernel
from streaming.publishing.encode.columns import numbers
from streaming.publishing.encode.wire import copy

_FEW = 12  # ids are sorted by insertion


class DeliveryColumns(NamedTuple):
    """D deliveries, ascending by event; those of an event in the order in which their subscribers first appear."""

    event: Any  # [D] int64
    subscriber: Any  # [D] int64
    ids: Any  # uint8: JSON lists, ascending; that of delivery d is ids[ids_start[d] : ids_start[d + 1]]
    ids_start: Any  # [D + 1] int64


def group(event: Int64 | Int32, subscriber: Int64, ids: Texts, n_events: int) -> DeliveryColumns:
    """Return the deliveries of M matches in any order. A match is an event's row, a subscriber's number and a
    subscription's id."""
    event, subscriber = numbers(event), numbers(subscriber)
    order = _by_number(event, n_events)
    delivery, first = _deliver(event, subscriber, order)
    n = len(first)
    if n == len(order):
        listed, begin = order, np.arange(n + 1)
    else:
        listed, begin = _listed(order, delivery, n)
        _sort(listed, begin, ids.text, ids.start)
    data, start = _as_json(listed, begin, ids.text, ids.start)
    return DeliveryColumns(event[first], subscriber[first], data, start)


@kernel
def _by_number(numbers: Any, n: int) -> Any:
    """[M]: the positions of numbers below n, ascending by number, equal ones in their order."""
    m = numbers.shape[0]
    order = np.arange(m)
    i = 1
    while i < m and numbers[i - 1] <= numbers[i]:
        i += 1
    if i >= m:
        return order
    begin = np.zeros(n + 1, np.int64)
    for i in range(m):
        begin[numbers[i] + 1] += 1
    for k in range(n):
        begin[k + 1] += begin[k]
    for i in range(m):
        order[begin[numbers[i]]] = i
        begin[numbers[i]] += 1
    return order


@inlined
def _cell_of(subscriber: int, mask: int) -> int:
    return ((subscriber * 0x9E3779B1) >> 7) & mask


@kernel
def _deliver(event: Any, subscriber: Any, order: Any) -> tuple[Any, Any]:
    """Return [M] the delivery of each match in order, and [D] the first match of each delivery.

    The table of an event's subscribers holds deliveries. A cell whose delivery precedes the event's first one belongs
    to an earlier event, and is free.
    """
    m = order.shape[0]
    longest = 1
    length = 0
    for k in range(m):
        length = length + 1 if k and event[order[k]] == event[order[k - 1]] else 1
        longest = max(longest, length)
    size = 2
    while size < 2 * longest:
        size *= 2
    cells = np.full(size, -1, np.int64)
    mask = size - 1
    delivery = np.empty(m, np.int64)
    first = np.empty(m, np.int64)
    n = 0
    of_event = 0  # the event's first delivery
    for k in range(m):
        match = order[k]
        if k == 0 or event[match] != event[order[k - 1]]:
            of_event = n
        cell = _cell_of(subscriber[match], mask)
        while cells[cell] >= of_event and subscriber[first[cells[cell]]] != subscriber[match]:
            cell = (cell + 1) & mask
        if cells[cell] < of_event:
            cells[cell] = n
            first[n] = match
            n += 1
        delivery[k] = cells[cell]
    return delivery, first[:n].copy()


@kernel
def _listed(order: Any, delivery: Any, n: int) -> tuple[Any, Any]:
    """[M] the matches by delivery, and [D + 1] where those of each begin."""
    begin = np.zeros(n + 2, np.int64)
    for k in range(delivery.shape[0]):
        begin[delivery[k] + 2] += 1
    for d in range(n):
        begin[d + 2] += begin[d + 1]
    listed = np.empty(order.shape[0], np.int64)
    for k in range(order.shape[0]):
        listed[begin[delivery[k] + 1]] = order[k]
        begin[delivery[k] + 1] += 1
    return listed, begin[: n + 1].copy()


@inner
def _common(listed: Any, begin: int, end: int, text: Any, start: Any) -> Any:
    """Return the length of the longest common prefix of these strings, in bytes."""
    first = start[listed[begin]]
    common = start[listed[begin] + 1] - first
    for i in range(begin + 1, end):
        at = start[listed[i]]
        common = min(common, start[listed[i] + 1] - at)
        k = 0
        while k < common and text[first + k] == text[at + k]:
            k += 1
        common = k
    return common


@inlined
def _key(text: Any, begin: int, end: int) -> Any:
    """Return the next eight bytes as a number that compares as they do, with zeros after the end."""
    key = np.uint64(0)
    for i in range(8):
        key = key << np.uint64(8)
        if begin + i < end:
            key |= np.uint64(text[begin + i])
    return key


@inner
def _precedes(a: int, b: int, common: int, text: Any, start: Any) -> bool:
    """Whether text a comes before text b; both have `common` bytes alike."""
    i, j = start[a] + common, start[b] + common
    while i < start[a + 1] and j < start[b + 1] and text[i] == text[j]:
        i += 1
        j += 1
    if i < start[a + 1] and j < start[b + 1]:
        return bool(text[i] < text[j])
    return bool(j < start[b + 1])


@kernel
def _sort(listed: Any, begin: Any, text: Any, start: Any) -> None:
    """Sort the ids of each delivery: by insertion while they are few, then by merging runs."""
    longest = 0
    for d in range(begin.shape[0] - 1):
        longest = max(longest, begin[d + 1] - begin[d])
    keys = np.empty((2, longest), np.uint64)  # [1] is for merging, as is the second of items
    items = np.empty((2, longest), np.int64)
    for d in range(begin.shape[0] - 1):
        n = begin[d + 1] - begin[d]
        if n == 1:
            continue
        common = _common(listed, begin[d], begin[d + 1], text, start)
        for i in range(n):
            items[0, i] = listed[begin[d] + i]
            keys[0, i] = _key(text, start[items[0, i]] + common, start[items[0, i] + 1])
        for run in range(0, n, _FEW):
            for i in range(run + 1, min(run + _FEW, n)):
                item, key = items[0, i], keys[0, i]
                k = i
                while k > run and (
                    key < keys[0, k - 1]
                    or (key == keys[0, k - 1] and _precedes(item, items[0, k - 1], common, text, start))
                ):
                    items[0, k], keys[0, k] = items[0, k - 1], keys[0, k - 1]
                    k -= 1
                items[0, k], keys[0, k] = item, key
        side = 0
        width = _FEW
        while width < n:
            for run in range(0, n, 2 * width):
                _merge(keys, items, side, run, min(run + width, n), min(run + 2 * width, n), common, text, start)
            side = 1 - side
            width *= 2
        for i in range(n):
            listed[begin[d] + i] = items[side, i]


@inner
def _merge(
    keys: Any, items: Any, side: int, first: int, second: int, end: int, common: int, text: Any, start: Any
) -> None:
    """Merge the runs [first : second] and [second : end] of one side into the other side."""
    i, j = first, second
    for k in range(first, end):
        if j == end or (
            i < second
            and not (
                keys[side, j] < keys[side, i]
                or (keys[side, j] == keys[side, i] and _precedes(items[side, j], items[side, i], common, text, start))
            )
        ):
            keys[1 - side, k], items[1 - side, k] = keys[side, i], items[side, i]
            i += 1
        else:
            keys[1 - side, k], items[1 - side, k] = keys[side, j], items[side, j]
            j += 1


@inlined
def _escaped(byte: int) -> int:
    """Return how many bytes more than one a byte takes in a JSON string."""
    if byte == 34 or byte == 92 or (8 <= byte <= 13 and byte != 11):
        return 1  # \" \\ \b \t \n \f \r
    return 5 if byte < 32 else 0  # \u001f


@inlined
def _hexadecimal(digit: int) -> int:
    return digit + (48 if digit < 10 else 87)


@inner
def _put_escaped(out: Any, at: int, text: Any, begin: int, end: int) -> int:
    for i in range(begin, end):
        byte = text[i]
        more = _escaped(byte)
        if more:
            out[at] = 92
            at += 1
        if more == 5:
            out[at] = 117
            out[at + 1] = out[at + 2] = 48
            out[at + 3] = 48 + (byte >> 4)
            out[at + 4] = _hexadecimal(byte & 15)
            at += 5
        elif more == 1 and byte < 32:
            out[at] = 98 if byte == 8 else 116 if byte == 9 else 110 if byte == 10 else 102 if byte == 12 else 114
            at += 1
        else:
            out[at] = byte
            at += 1
    return at


@kernel
def _as_json(listed: Any, begin: Any, text: Any, start: Any) -> tuple[Any, Any]:
    """The JSON list of the texts of each delivery, and [D + 1] where each begins."""
    m = listed.shape[0]
    more = 0
    size = 0
    for k in range(m):
        size += start[listed[k] + 1] - start[listed[k]]
    for i in range(start[0], start[start.shape[0] - 1]):
        more += _escaped(text[i])
    out = np.empty(size + more + 3 * m + begin.shape[0] - 1, np.uint8)
    places = np.empty(begin.shape[0], np.int64)
    at = 0
    for d in range(begin.shape[0] - 1):
        places[d] = at
        for k in range(begin[d], begin[d + 1]):
            out[at] = 91 if k == begin[d] else 44
            out[at + 1] = 34
            if more:
                at = _put_escaped(out, at + 2, text, start[listed[k]], start[listed[k] + 1])
            else:
                at = copy(out, at + 2, text, start[listed[k]], start[listed[k] + 1])
            out[at] = 34
            at += 1
        out[at] = 93
        at += 1
    places[begin.shape[0] - 1] = at
    return out, places
