"""Whatever brokers return, the decoder gives the committed records that are asked for, or names the corrupted batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories import fetched_history

pytestmark = pytest.mark.kernels


@given(st.integers(0, 2**40))
def test_fetched_partitions_are_read_as_a_whole_cut_off_and_corrupted(seed: int) -> None:
    fetched_history.check(seed)
