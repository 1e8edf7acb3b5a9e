"""The kernels of PCM on a GPU (sec. 3.3) for a group of events, and the ordering of their matches on the host.

    clear              FiltersCount, Interfaces and the cursors, of the events before
    select             threads take pairs (row, event): a line of `Input` if the table is within NV_e and the name there
    list_hits          block y takes lines, thread x constraints of their rows: algorithm 1; lists the satisfied filters
    mark_interfaces    the same, but sets the bytes of their interfaces, as the paper does

`FiltersCount` of E events: a 32-bit word has `32 / lane` of them side by side, lane bits each, as the paper's eight
stages have half-bytes. No lane can run over: a filter is not counted more often than it has constraints.

    FiltersCount[0, f] = 2 1 0 0 3 0 0 1     of events 7 6 5 4 3 2 1 0; event 3's is raised by 16^3

This module imports numba.cuda, so it is imported only to match with `ccm`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import cuda

from matchers.kernels.jit import kernel

_IN, _OUT = 0, 1  # operators, as in algorithms/name_vectors.py
LINES, FOUND = 0, 1  # cursors


def _on_device(function: Any) -> Any:
    """Compile a function that kernels call."""
    return cast(Any, cuda.jit(device=True)(function))


def _launched(function: Any) -> Any:
    return cast(Any, cuda.jit(function))


@_launched
def select(
    row_vector: Any,
    row_name: Any,
    vector: Any,
    offsets: Any,
    column: Any,
    line_row: Any,
    line_event: Any,
    line_begin: Any,
    line_end: Any,
    cursors: Any,
) -> None:
    """A line of `Input`: a row, an event, and which of the event's values have the row's name."""
    n_rows = row_vector.shape[0]
    at = cuda.grid(1)
    while at < n_rows * (offsets.shape[0] - 1):
        row = at % n_rows
        event = at // n_rows
        at += cuda.gridsize(1)
        if row_vector[row] & ~vector[event] != 0:
            continue
        name = row_name[row]
        begin = offsets[event]
        end = offsets[event + 1]
        while begin < end:  # the first value whose name is not before it
            middle = (begin + end) // 2
            if column[middle] < name:
                begin = middle + 1
            else:
                end = middle
        while end < offsets[event + 1] and column[end] == name:
            end += 1
        if begin < end:
            line = cuda.atomic.add(cursors, LINES, 1)
            line_row[line] = row
            line_event[line] = event
            line_begin[line] = begin
            line_end[line] = end


@_on_device
def _satisfied(operator: int, low: float, high: float, value: float, interval_low: Any, interval_high: Any) -> bool:
    if operator == _IN:
        return low <= value <= high
    if operator == _OUT:
        return not (low <= value <= high)
    hit = False
    for i in range(int(low), int(high)):
        hit |= interval_low[i] <= value <= interval_high[i]
    return hit


def _evaluation(found: Any) -> Any:
    """The kernel that calls found(event, place, cursors, output_a, output_b) for each satisfied filter."""

    @_launched
    def evaluate(
        line_row: Any,
        line_event: Any,
        line_begin: Any,
        line_end: Any,
        constraint_begin: Any,
        operator: Any,
        low: Any,
        high: Any,
        place: Any,
        bloom: Any,
        interval_low: Any,
        interval_high: Any,
        size: Any,
        value: Any,
        names: Any,
        lane: int,
        filters_count: Any,
        cursors: Any,
        output_a: Any,
        output_b: Any,
    ) -> None:
        x = cuda.grid(1)
        lanes = 32 // lane
        line = cuda.blockIdx.y
        while line < cursors[LINES]:
            row = line_row[line]
            event = line_event[line]
            k = constraint_begin[row] + x
            while k < constraint_begin[row + 1]:
                if bloom[k] & ~names[event] == 0:
                    hit = False
                    for j in range(line_begin[line], line_end[line]):
                        hit |= _satisfied(operator[k], low[k], high[k], value[j], interval_low, interval_high)
                    if hit:
                        shift = (event % lanes) * lane
                        one = np.uint32(1) << np.uint32(shift)
                        count = cuda.atomic.add(filters_count, (event // lanes, place[k]), one)
                        satisfied = (np.uint64(count) >> np.uint64(shift)) & (
                            (np.uint64(1) << np.uint64(lane)) - np.uint64(1)
                        )
                        if satisfied + np.uint64(1) == np.uint64(size[place[k]]):
                            found(event, place[k], cursors, output_a, output_b)
                k += cuda.gridsize(1)
            line += cuda.gridDim.y

    return evaluate


@_on_device
def _list(event: int, place: int, cursors: Any, found_event: Any, found_place: Any) -> None:
    """Writes no more hits than there is room for, and counts them all: the host sees whether it was enough."""
    at = cuda.atomic.add(cursors, FOUND, 1)
    if at < found_event.shape[0]:
        found_event[at] = event
        found_place[at] = place


@_on_device
def _mark(event: int, place: int, _: Any, interface: Any, interfaces: Any) -> None:
    """Threads that mark the same interface write the same."""
    interfaces[event, interface[place]] = 1


list_hits = _evaluation(_list)  # output: event [room], place of the filter [room]
mark_interfaces = _evaluation(_mark)  # output: InterfaceId [S] by place, Interfaces [E, I] uint8


@_launched
def clear(filters_count: Any, interfaces: Any, cursors: Any) -> None:
    """FiltersCount by its words, Interfaces by its bytes, and both cursors."""
    if cuda.grid(1) == 0:
        cursors[LINES] = 0
        cursors[FOUND] = 0
    for i in range(cuda.grid(1), filters_count.shape[1], cuda.gridsize(1)):
        for group in range(filters_count.shape[0]):
            filters_count[group, i] = 0
    for i in range(cuda.grid(1), interfaces.shape[1], cuda.gridsize(1)):
        for event in range(interfaces.shape[0]):
            interfaces[event, i] = 0


@kernel
def name(begin: int, end: int, offsets: Any, column: Any, bits: int, bloom_of: Any, vector: Any, names: Any) -> None:
    """NV_e and InputBF of events begin .. end."""
    for e in range(end - begin):
        vector[e] = 0
        names[e] = 0
        for k in range(offsets[begin + e], offsets[begin + e + 1]):
            if column[k] < bloom_of.shape[0]:  # the batch may know more columns than the table
                vector[e] |= np.uint64(1) << np.uint64(column[k] % bits)
                names[e] |= bloom_of[column[k]]


@kernel
def arrange(event: Any, place: Any, filter_id: Any, always: Any, offsets: Any, out: Any) -> None:
    """Matches in any order as a MatchBatch: those of each event ascending, with what every event satisfies."""
    offsets[:] = always.shape[0]
    offsets[0] = 0
    for i in range(event.shape[0]):
        offsets[event[i] + 1] += 1
    for e in range(offsets.shape[0] - 1):
        offsets[e + 1] += offsets[e]
    at = offsets[:-1].copy()
    for e in range(offsets.shape[0] - 1):
        out[at[e] : at[e] + always.shape[0]] = always
        at[e] += always.shape[0]
    for i in range(event.shape[0]):
        out[at[event[i]]] = filter_id[place[i]]
        at[event[i]] += 1
    for e in range(offsets.shape[0] - 1):
        out[offsets[e] : offsets[e + 1]].sort()
