"""A replay goes on under its name, which belongs to one subscription of one tenant."""

from __future__ import annotations

from typing import Any

import pytest

from config import Settings
from streaming.admin.replay import Replay, ReplayRange
from streaming.documents.subscriptions import read_change
from streaming.errors import JobError

AT = ("events", 0)


def noted(subscription: str, document: str, done: int) -> Replay:
    """A replay of `s` by some tenant, under a name whose notes have that subscription and document."""
    unused: Any = None
    change = read_change(b"s", b'{"id": "s", "subscriber": "alice", "pattern": {"x": [1]}}')
    return Replay(Settings(), "n", change, {AT: ReplayRange(subscription, document, 0, 5)}, {AT: done}, unused, unused)


@pytest.mark.parametrize("done", [2, 5])
def test_the_name_of_another_tenants_replay_cannot_be_used_even_if_it_is_finished(done: int) -> None:
    with pytest.raises(JobError, match="'n' is for the subscription 'one/s', not for 'two/s'"):
        noted("one/s", "digest", done)._check("two/s", "digest", {AT: (0, 5)})
    noted("two/s", "digest", done)._check("two/s", "digest", {AT: (0, 5)})


def test_a_replay_that_an_earlier_version_began_goes_on() -> None:
    noted("s", "digest", 2)._check("two/s", "digest", {AT: (0, 5)})
    with pytest.raises(JobError, match="is for the subscription 's', not for 'two/s'"):
        noted("s", "another", 5)._check("two/s", "digest", {AT: (0, 5)})
