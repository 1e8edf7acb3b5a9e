"""The last status of a subscription, and its unanswered changes."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.admin.subscription_status import statuses_of
from tests.support.doubles.topic import Record

DOCUMENT = {"subscriber": "alice", "pattern": {}}


def message(status: str, offset: int, time_ms: int = 0, where: int = 0, **more: Any) -> Record:
    in_force = {"version": 7, "in_force_from": {"0": 5, "1": 9}}
    change = {"read_up_to": {"0": 5, "1": 1}, **more, "change": {"partition": 0, "offset": offset}}
    return Record("s", {"id": "s", "status": status, **in_force, **change}, where, time_ms=time_ms)


ACCEPTED = message("accepted", 3, 100)
WHERE = "from version 7, events 0:5, 1:9"
CASES: dict[str, tuple[list[Any], list[Any], str, bool]] = {
    "nothing": ([], [Record("t", DOCUMENT)], "neither a subscription nor a status has this id", False),
    "not answered": ([], [None, Record("s", DOCUMENT, 1, 4)], "its change at 1:4 waits for the job's answer", True),
    "accepted": ([ACCEPTED], [Record("s", DOCUMENT, 0, 3, 999)], f"in force {WHERE}", True),
    "the last word": ([ACCEPTED, None, message("paused", 4)], [Record("s", DOCUMENT, 0, 4)], f"paused {WHERE}", True),
    "unsubscribed": ([message("unsubscribed", 4)], [], f"unsubscribed {WHERE}", True),
    "rejected": ([message("rejected", 4, reason="no")], [], "rejected: no", True),
    "lost with an earlier topic": (
        [message("accepted", 4_999, topic_id="earlier")],
        [],
        "neither a subscription nor a status has this id",
        False,
    ),
    "written again after its topic was lost": (
        [message("accepted", 4_999, topic_id="earlier")],
        [Record("s", DOCUMENT, 0, 3)],
        "its change at 0:3 waits for the job's answer",
        True,
    ),
    "of this topic": (
        [message("accepted", 3, topic_id="present")],
        [Record("s", DOCUMENT, 0, 3)],
        f"in force {WHERE}",
        True,
    ),
    "rejected after the topic was recreated": (
        [message("accepted", 4_999, version=5_000), message("rejected", 3, version=3, reason="no")],
        [],
        "rejected: no",
        True,
    ),
    "in another partition, after a tenant was left out": (
        [message("unsubscribed", 4, read_up_to={"0": 6, "1": 1}, where=1), message("accepted", 3, version=99)],
        [],
        f"unsubscribed {WHERE}",
        True,
    ),
    "a later change": (
        [ACCEPTED],
        [Record("s", DOCUMENT, 0, 3), Record("s", None, 0, 5)],
        f"in force {WHERE}; a later change at 0:5 waits for the job's answer",
        True,
    ),
    "a change elsewhere": (
        [ACCEPTED],
        [Record("s", DOCUMENT, 1, 0, 101), Record(None, DOCUMENT | {"id": "s"}, 1, 1, 99)],
        f"in force {WHERE}; a later change at 1:1 waits for the job's answer",
        True,
    ),
}


@pytest.mark.parametrize(("statuses", "changes", "text", "known"), CASES.values(), ids=CASES)
def test_the_last_status_counts_and_what_came_after_it_waits(
    statuses: Any, changes: Any, text: str, known: bool
) -> None:
    (found,) = statuses_of(statuses, changes, ["s"], "present").values()
    assert (str(found), found.known, found.rejected) == (text, known, text.startswith("rejected"))


def test_a_program_reads_the_status_as_the_job_wrote_it() -> None:
    changes = [Record("s", DOCUMENT, 0, 4), Record("t", DOCUMENT, 0, 5)]
    one, two, three = (found.as_data() for found in statuses_of([ACCEPTED], changes, ["s", "t", "u"], "").values())
    assert one == {
        "id": "s",
        "status": "accepted",
        "version": 7,
        "in_force_from": {"0": 5, "1": 9},
        "read_up_to": {"0": 5, "1": 1},
        "change": {"partition": 0, "offset": 3},
        "waiting": {"partition": 0, "offset": 4},
    }
    assert two == {"id": "t", "status": "unanswered", "waiting": {"partition": 0, "offset": 5}}
    assert three == {"id": "u", "status": "unknown", "waiting": None}
