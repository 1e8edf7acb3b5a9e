"""The changes that a status answers, and the message for the user."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.admin.change_acks import PendingChanges


def status(id: str, partition: int, offset: int, state: str = "accepted", **more: Any) -> dict[str, Any]:
    about: dict[str, Any] = {"version": 7, "in_force_from": {"0": 12, "1": 3}}
    if state == "rejected":
        about = {"reason": "no"}
    change = {"partition": partition, "offset": offset}
    return {"id": id, "status": state, **about, "read_up_to": {"0": 6, "1": 9}, "change": change, **more}


def pending(*changes: tuple[str, int, int]) -> PendingChanges:
    found = PendingChanges()
    for change in changes:
        found.add(*change)
    return found


BY = {"partition": 1, "offset": 6}
CASES: list[tuple[str, dict[str, Any], list[tuple[int, bool]]]] = [
    ("its own", status("a", 0, 5), [(5, False)]),
    ("an earlier change of the same id", status("a", 0, 4), []),
    ("a later change of the same id", status("a", 0, 6), [(5, True)]),
    ("a later change of the same id in another partition", status("a", 1, 6), [(5, True)]),
    ("one in another partition, of a batch that had not read it", status("a", 1, 6, read_up_to={"0": 5, "1": 9}), []),
    ("one in another partition, of a version that did not say so", status("a", 1, 6, read_up_to={}), []),
    ("one in another partition that counts no more than it", status("a", 1, 5, superseded_by=BY), []),
    ("its own, and another of the batch counts", status("a", 0, 5, superseded_by=BY), [(5, True)]),
    ("another id at the same offset of another partition", status("c", 1, 5), []),
    ("another id, later", status("c", 0, 9), []),
    ("none that is known", status("a", 0, 5) | {"id": None}, []),
    ("the first of two", status("b", 1, 2), [(2, False)]),
    ("the second of two, and the first has none any more", status("b", 1, 8), [(2, True), (8, False)]),
    ("later than both", status("b", 1, 9), [(2, True), (8, True)]),
]


@pytest.mark.parametrize(("answer", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_status_answers_its_change_and_those_before_it(
    answer: dict[str, Any], expected: list[tuple[int, bool]]
) -> None:
    waiting = pending(("a", 0, 5), ("b", 1, 2), ("b", 1, 8))
    found = list(waiting.answered(answer))
    assert [(a.offset, a.superseded) for a in found] == expected
    assert len(waiting) == 3 - len(expected)
    assert list(waiting.answered(answer)) == []


def test_nothing_is_pending_when_all_are_answered() -> None:
    waiting = pending(("a", 0, 5), ("b", 1, 2), ("b", 1, 8))
    assert sorted(waiting.ids()) == ["a", "b"]
    for answer in (status("b", 1, 2), status("a", 0, 5), status("b", 1, 8)):
        assert waiting
        list(waiting.answered(answer))
    assert not waiting
    assert list(waiting.ids()) == []


@pytest.mark.parametrize(
    ("answer", "text", "rejected"),
    [
        (status("a", 0, 5), "in force from version 7, events 0:12, 1:3", False),
        (status("a", 0, 5, "paused"), "paused from version 7, events 0:12, 1:3", False),
        (status("a", 0, 5, "unsubscribed"), "unsubscribed from version 7, events 0:12, 1:3", False),
        (status("a", 0, 5, "rejected"), "rejected: no", True),
        (status("a", 0, 6, "rejected"), "superseded by a later change, offset 6", False),
        (status("a", 1, 7), "superseded by a later change, offset 7, partition 1", False),
        (status("a", 0, 5, superseded_by=BY), "superseded by a later change, offset 6, partition 1", False),
    ],
)
def test_an_answer_in_words(answer: dict[str, Any], text: str, rejected: bool) -> None:
    (found,) = pending(("a", 0, 5)).answered(answer)
    assert (str(found), found.rejected) == (text, rejected)


def test_an_answer_as_data_is_the_status_or_names_the_one_that_stands_for_it() -> None:
    own, later = status("a", 0, 5), status("a", 0, 6)
    (found,) = pending(("a", 0, 5)).answered(own)
    assert found.as_data() == own
    (found,) = pending(("a", 0, 5)).answered(later)
    change = {"partition": 0, "offset": 5}
    assert found.as_data() == {"id": "a", "status": "superseded", "by": later, "change": change}
