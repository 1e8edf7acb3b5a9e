"""Whatever becomes of leaders, sessions, connections and answers, each record is returned once and in order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories import fetching_history
from tests.support.network import fetch_conversation


@given(seed=st.integers(0, 2**40))
def test_each_record_is_returned_once_and_in_order(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fetching_history.run(patch, Random(seed))


@pytest.mark.kernels
@given(seed=st.integers(0, 2**40))
def test_wrong_answers_over_sockets_give_the_right_records_or_an_error_that_names_them(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fetch_conversation.run(patch, Random(seed))
