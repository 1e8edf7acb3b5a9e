"""Insert pairs (bound, subID) into the bucket lists of REIN, and delete them.

A bucket of the last block has free places behind its pairs, so that an insertion is one store into each array:

    bucket:         |  cell 3            |  cell 4       |
    bound:          | 0.31 0.35 0.33  .  | 0.41 0.45  .  |       size 3 and 2, room 4 and 3
    subscription:   |   7    2    9   -  |   2    8   -  |       - is NOBODY

A free place has the subscription `NOBODY`, whose mark is read by none, so the kernel that matches goes over it as over
any pair, and the buckets of a row stay one run of memory.

Cost: O(1) to insert a pair; to delete it, a search through its bucket.
"""

from __future__ import annotations

from typing import Any

from matchers.kernels.cells import cell_of
from matchers.kernels.jit import kernel
from matchers.papers.rein.kernel import BLOCK, NOBODY, BucketLists, low_bucket


@kernel
def insert_pairs(
    p: int,
    end: int,
    subscription: Any,
    column: Any,
    low: Any,
    high: Any,
    lists: BucketLists,
    low_size: Any,
    high_size: Any,
) -> int:
    """Insert the predicates p .. end; returns the first for which a bucket is full, or the end."""
    n, columns = lists.n, lists.begin.shape[0]
    while p < end:
        a = column[p]
        row = subscription[p] // BLOCK * columns + a
        within = subscription[p] % BLOCK
        begin, per_unit = lists.begin[a], lists.per_unit[a]
        bucket = row * (n + 1) + low_bucket(low[p], begin, per_unit, n)
        at = lists.low_start[bucket] + low_size[bucket]
        if at == lists.low_start[bucket + 1]:
            return p
        if high[p] != float("inf"):
            high_bucket = row * n + cell_of(high[p], begin, per_unit, n)
            high_at = lists.high_start[high_bucket] + high_size[high_bucket]
            if high_at == lists.high_start[high_bucket + 1]:
                return p
            lists.high[high_at] = high[p]
            lists.high_subscription[high_at] = within
            high_size[high_bucket] += 1
        lists.low[at] = low[p]
        lists.low_subscription[at] = within
        low_size[bucket] += 1
        p += 1
    return p


@kernel
def delete_pairs(
    subscription: Any, column: Any, low: Any, high: Any, lists: BucketLists, low_size: Any, high_size: Any
) -> None:
    n, columns = lists.n, lists.begin.shape[0]
    for p in range(subscription.shape[0]):
        a = column[p]
        row = subscription[p] // BLOCK * columns + a
        within = subscription[p] % BLOCK
        begin, per_unit = lists.begin[a], lists.per_unit[a]
        bucket = row * (n + 1) + low_bucket(low[p], begin, per_unit, n)
        remove(within, bucket, lists.low_start, low_size, lists.low, lists.low_subscription)
        if high[p] != float("inf"):
            bucket = row * n + cell_of(high[p], begin, per_unit, n)
            remove(within, bucket, lists.high_start, high_size, lists.high, lists.high_subscription)


@kernel
def remove(within: int, bucket: int, start: Any, size: Any, bound: Any, subscription: Any) -> None:
    """Put the last pair of a bucket in the place of the subscription's."""
    last = start[bucket] + size[bucket] - 1
    at = start[bucket]
    while subscription[at] != within:
        at += 1
    bound[at] = bound[last]
    subscription[at] = subscription[last]
    subscription[last] = NOBODY
    size[bucket] -= 1


@kernel
def spread(
    start: Any, size: Any, bound: Any, subscription: Any, new_start: Any, new_bound: Any, new_subscription: Any
) -> None:
    """Copy the pairs of some buckets to new places."""
    for bucket in range(size.shape[0]):
        to = new_start[bucket]
        for at in range(start[bucket], start[bucket] + size[bucket]):
            new_bound[to] = bound[at]
            new_subscription[to] = subscription[at]
            to += 1
