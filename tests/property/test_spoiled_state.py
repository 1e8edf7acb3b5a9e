"""Whatever becomes of the files of a saved state, a job starts with the subscriptions that were in force."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.support.histories.spoiled_state import KINDS, Spoil, saved, start

pytestmark = pytest.mark.kernels

any_number = st.integers(0, 2**31)
spoils = st.lists(
    st.builds(Spoil, st.integers(0, 99), st.sampled_from([*KINDS]), any_number, any_number), min_size=1, max_size=4
)
EXAMPLES = hypothesis_settings().max_examples // 3
PLACES = pytest.mark.parametrize("remote", [False, True], ids=["directory", "elsewhere"])


def started(remote: bool, spoils: list[Spoil]) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        return start(saved(remote), Path(directory), spoils)


@PLACES
@hypothesis_settings(max_examples=EXAMPLES)
@given(spoils=spoils)
def test_a_job_starts_with_what_was_in_force(remote: bool, spoils: list[Spoil]) -> None:
    started(remote, spoils)


@PLACES
def test_a_state_that_is_not_spoiled_is_used(remote: bool) -> None:
    assert started(remote, [])


@PLACES
def test_each_file_is_missed_and_each_kind_of_fault_noticed(remote: bool) -> None:
    used: Counter[bool] = Counter()
    files = sorted(saved(remote).files)
    for file, name in enumerate(files):
        for kind in KINDS:
            is_used = started(remote, [Spoil(file, kind, 1_000 + file, 3)])
            used[is_used] += 1
            if kind in ("empty", "missing") and name.startswith("rejected"):
                assert not is_used
    assert used[True]
    assert used[False]
