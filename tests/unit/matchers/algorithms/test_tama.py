"""The claims of TAMA's papers on cells: a cover is exact, minimal and takes at most two cells a level."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchingError, SubscriptionTable
from matchers.algorithms import tama
from matchers.algorithms.tama.kernel import cover

pytestmark = pytest.mark.kernels
inf = float("inf")


def covered(first: int, last: int, leaves: int) -> list[int]:
    cells = np.empty(64, np.int64)
    found: list[int] = cells[: cover(first, last, leaves, cells)].tolist()
    return found


def finest(cell: int, leaves: int) -> range:
    """The finest cells below a cell, counted from 0."""
    width = leaves >> (cell.bit_length() - 1)
    begin = (cell << (leaves.bit_length() - cell.bit_length())) - leaves
    return range(begin, begin + width)


def fewest(leaves: int) -> dict[tuple[int, int], int]:
    """Return the fewest cells for each range: the least sum over all ways to lay whole cells side by side."""
    best = {(i, i): 0 for i in range(leaves + 1)}
    cells = [finest(cell, leaves) for cell in range(1, 2 * leaves)]
    for length in range(1, leaves + 1):
        for begin in range(leaves - length + 1):
            end = begin + length
            best[begin, end] = min(1 + best[c.stop, end] for c in cells if c.start == begin and c.stop <= end)
    return best


@pytest.mark.parametrize("leaves", [1, 2, 8, 32])
def test_a_cover_is_exact_minimal_and_takes_at_most_two_cells_a_level(leaves: int) -> None:
    best = fewest(leaves)
    for first in range(leaves):
        for last in range(first - 1, leaves):
            cells = covered(first, last, leaves)
            assert sorted(i for cell in cells for i in finest(cell, leaves)) == list(range(first, last + 1))
            assert len(cells) == best[first, last + 1]
            levels = [cell.bit_length() for cell in cells]
            assert all(levels.count(level) <= 2 for level in levels)


def test_an_interval_is_stored_as_drawn() -> None:
    """The drawing above the kernels: eight finest cells, and an interval from the second to the seventh of them."""
    bounds = [(1.5, 6.5), *[(0.0, 8.0)] * 6]  # seven intervals: three levels
    low, high = zip(*bounds, strict=True)
    table = SubscriptionTable.from_intervals(range(7), [0] * 7, low, high, n_subscriptions=7, n_columns=1)
    built = tama.build(table, levels=3)
    assert built.cells.leaves.tolist() == [8]
    contents = built.contents
    owners = [cell for cell, (i, j) in enumerate(pairwise(contents.start)) if 0 in contents.ids[i:j]]
    edges = [cell + 8 for cell, (i, j) in enumerate(pairwise(contents.edge_start)) if 0 in contents.rows[i:j]]
    assert (owners, edges) == ([5, 6], [9, 14])


def test_an_open_interval_is_one_cell() -> None:
    built = tama.build(
        SubscriptionTable.from_intervals([0, 1], [0, 0], [-inf, 1], [inf, 2], n_subscriptions=2, n_columns=1)
    )
    assert built.contents.ids[built.contents.start[1] : built.contents.start[2]].tolist() == [0]
    assert built.contents.rows.tolist() == [1, 1]


@pytest.mark.parametrize("levels", [0, 1, 5, 13, 17])
def test_the_discretisation_level_changes_time_and_memory_but_no_match(levels: int) -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 50, 4000) / 7
    high = low + rng.integers(0, 20, 4000) / 7
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(1000), 4), rng.integers(0, 6, 4000), low, high, n_subscriptions=1000, n_columns=6
    )
    events = EventBatch.from_dense(rng.integers(-3, 60, (60, 6)) / 7)
    found, expected = tama.build(table, levels=levels).match(events), ALGORITHMS["scan"](table).match(events)
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.subscription.tolist() == expected.subscription.tolist()


@pytest.mark.parametrize("columns", [255, 256, 70_000])
def test_a_subscription_may_have_more_columns_than_a_byte_counts(columns: int) -> None:
    everywhere = np.arange(columns)
    built = tama.build(
        SubscriptionTable.from_intervals(
            [0] * columns + [1],
            [*everywhere, 0],
            [1.0] * (columns + 1),
            [2.0] * (columns + 1),
            n_subscriptions=2,
            n_columns=columns,
        )
    )
    values = np.full((2, columns), 1.5)
    values[1, -1] = 3.0
    found = built.match(EventBatch.from_dense(values))
    assert [found.of(e).tolist() for e in (0, 1)] == [[0, 1], [1]]


def test_a_level_beyond_what_memory_holds_is_rejected() -> None:
    with pytest.raises(MatchingError, match=r"levels must lie within 0 \.\. 24, not 25"):
        tama.build(SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=0, n_columns=0), levels=25)
