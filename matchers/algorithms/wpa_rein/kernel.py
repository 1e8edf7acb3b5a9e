"""Mark misses, level by level of the predicates' widths, and list the unmarked subscriptions.

Group g = a * L + l holds the predicates of attribute a on width level l: begin[g] .. begin[g + 1] of three lists.

    low   of_low     ascending by low       3 4 4|6 9      v = 5 -> mark what lies right of the bar: low > 5
    high  of_high    ascending by high      4|5 8 9 9      v = 5 -> mark what lies left of the bar: high < 5
    width of_width   ascending by width     of which the narrowest are kept

The buckets of a list lie one behind the other, so "all buckets right of the anchor" is one run of subscriptions without
a switch of buckets, and bucket_at needs only the begin of each bucket. It keeps the levels of one bucket side by
side, for low and for high, so that an attribute costs one cache miss instead of 2 L. Within the anchor bucket values
ascend: the comparing ends at the bar, and what it went over needs no mark or gets it with the run.

Of a group that is kept in part, the narrow ones are compared each, in the list by width, if they are the lesser part.
Else the runs are marked, of each subscription only if its predicate is narrow enough: by `rank`, the place by width,
and without a branch, which would often be mispredicted.

Cost per event: one mark for each mismatch of a kept predicate, half a bucket compared per list, and n / 64 words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matchers.kernels.bitsets import mark, mark_if, unite, unmarked
from matchers.kernels.cells import cell_of
from matchers.kernels.events import Events
from matchers.kernels.jit import inlined, kernel
from matchers.kernels.rows import Rows, clear, has_several_values, lay_out, settle


class Lists(NamedTuple):
    """P predicates of S subscriptions on A attributes and L width levels: G = A * L groups."""

    n_subscriptions: int  # S
    levels: int  # L
    begin: Any  # [G + 1] int64
    low: Any  # [P] float64
    of_low: Any  # [P] int32: the subscription
    rank_low: Any  # [P] int32: the predicate's place by width within the group
    high: Any  # [P] float64
    of_high: Any  # [P] int32
    rank_high: Any  # [P] int32
    width_low: Any  # [P] float64: both ends of the predicates by width, and their subscriptions
    width_high: Any  # [P] float64
    of_width: Any  # [P] int32
    bucket_begin: Any  # [A + 1] int64: attribute a has bucket_begin[a + 1] - bucket_begin[a] buckets
    bucket_at: Any  # [buckets, L, 2] int32: the first low, the first high, in this bucket or a later one
    cell_begin: Any  # [A] float64, as in Cells
    cell_per_unit: Any  # [A] float64
    dense_row: Any  # [A] int32: the row of `dense` with the subscriptions that constrain the attribute; -1: none
    dense: Any  # [rows, S / 64] uint64


class Plans(NamedTuple):
    """The K plans, each for one rate of false positives, and which of them matches each of N events."""

    kept: Any  # [K, G] int64: how many of each group, the narrowest, are looked at
    verify: Any  # [K] bool: whether the unmarked subscriptions are verified
    of_event: Any  # [N] int64: the plan of each event


class SkipOrder(NamedTuple):
    """The P predicates of S subscriptions, by subscription."""

    start: Any  # [S + 1] int64: subscription s has predicates start[s] .. start[s + 1]
    column: Any  # [P] int64
    low: Any  # [P] float64
    high: Any  # [P] float64
    skip: Any  # [P] int64: place in the order of skipping


@kernel
def fill_buckets(lists: Lists) -> None:
    """Fill `bucket_at`."""
    levels, begin, low, high = lists.levels, lists.begin, lists.low, lists.high
    bucket_begin, bucket_at = lists.bucket_begin, lists.bucket_at
    cell_begin, cell_per_unit = lists.cell_begin, lists.cell_per_unit
    for a in range(cell_begin.shape[0]):
        first = bucket_begin[a]
        n = bucket_begin[a + 1] - first
        for level in range(levels):
            g = a * levels + level
            i = begin[g]
            j = begin[g]
            for b in range(n):
                while i < begin[g + 1] and cell_of(low[i], cell_begin[a], cell_per_unit[a], n) < b:
                    i += 1
                while j < begin[g + 1] and cell_of(high[j], cell_begin[a], cell_per_unit[a], n) < b:
                    j += 1
                bucket_at[first + b, level, 0] = i
                bucket_at[first + b, level, 1] = j


@kernel
def mark_dense(column: Any, subscription: Any, dense_row: Any, dense: Any) -> None:
    for i in range(column.shape[0]):
        if dense_row[column[i]] >= 0:
            mark(dense[dense_row[column[i]]], subscription[i])


@inlined
def mark_run(of: Any, i: int, end: int, bits: Any) -> None:
    for k in range(i, end):
        mark(bits, of[k])


@inlined
def mark_run_of_narrow(of: Any, rank: Any, kept: int, i: int, end: int, bits: Any) -> None:
    for k in range(i, end):
        mark_if(bits, of[k], rank[k] < kept)


@inlined
def first_at(bucket_at: Any, bucket: int, level: int, end: int) -> Any:
    return np.int64(bucket_at[bucket, level, end])


@inlined
def extremes(e_value: Any, begin: int, end: int) -> tuple[float, float]:
    """(least, greatest) of the values of one column."""
    least = e_value[begin]
    greatest = least
    for k in range(begin + 1, end):
        least = min(least, e_value[k])
        greatest = max(greatest, e_value[k])
    return least, greatest


@kernel
def mark_groups(lists: Lists, e_value: Any, first: Any, last: Any, groups: Any, kept: Any, bits: Any) -> None:
    """Mark the misses of an event among the kept[g] narrowest predicates of each group g. `groups` ascend.

    Of several values in a column the greatest is compared with lows and the least with highs: no value satisfies what
    either of them marks.
    """
    levels = lists.levels
    begin = lists.begin
    attribute = -1
    greatest = 0.0
    least = 0.0
    low_bucket = 0
    high_bucket = 0
    for j in range(groups.shape[0]):
        g = groups[j]
        a = g // levels
        if last[a] == 0:
            continue
        if a != attribute:
            attribute = a
            least, greatest = extremes(e_value, first[a], last[a])
            n = lists.bucket_begin[a + 1] - lists.bucket_begin[a]
            low_bucket = lists.bucket_begin[a] + cell_of(greatest, lists.cell_begin[a], lists.cell_per_unit[a], n)
            high_bucket = lists.bucket_begin[a] + cell_of(least, lists.cell_begin[a], lists.cell_per_unit[a], n)
        end = begin[g + 1]
        partly = kept[g] < end - begin[g]
        if 2 * kept[g] < end - begin[g]:
            for i in range(begin[g], begin[g] + kept[g]):
                missed = (greatest < lists.width_low[i]) | (least > lists.width_high[i])
                mark_if(bits, lists.of_width[i], missed)
            continue
        level = g - a * levels
        i = first_at(lists.bucket_at, low_bucket, level, 0)
        while i < end and lists.low[i] <= greatest:
            i += 1
        if partly:
            mark_run_of_narrow(lists.of_low, lists.rank_low, kept[g], i, end, bits)
        else:
            mark_run(lists.of_low, i, end, bits)
        i = first_at(lists.bucket_at, high_bucket, level, 1)
        while i < end and lists.high[i] < least:
            i += 1
        if partly:
            mark_run_of_narrow(lists.of_high, lists.rank_high, kept[g], begin[g], i, bits)
        else:
            mark_run(lists.of_high, begin[g], i, bits)


@kernel
def mark_absent(lists: Lists, last: Any, bits: Any) -> None:
    """Mark the subscriptions that constrain a column which the event lacks: misses, so none of them is skipped.

    Where a set of bits takes no more memory than the list of subscriptions, `dense` has it, and 64 marks cost one
    instruction or less.
    """
    levels = lists.levels
    for a in range(lists.cell_begin.shape[0]):
        if last[a] == 0:
            if lists.dense_row[a] >= 0:
                unite(bits, lists.dense[lists.dense_row[a]])
            else:
                mark_run(lists.of_low, lists.begin[a * levels], lists.begin[(a + 1) * levels], bits)


@inlined
def same_columns(e_column: Any, begin: int, end: int, begin_before: int, end_before: int) -> bool:
    if end - begin != end_before - begin_before:
        return False
    for k in range(end - begin):  # noqa: SIM110 - a loop that is compiled
        if e_column[begin + k] != e_column[begin_before + k]:
            return False
    return True


@kernel
def mark_block(
    event: int, end: int, events: Events, lists: Lists, groups: Any, plans: Plans, with_absent: bool, block: Any
) -> None:
    """Mark the misses of events event .. end in `groups`, in a row of `block` [end - event, S / 64] each.

    The subscriptions that constrain an absent column are marked once for a run of events with the same columns; each
    event of the run begins with a copy. So a batch in which all events have all columns hardly pays for it.
    """
    offsets, e_column, e_value = events
    kept, _, of_event = plans
    n_columns = lists.cell_begin.shape[0]
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    absent = np.zeros(block.shape[1], np.uint64)
    for e in range(event, end):
        bits = block[e - event]
        lay_out(e_column, offsets[e], offsets[e + 1], first, last)
        if with_absent and (
            e == event or not same_columns(e_column, offsets[e], offsets[e + 1], offsets[e - 1], offsets[e])
        ):
            absent[:] = np.uint64(0)
            mark_absent(lists, last, absent)
        bits[:] = absent
        mark_groups(lists, e_value, first, last, groups, kept[of_event[e]], bits)
        clear(e_column, offsets[e], offsets[e + 1], first, last)


@kernel
def list_block(
    event: int,
    block_event: int,
    end: int,
    events: Events,
    lists: Lists,
    rows: Rows,
    plans: Plans,
    blocks: Any,
    out: Any,
    counts: Any,
) -> int:
    """List the unmarked subscriptions of events event .. end, by the marks of each thread t in blocks[t].

    The rows of blocks[t] begin with event `block_event`. Returns the first event that is not done.
    """
    offsets, e_column, _ = events
    _, verify, of_event = plans
    n, any_several = lists.n_subscriptions, rows.any_several
    n_columns = lists.cell_begin.shape[0]
    first = np.zeros(n_columns, np.int64)
    last = np.zeros(n_columns, np.int64)
    m = 0
    while event < end and out.shape[0] - m >= n:
        bits = blocks[0, event - block_event]
        for t in range(1, blocks.shape[0]):
            unite(bits, blocks[t, event - block_event])
        before = m
        m = unmarked(bits, n, out, m)
        every = verify[of_event[event]] or has_several_values(e_column, offsets[event], offsets[event + 1], n_columns)
        if every or any_several:
            m = settle(events, event, every, rows, out, before, m, first, last)
        counts[event] = m - before
        event += 1
    return event


@kernel
def order_skips(
    lists: Lists,
    matching: Any,
    present: Any,
    overhead: float,
    chance: Any,
    zeros: Any,
    skip_begin: Any,
    expected: Any,
) -> None:
    """Choose the order in which to skip the groups; fill `skip_begin` [G], and `expected` false positives of an event.

    An attribute's levels are skipped from the widest down. Of the widest left of each attribute, the next is the one
    that saves most marks for each false positive it adds:

        saves    (sum of present - matching) + overhead
        adds     sum of chance' - chance of its subscriptions, where chance' has `present` for `matching` as a factor

    What a group adds only grows as others are skipped, so an old ratio bounds the new one from above: only the best is
    computed again, and taken if it has hardly changed. Cost: O(P + G * A) and few times O(P).

    matching [P]     the probability that an event has the attribute and a value that satisfies the predicate
    present [A]      the probability that it has the attribute
    chance, zeros    [S] the product of a subscription's factors that are not 0, and how many are 0; changed in place
    expected [P + 1] after each predicate skipped
    """
    levels, begin, of_width = lists.levels, lists.begin, lists.of_width
    n_attributes = present.shape[0]
    ratio = np.full(n_attributes, np.inf)
    level = np.full(n_attributes, levels - 1, np.int64)
    total = 0.0
    at = 0
    for _ in range(n_attributes * levels):
        best = -1
        while True:
            best = -1
            for a in range(n_attributes):
                if level[a] >= 0 and (best < 0 or ratio[a] > ratio[best]):
                    best = a
            g = best * levels + level[best]
            saved = overhead
            added = 1e-300
            for i in range(begin[g], begin[g + 1]):
                saved += present[best] - matching[i]
                added += added_by(of_width[i], matching[i], present[best], chance, zeros)
            old = ratio[best]
            ratio[best] = saved / added
            if ratio[best] >= 0.9 * old or begin[g] == begin[g + 1]:
                break
            # an infinite ratio was not computed yet
        g = best * levels + level[best]
        skip_begin[g] = at
        for i in range(begin[g + 1] - 1, begin[g] - 1, -1):
            s = of_width[i]
            total += added_by(s, matching[i], present[best], chance, zeros)
            if matching[i] > 0.0:
                chance[s] *= present[best] / matching[i]
            elif present[best] > 0.0:
                zeros[s] -= 1
                chance[s] *= present[best]
            at += 1
            expected[at] = total
        level[best] -= 1
        ratio[best] = np.inf


@inlined
def added_by(s: int, matching: float, present: float, chance: Any, zeros: Any) -> float:
    """The increase of the probability that subscription s stays unmarked if this predicate of it is skipped."""
    if matching > 0.0:
        return chance[s] * (present / matching - 1.0) if zeros[s] == 0 else 0.0
    return chance[s] * present if zeros[s] == 1 else 0.0


@kernel
def measure_skips(events: Events, lists: Lists, groups: Any, kept: Any, order: SkipOrder, false_positives: Any) -> int:
    """Count the matches of a sample, and in false_positives [P + 1] the false positives that each skip adds.

    A subscription that an event misses stays unmarked once all predicates missed are skipped: from the last of them on,
    in the order of skipping. Few stay unmarked when `kept` [G] are looked at; one pass over them measures every lower
    rate.
    """
    offsets, e_column, e_value = events
    start, column, low, high, skip = order
    n = lists.n_subscriptions
    first = np.zeros(lists.cell_begin.shape[0], np.int64)
    last = np.zeros(lists.cell_begin.shape[0], np.int64)
    bits = np.zeros(lists.dense.shape[1], np.uint64)
    out = np.empty(n, np.int32)
    matches = 0
    for event in range(offsets.shape[0] - 1):
        lay_out(e_column, offsets[event], offsets[event + 1], first, last)
        bits[:] = np.uint64(0)
        mark_absent(lists, last, bits)
        mark_groups(lists, e_value, first, last, groups, kept, bits)
        for k in range(unmarked(bits, n, out, 0)):
            latest = -1
            for i in range(start[out[k]], start[out[k] + 1]):
                c = column[i]
                least, greatest = extremes(e_value, first[c], last[c])
                if greatest < low[i] or least > high[i]:
                    latest = max(latest, skip[i])
            if latest < 0:
                matches += 1
            else:
                false_positives[latest + 1] += 1
        clear(e_column, offsets[event], offsets[event + 1], first, last)
    return matches
