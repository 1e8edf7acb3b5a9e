"""The report of a run has recoveries without the time of the fault itself, also of a run that was stopped."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rig.check import Answer
from tests.faults.checking.check import Found
from tests.faults.report import draw, lines
from tests.faults.run import Fault, Outcome

RIGHT = Found(Answer(*[0] * 9), 0, 0, 0, 0)
FAULTS = [
    Fault("broker", 12.0, 9.0, 3.0, True),
    Fault("broker", 8.0, 9.0, 0.0, True),
    Fault("driver", 7.5, 0.0, 7.5, True),
]


def outcome(faults: list[Fault], found: Found | None = RIGHT, failure: str | None = None) -> Outcome:
    return Outcome(1, faults, found, 2, {"events": 9, "changes": 1}, failure)


def test_the_time_that_the_fault_itself_lasted_is_no_recovery() -> None:
    rows = dict(outcome(FAULTS).by_kind())
    assert [*rows] == ["broker", "driver", "all"]
    assert rows["broker"]["outage"] == {"p50_s": 10.0, "p95_s": 11.8, "max_s": 12.0}
    assert rows["broker"]["recovery"] == {"p50_s": 1.5, "p95_s": 2.85, "max_s": 3.0}
    assert (rows["all"]["n"], rows["all"]["recovery"]["max_s"]) == (3, 7.5)


@pytest.mark.parametrize(
    ("run", "last"),
    [
        (outcome(FAULTS), "right: 3 faults, 2 restarts"),
        (outcome(FAULTS, failure="stopped before the end"), "WRONG or incomplete: 3 faults, 2 restarts"),
        (outcome([], None, "driver: not running within 300 s"), "WRONG or incomplete: 0 faults, 2 restarts"),
    ],
)
def test_whatever_came_of_a_run_is_told_and_drawn(run: Outcome, last: str, tmp_path: Path) -> None:
    told = list(lines(run))
    assert told[-1] == last
    assert run.failure is None or f"FAILED: {run.failure}" in told
    draw(orjson.loads(orjson.dumps(run.as_data())), tmp_path / "faults.png")
    assert (tmp_path / "faults.png").stat().st_size > 1_000
