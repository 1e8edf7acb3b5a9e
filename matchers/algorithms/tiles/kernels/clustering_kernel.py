"""Group subscriptions that constrain the same columns, and cut the groups into tiles by the position of predicates.

`share` is how much of its column's cells a predicate covers. The *hull* of subscriptions in a column that all of them
constrain is what an event must hit there to match any of them; the share of the cells that the hulls of a tile admit
together is what this makes small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from matchers.algorithms.tiles.kernels.predicates import PredicateLists
from matchers.kernels.jit import inlined, kernel

MOST_COLUMNS = 8  # that a group is cut along
SAMPLE = 1 << 14  # subscriptions of a group, of which the next column is chosen
GAIN = 0.9  # a further column must lessen what a group admits at least so much


class Columns(NamedTuple):
    """A columns: of the subscriptions not taken, column c has owner[first[c] : end[c]] and some that are taken."""

    places: Any  # [A] float64: at how many different cells predicates begin, at least 1
    count: Any  # [A] int64: how many subscriptions not taken constrain it
    narrowness: Any  # [A] float64: the sum of 1 - share of their predicates
    first: Any  # [A + 1] int64
    end: Any  # [A] int64
    owner: Any  # [P] int32: subscription
    predicate: Any  # [P] int32


class Groups(NamedTuple):
    """Up to G groups of subscriptions, one behind the other."""

    end: Any  # [G] int64
    columns: Any  # [G, MOST_COLUMNS] int64 to cut the group along; -1: none
    slices: Any  # [G, MOST_COLUMNS] float64: into how many


@inlined
def _share_in(s: int, c: int, start: Any, column: Any, share: Any) -> Any:
    """The share of the predicate of subscription s in column c; 2.0 if it has none there."""
    for p in range(start[s], start[s + 1]):
        if column[p] == c:
            return share[p]
    return 2.0


@kernel
def admitted(tiles: float, n: int, width: Any, places: Any, slices: Any) -> float:
    """The share of events that a tile admits, if so many tiles are cut along n columns as well as can be.

    A slice of a column is as wide as the predicates, `width` on average, and as the range over which it takes their
    positions, (1 - width) / slices. The product of such terms is least, for a given product of slices, where
    slices are in proportion to (1 - width) / width. A column is not cut more often than predicates have `places`.
    """
    free = np.ones(n, np.bool_)
    for _ in range(n + 1):
        m = 0
        logs = 0.0
        left = math.log(tiles)
        for i in range(n):
            if free[i]:
                m += 1
                logs += math.log(max(1.0 - width[i], 1e-9) / width[i])
            else:
                left -= math.log(slices[i])
        if m == 0:
            break
        settled = True
        for i in range(n):
            if free[i]:
                slices[i] = math.exp(math.log(max(1.0 - width[i], 1e-9) / width[i]) + (left - logs) / m)
        for i in range(n):
            if free[i] and not 1.0 <= slices[i] <= places[i]:
                slices[i] = max(1.0, min(slices[i], places[i]))
                free[i] = False
                settled = False
        if settled:
            break
    share = 1.0
    for i in range(n):
        share *= min(width[i] + (1.0 - width[i]) * max(1.0 / slices[i] - 1.0 / (4.0 * places[i]), 0.0), 1.0)
    return share


@kernel
def matched(start: Any, share: Any, out: Any) -> None:
    """The share of events that match each subscription, if columns are independent of each other."""
    for s in range(out.shape[0]):
        product = 1.0
        for p in range(start[s], start[s + 1]):
            product *= share[p]
        out[s] = product


@kernel
def count_columns(start: Any, column: Any, share: Any, taken: Any, count: Any, narrowness: Any) -> None:
    """Over the subscriptions that are not taken: how many constrain each column, and how much these exclude in all."""
    for s in range(start.shape[0] - 1):
        if not taken[s]:
            for p in range(start[s], start[s + 1]):
                count[column[p]] += 1
                narrowness[column[p]] += 1.0 - share[p]


@kernel
def gather(
    tile: int,
    predicates: PredicateLists,
    share: Any,
    columns: Columns,
    taken: Any,
    order: Any,
    found: Groups,
    groups: int,
    enough: int,
) -> int:
    """Write one group after the other into `order` [S] int32 and `found`, and mark its subscriptions in `taken` [S].

    There are `groups` of them already; return how many there are as soon as new ones have `enough` subscriptions.
    share: [P] float32, of each predicate.

    The first column of a group is the one whose predicates, of subscriptions not yet taken, exclude most. Others follow
    for as long as the subscriptions that constrain all of them can be cut into tiles that admit less. What is left
    when no column has two tiles of subscriptions is not taken. A predicate that is wide for its column does not count.
    """
    start, column, _, _, _ = predicates
    places, count, narrowness, first, end, owner, predicate = columns
    group_end, group_columns, group_slices = found
    d = places.shape[0]
    members, narrow = np.empty(start.shape[0] - 1, np.int32), np.empty(start.shape[0] - 1, np.int32)
    slices, width, limit = np.empty(MOST_COLUMNS), np.empty(MOST_COLUMNS), np.empty(MOST_COLUMNS)
    chosen = np.empty(MOST_COLUMNS, np.int64)
    local, local_width = np.zeros(d, np.int64), np.zeros(d)
    touched = np.empty(d, np.int64)
    done = group_end[groups - 1] if groups else 0
    enough += done
    while groups < group_end.shape[0] and done < enough:
        c = -1
        for other in range(d):
            if count[other] >= 2 * tile and (c < 0 or narrowness[other] > narrowness[c]):
                c = other
        if c < 0:
            break
        widest = 1.0 - 0.5 * narrowness[c] / count[c]
        n = 0
        kept = first[c]
        total = 0.0
        for i in range(first[c], end[c]):
            s = owner[i]
            if not taken[s]:
                owner[kept] = s
                predicate[kept] = predicate[i]
                kept += 1
                own = share[predicate[i]]
                if own <= widest:
                    members[n] = s
                    n += 1
                    total += own
        end[c] = kept
        if n < 2 * tile:
            count[c] = 0
            continue
        m = 1
        chosen[0], width[0], limit[0] = c, total / n, places[c]
        best = admitted(n // tile, 1, width, limit, slices)
        while m < MOST_COLUMNS:
            n_touched = 0
            step = max(n // SAMPLE, 1)
            for i in range(0, n, step):
                for p in range(start[members[i]], start[members[i] + 1]):
                    other = column[p]
                    if local[other] == 0:
                        touched[n_touched] = other
                        n_touched += 1
                        local_width[other] = 0.0
                    local[other] += step
                    local_width[other] += step * share[p]
            c = -1
            least = GAIN * best
            for j in range(n_touched):
                other = touched[j]
                used = local[other] < 2 * tile
                for k in range(m):
                    used |= chosen[k] == other
                if not used:
                    width[m], limit[m] = local_width[other] / local[other], places[other]
                    admits = admitted(local[other] // tile, m + 1, width, limit, slices)
                    if admits < least or (admits == least and c > other):
                        c, least = other, admits
            if c >= 0:
                widest = 0.5 + 0.5 * local_width[c] / local[c]
                kept = 0
                total = 0.0
                for i in range(n):
                    own = _share_in(members[i], c, start, column, share)
                    if own <= widest:
                        narrow[kept] = members[i]
                        kept += 1
                        total += own
                if kept >= 2 * tile:
                    n = kept
                    members, narrow = narrow, members
                    chosen[m], width[m], limit[m] = c, total / n, places[c]
                    m += 1
                    best = admitted(n // tile, m, width, limit, slices)
                else:
                    c = -1
            for j in range(n_touched):
                local[touched[j]] = 0
            if c < 0:
                break
        n -= n % tile  # the last ones wait for another group
        admitted(n // tile, m, width, limit, slices)
        for i in range(n):
            s = members[i]
            order[done + i] = s
            taken[s] = True
            for p in range(start[s], start[s + 1]):
                count[column[p]] -= 1
                narrowness[column[p]] -= 1.0 - share[p]
        done += n
        group_end[groups] = done
        for k in range(m):
            group_columns[groups, k] = chosen[k]
            group_slices[groups, k] = slices[k]
        groups += 1
    return groups


@kernel
def cut(
    begin: int, end: int, tile: int, columns: Any, slices: Any, predicates: PredicateLists, order: Any, opens: Any
) -> None:
    """Cut order[begin : end] along each of the columns (until one below 0), then into tiles, whose first places are
    marked in opens [S] bool.

    Subscriptions are sorted by the middle of their predicate and cut into slices of whole tiles. Where many of them lie
    at the very same place, the cut moves to where the next place begins, since a tile of two places admits both.
    """
    start, column, low, high, _ = predicates
    n_columns = 0
    while n_columns < columns.shape[0] and columns[n_columns] >= 0:
        n_columns += 1
    n = end - begin
    middles = np.empty((n_columns, n), np.int64)  # of each member by its place here, so that none is looked up again
    members = order[begin:end].copy()
    for i in range(n):
        for p in range(start[members[i]], start[members[i] + 1]):
            for k in range(n_columns):
                if column[p] == columns[k]:
                    middles[k, i] = np.int64(low[p]) + np.int64(high[p])
    at = np.arange(n)
    parts = [(0, n, 0)]
    while len(parts):
        b, e, k = parts.pop()
        if k == n_columns or e - b <= tile:
            for i in range(b, e, tile):
                opens[begin + i] = True
            continue
        keys = np.empty(e - b, np.int64)
        for i in range(b, e):
            keys[i - b] = (middles[k, at[i]] << 32) | at[i]
        keys.sort()
        for i in range(b, e):
            at[i] = keys[i - b] & 0xFFFFFFFF
        tiles = (e - b + tile - 1) // tile
        m = tiles
        if k < n_columns - 1:
            later = 1.0
            for j in range(k + 1, n_columns):
                later *= slices[j]
            m = int(min(max(tiles / later + 0.5, 1.0), tiles))
        last = b
        for j in range(1, m + 1):
            x = e if j == m else _moved(keys, tiles * j // m * tile, 4 * tile) + b
            if x > last:
                parts.append((last, x, k + 1))
                last = x
    for i in range(n):
        order[begin + i] = members[at[i]]


@inlined
def _moved(keys: Any, x: int, run: int) -> Any:
    """x, or the nearest place where the middle changes, if more than `run` subscriptions there share one."""
    if x >= keys.shape[0] or keys[x] >> 32 != keys[x - 1] >> 32:
        return min(x, keys.shape[0])
    middle = keys[x] >> 32
    first = np.searchsorted(keys, middle << 32)
    last = np.searchsorted(keys, (middle + 1) << 32)
    if last - first <= run:
        return x
    return last if last - x < x - first else first


@kernel
def gather_few(
    least: int,
    tile: int,
    ranked: Any,
    first: Any,
    owner: Any,
    taken: Any,
    order: Any,
    done: int,
    opens: Any,
    pivot: Any,
) -> int:
    """Group subscriptions not taken by the columns in `ranked`, of which `least` or more constrain one. Returns the end
    of `order`."""
    for r in range(ranked.shape[0]):
        c = ranked[r]
        n = done
        for i in range(first[c], first[c + 1]):
            if not taken[owner[i]]:
                order[n] = owner[i]
                n += 1
        if n - done >= least:
            for i in range(done, n):
                taken[order[i]] = True
                if (i - done) % tile == 0:
                    opens[i] = True
                    pivot[i] = c
            done = n
    return done
