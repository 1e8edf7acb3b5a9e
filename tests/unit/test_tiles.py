"""The tiles: what they look like, and that they match as the table says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS
from tests.unit.agreement import agrees, random_batch, random_table


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "options", [{}, {"tile": 16, "fewest": 1}, {"tile": 70, "threads": 2}, {"tile": 1, "fewest": 1}]
)
def test_random_tables_match_as_scan_does(seed: int, options: dict[str, Any]) -> None:
    r = np.random.default_rng(seed)
    table = random_table(r, int(r.integers(0, 1500)), int(r.integers(1, 40)))
    matcher = ALGORITHMS["tiles"](table, **options)
    for n_events in (0, 1, 2, 3, 70, 200):
        agrees(matcher, table, random_batch(r, n_events, table.n_columns + 1))
