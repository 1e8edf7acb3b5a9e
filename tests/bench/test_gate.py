"""`bench gate`: points at toy sizes, made-up recorded figures, the verdict and the exit code.

tests/integration starts the real job for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import run_stream
from bench.gate import measuring, recorded
from bench.gate.figure import Figure, Point, PointFailed, Tell
from bench.gate.machine import Machine, calibration_s
from bench.gate.matching import Alone, Batches, Building, Rules
from bench.gate.points import POINTS
from bench.gate.recorded import Measured
from bench.gate.system import LATE_S, figures_of
from bench.system.sustained import Verdict
from bench.workloads.event_bus import EventBus
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, Algorithm
from tests.bench.test_matchers import SpoiledMatcher
from tests.bench.test_system import BEHIND, CPU, LOAD, STEADY, outcome
from tests.unit.rig.test_check import right

TABLE = Workload(subscriptions=60, attributes=4, predicates=(1, 3), events=12)
TOYS: Mapping[str, Point] = {
    "batches": Batches(TABLE, rounds=2),
    "alone": Alone(TABLE, rounds=2),
    "rules": Rules(EventBus(40, 20), rounds=2),
    "building": Building(replace(TABLE, events=2), EventBus(40, 20), rounds=2),
}
HERE, ELSEWHERE = Machine.here(), Machine("Z80", 1)


class Scripted:
    """A point whose attempts are a list: the CPU time of each, or the error that it ends with."""

    def __init__(self, *attempts: float | PointFailed) -> None:
        self.left = list(attempts)

    def figures(self, tell: Tell) -> list[Figure]:
        result = self.left.pop(0)
        if isinstance(result, PointFailed):
            raise result
        return [Figure("work", "CPU s", result), Figure("p99", "ms", None, gated=False)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recorded.json"


@pytest.fixture(autouse=True)
def _in_even_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calibration is a second, so that ratios are even. That it takes its time is tested apart."""
    monkeypatch.setattr(measuring, "calibration_s", lambda: 1.0)


def gate(monkeypatch: pytest.MonkeyPatch, points: Mapping[str, Point], file: Path, *flags: str) -> Result:
    monkeypatch.setattr("bench.gate.points.POINTS", points)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    command = ["bench", "gate", "--recorded", str(file), *flags]
    return CliRunner(env={"COLUMNS": "250"}).invoke(run_stream.app, command)


def before(work_s: float, calibration_s: float = 1.0, machine: Machine = HERE) -> Measured:
    figures = (Figure("work", "CPU s", work_s), Figure("p99", "ms", 20.0))
    return Measured(figures, calibration_s, machine, "0.1.0", "2026-01-02")


def cells(result: Result) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in result.stdout.splitlines()]


def test_each_kind_of_point_is_measured_recorded_and_compared(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = gate(monkeypatch, TOYS, file, "--record")
    assert result.exit_code == 0, result.output
    assert f"recorded in {file}: batches, alone, rules, building" in result.stderr
    found = recorded.read(file)
    assert {name: [f.name for f in point.figures] for name, point in found.items()} == {
        "batches": ["auto", "tiles", "hem"],
        "alone": ["auto", "tiles"],
        "rules": ["Index.match"],
        "building": ["auto", "tiles", "Index.build"],
    }
    assert all(f.value is not None and f.value > 0 for point in found.values() for f in point.figures)
    slow = {
        name: replace(point, figures=tuple(replace(f, value=1e6) for f in point.figures))
        for name, point in found.items()
    }
    recorded.write(slow, file)
    result = gate(monkeypatch, TOYS, file)
    assert result.exit_code == 1, result.output
    assert "batches, auto 0.00 times" in result.stderr
    assert "make bench ONLY=batches,alone,rules,building RECORD=1" in result.stderr
    assert "passed" not in result.stderr


@pytest.mark.parametrize("name", TOYS)
def test_a_wrong_answer_fails_at_once(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong answer is not measured again: its time means nothing, and a quiet machine does not correct it."""
    scan = ALGORITHMS["scan"]
    wrong = Algorithm(lambda table: SpoiledMatcher(scan(table), lambda ids: ids[1:] if ids else [0]))
    monkeypatch.setitem(ALGORITHMS, "tiles", wrong)
    monkeypatch.setitem(ALGORITHMS, "auto", wrong)
    result = gate(monkeypatch, {name: TOYS[name]}, file, "--record")
    assert result.exit_code == 1, result.output
    assert f"FAILED {name}: the answers of" in result.stderr
    assert "once more" not in result.stderr
    assert recorded.read(file) == {}


@pytest.mark.parametrize(
    ("attempts", "now", "ratio", "failed"),
    [
        ([1.3], "1.3", "1.30", False),
        ([0.78], "0.78", "0.78", False),
        ([1.4, 1.1], "1.1", "1.10", False),
        ([1.4, 1.6], "1.4", "FAILED 1.40", True),
        ([1.6, 1.4], "1.4", "FAILED 1.40", True),
        ([PointFailed("late", again=True), 1.0], "1", "1.00", False),
        ([1.4, PointFailed("late", again=True)], "1.4", "FAILED 1.40", True),
    ],
)
def test_a_point_that_fails_is_measured_once_more_and_the_better_attempt_counts(
    attempts: list[Any], now: str, ratio: str, failed: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.write({"work": before(1.0)}, file)
    point = Scripted(*attempts)
    result = gate(monkeypatch, {"work": point}, file)
    head, line, *rows = cells(result)
    assert head == ["point", "figure", "now", "recorded", "unit", "ratio"]
    assert line == ["---", "---", "---:", "---:", "---", "---:"]
    assert rows == [["work", "work", now, "1", "CPU s", ratio], ["", "p99", "-", "20", "ms", ""]]
    assert result.exit_code == failed
    assert ("work: once more, since it failed" in result.stderr) is (len(attempts) == 2)
    assert point.left == []
    if failed:
        assert "FAILED work: work 1.40 times the recorded CPU time; at most 1.3 times pass" in result.stderr
        assert "make bench ONLY=work RECORD=1" in result.stderr
    else:
        assert f"passed: the highest ratio is {ratio} (work, work)" in result.stderr


def test_a_point_that_is_much_faster_is_to_be_recorded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.write({"work": before(1.0)}, file)
    result = gate(monkeypatch, {"work": Scripted(0.76)}, file, "--json")
    assert result.exit_code == 1
    assert "slower code (work, work 0.76 times the recorded CPU time): on a quiet machine, make bench" in result.stderr
    assert "passed" not in result.stderr
    (point,) = (json.loads(line) for line in result.stdout.splitlines())
    assert (point["failed"], point["stale"]) == (False, True)


def test_a_point_without_figures_fails_with_its_reason(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.write({"work": before(1.0), "other": before(2.0)}, file)
    late = PointFailed("done 31 s after the last event", again=True)
    points = {"work": Scripted(late, late), "other": Scripted(2.0)}
    result = gate(monkeypatch, points, file)
    assert result.exit_code == 1
    assert cells(result)[2:4] == [["work", "", "-", "-", "", "FAILED"], ["other", "work", "2", "2", "CPU s", "1.00"]]
    assert "FAILED work: done 31 s after the last event\n" in result.stderr
    assert "FAILED other" not in result.stderr


def test_a_machine_that_is_slower_in_this_minute_does_not_fail(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds: Iterator[float] = iter([5.0, 4.0])  # before and after
    recorded.write({"work": before(1.0, calibration_s=2.0)}, file)
    monkeypatch.setattr(measuring, "calibration_s", lambda: next(speeds))
    monkeypatch.setattr("bench.gate.points.POINTS", {"work": Scripted(2.4)})
    monkeypatch.setattr("signal.signal", lambda *_: None)
    result = CliRunner().invoke(run_stream.app, ["bench", "gate", "--recorded", str(file)])
    assert result.exit_code == 0, result.output
    assert cells(result)[2] == ["work", "work", "2.4", "1", "CPU s", "1.20"]
    assert "4000.0 ms now, 2000.0 ms when recorded, 2026-01-02 on " in result.stderr
    assert "This machine is another one" not in result.stderr


def test_figures_of_another_machine_are_compared_and_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.write({"work": before(1.0, machine=ELSEWHERE)}, file)
    result = gate(monkeypatch, {"work": Scripted(1.0)}, file)
    assert result.exit_code == 0, result.output
    assert "on Z80, 1 core\n" in result.stderr
    assert f"This machine is another one, {HERE}" in result.stderr


def test_what_is_not_recorded_does_not_pass(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.write({"old": before(1.0)}, file)
    result = gate(monkeypatch, {"old": Scripted(1.0), "new": Scripted(1.0)}, file)
    assert result.exit_code == 1
    assert "Not recorded: new. On a quiet machine: make bench ONLY=new RECORD=1" in result.stderr
    assert "passed" not in result.stderr


def test_a_record_replaces_its_points_and_keeps_the_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded.write({"old": before(1.0), "slower": before(1.0)}, file)
    points = {"old": Scripted(), "slower": Scripted(9.0), "new": Scripted(3.14159)}
    result = gate(monkeypatch, points, file, "--record", "--only", "new, slower", "--json")
    assert result.exit_code == 0, result.output
    assert {name: point.figures[0].value for name, point in recorded.read(file).items()} == {
        "old": 1.0,
        "slower": 9.0,
        "new": 3.142,
    }
    assert json.loads(file.read_text())["new"] == {
        "date": recorded.read(file)["new"].date,
        "version": "0.1.0",
        "machine": {"cpu": HERE.cpu, "cores": HERE.cores},
        "calibration_s": 1.0,
        "figures": {"work, CPU s": 3.142, "p99, ms": None},
    }
    slower, new = (json.loads(line) for line in result.stdout.splitlines())
    assert (slower["point"], slower["figures"][0]["ratio"], slower["failed"]) == ("slower", 9.0, True)
    assert (new["point"], new["recorded"], new["failed"]) == ("new", None, False)


@pytest.mark.parametrize("content", ["{", "[]", '{"work": {"figures": {}}}', '{"work": 3}'])
def test_a_file_of_something_else_is_rejected(content: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(content)
    result = gate(monkeypatch, {"work": Scripted()}, file)
    assert result.exit_code == 2
    assert "is no file of recorded figures" in " ".join(result.stderr.replace("│", " ").split())


def test_an_unknown_point_is_rejected_with_the_known_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = gate(monkeypatch, {"match-1k": Scripted()}, file, "--only", "match-1m")
    assert result.exit_code == 2
    assert "unknown point 'match-1m'" in result.stderr
    assert "match-1k" in result.stderr


def test_the_repository_has_recorded_figures_of_every_point() -> None:
    found = recorded.read()
    assert found.keys() == POINTS.keys()
    assert all(point.calibration_s > 0 for point in found.values())


def test_the_calibration_takes_its_time() -> None:
    assert calibration_s() > 0


def test_the_figures_of_a_rate() -> None:
    done = outcome(LOAD, drain_s=1.0)
    latency = done.figures["latency_ms"] | {"second_half": {"p50": 12.0, "p99": 40.0}}
    done = replace(done, figures=done.figures | {"latency_ms": latency, "batches": 4})
    found = {f.name: (f.value, f.gated) for f in figures_of(done)}
    assert CPU == {"driver JVM": 0.2, "Python workers": 0.1, "broker": 0.1}
    assert found == {
        "job": (pytest.approx(3_000.0), True),
        "all processes": (pytest.approx(4_000.0), True),
        "p50": (12.0, False),
        "p99": (40.0, False),
        "done after the last event": (1.0, False),
        "batches": (4, False),
    }


@pytest.mark.parametrize(
    ("drain_s", "twice", "verdict", "reason", "again"),
    [
        (1.0, 3, STEADY, "deliveries are wrong: .*3 twice", False),
        (LATE_S + 1, 0, STEADY, "done 21.0 s after the last event, which may take 20 s", True),
        (None, 0, STEADY, "done None s after the last event", True),
        (1.0, 0, BEHIND, "not sustained: 87.7% was done in time, .* of its thirds are 900, 1,200 and 2,000 ms", True),
    ],
)
def test_a_rate_fails_with_wrong_or_late_deliveries(
    drain_s: float | None, twice: int, verdict: Verdict, reason: str, again: bool
) -> None:
    with pytest.raises(PointFailed, match=reason) as failed:
        figures_of(outcome(LOAD, drain_s, answer=right(100, twice=twice), verdict=verdict))
    assert failed.value.again is again
