"""Waiting for the job's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streaming.admin import change_acks
from streaming.admin.change_acks import ChangeAck, ChangeRejected, PendingChanges, Unanswered
from streaming.client.changes import WrittenChanges
from streaming.errors import TopicMissing
from streaming.kafka.clients import Cluster


def ack(id: str, reason: str = "") -> ChangeAck:
    status = {"status": "rejected", "reason": reason} if reason else {"status": "accepted"}
    return ChangeAck(id, 0, 0, {**status, "version": 3}, superseded=False)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[ChangeAck]]:
    """Provide, for each wait, the answers that arrive in time."""
    waits: list[list[ChangeAck]] = []

    def come(cluster: Any, starts: Any, pending: Any, timeout_s: float) -> Iterator[ChangeAck]:
        yield from waits.pop(0)
        if waits:
            raise Unanswered("the time is over")

    monkeypatch.setattr(change_acks, "answers", come)
    return waits


def written(count: int) -> WrittenChanges:
    return WrittenChanges(Cluster("", {}), {}, PendingChanges(), count)


def test_a_wait_goes_on_where_another_ended(answers: list[list[ChangeAck]]) -> None:
    changes = written(3)
    answers += [[ack("a")], [ack("b"), ack("c")]]
    with pytest.raises(Unanswered):
        changes.wait()
    assert [ack.id for ack in changes.wait()] == ["a", "b", "c"]
    assert [ack.id for ack in changes.wait()] == ["a", "b", "c"]


def test_a_wait_names_what_was_rejected_and_why(answers: list[list[ChangeAck]]) -> None:
    answers += [[ack("a"), ack("b", "too many"), ack("c", "no")]]
    with pytest.raises(ChangeRejected, match=r"^rejected: b: too many; c: no$") as rejected:
        written(3).wait()
    assert rejected.value.reasons == {"b": "too many", "c": "no"}


def test_a_long_list_of_rejections_is_cut() -> None:
    rejected = ChangeRejected({str(n): "no" for n in range(1_005)})
    assert str(rejected) == "rejected: 0: no; 1: no; 2: no; 3: no; 4: no and 1,000 others"


def test_the_reason_that_statuses_cannot_be_read_is_raised_by_wait() -> None:
    with pytest.raises(TopicMissing, match="gone"):
        WrittenChanges(Cluster("", {}), TopicMissing("gone"), PendingChanges(), 1).wait()
    assert WrittenChanges(Cluster("", {}), TopicMissing("gone"), PendingChanges(), 0).wait() == []
