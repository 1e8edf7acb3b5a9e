"""`bench choices`: `auto` against the best of all exact algorithms, checked, and continued where it stopped."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import run_stream
from bench.commands import papers
from bench.errors import BenchError
from bench.matching import choices
from bench.matching.choices import GridPoint
from bench.papers import continued, tables
from bench.workloads.prepared import Scenario
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, Algorithm, EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.contract.tables import Int32
from tests.bench.test_matchers import DECISION_S, Short, decide_slowly

POINT = GridPoint("hem", 30, 64, 1.5, "tiles, hem", 0.1, 2.2, 2.0, "tiles", 2.0, "hem", 5.0, True)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(run_stream.app, ["bench", "choices", *arguments])


def test_each_point_has_the_best_and_what_auto_takes(tmp_path: Path) -> None:
    file = tmp_path / "choices.csv"
    result = run("--workloads", "hem,event-bus", "--sizes", "30", "-a", "counting", "--out", str(file))
    assert result.exit_code == 0, result.output
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    points = [(row["workload"], int(row["subscriptions"]), int(row["batch"])) for row in rows]
    assert points == [(name, 30, batch) for name in ("hem", "event-bus") for batch in choices.BATCHES]
    assert {row["best"] for row in rows} <= {"scan", "counting"}
    assert {(row["chosen"], row["checked"]) for row in rows} == {("scan", "True")}
    lines = result.output.splitlines()
    head, row = (next(line for line in lines if line.startswith(word)) for word in ("workload", "hem"))
    assert row.index("yes") == head.index("checked")  # each value stands below its name
    assert all(float(row["ratio"]) == pytest.approx(float(row["us"]) / float(row["best_us"])) for row in rows)


NEW = [f"watch-{n}{missed}" for n in choices.LENGTHS for missed in ("", "-missed")]
NEW += ["repeated", "repeated-missed", "repeated-100"]


@pytest.mark.parametrize("name", NEW)
def test_watch_lists_and_repeated_subscriptions_are_workloads(name: str) -> None:
    """Each at a toy size, with the right answers of `auto` and of an algorithm that searches lists."""
    points = list(choices.compare(name, choices.WORKLOADS[name](20), ["hem"]))
    assert [(point.subscriptions, point.batch, point.checked) for point in points] == [
        (20, batch, True) for batch in choices.BATCHES
    ]
    matches = points[0].matches
    if name == "repeated":
        assert 0 < matches < 20
    elif name.endswith("-missed"):
        assert matches <= 20 * 0.003
    else:
        assert matches > 0.2


def test_the_best_rival_is_measured_however_far_behind_it_is() -> None:
    us = {"scan": 900.0, "tiles": 1.0, "hem": 800.0, "counting": 9.0, "auto": 0.1}
    assert choices._near(us, 10.0) == ["tiles", "counting", "auto"]
    assert choices._near(us, 2.0) == ["tiles", "counting", "auto"]
    del us["counting"]
    assert choices._near(us, 10.0) == ["tiles", "hem", "auto"]
    del us["tiles"]
    assert choices._near(us, 1.0) == ["hem", "auto"]


def test_points_with_too_many_values_are_left_out() -> None:
    asked = [(name, n) for name, n, _ in choices.grid(["watch-100", "watch-10000"], [1_000, 100_000])]
    assert asked == [("watch-100", 1_000), ("watch-10000", 1_000), ("watch-100", 100_000)]


def test_points_of_the_file_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compare(workload: str, scenario: Scenario, algorithms: list[str]) -> Iterator[GridPoint]:
        n = scenario.prepared().table.n_subscriptions
        asked.append((workload, n))
        yield replace(POINT, workload=workload, subscriptions=n)

    monkeypatch.setattr(papers, "compare", compare)
    out = ("--out", str(tmp_path / "choices.csv"))
    assert run("--workloads", "hem", "--sizes", "30", *out).exit_code == 0
    result = run("--workloads", "hem,rein", "--sizes", "30,50", *out)
    assert asked == [("hem", 30), ("rein", 30), ("hem", 50), ("rein", 50)]
    assert "4 points, auto 4 within 1.1" in result.output
    assert "the worst 1.10" in result.output
    assert "auto or tiles ahead of all others at 4 by 1 times or more, 4 by 2" in result.output


def test_points_of_other_code_are_measured_again_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def compare(workload: str, scenario: Scenario, algorithms: list[str]) -> Iterator[GridPoint]:
        asked.append(workload)
        yield replace(POINT, workload=workload)

    monkeypatch.setattr(papers, "compare", compare)
    file = tmp_path / "choices.csv"
    rows = [{"asked": "30", **replace(POINT, workload=name).as_data()} for name in ("hem", "rein", "pem")]
    tables.write_rows(file, rows)  # without a version
    for code, names in (("one", "hem,rein"), ("two", "hem"), ("two", "hem")):
        monkeypatch.setattr(continued, "code_version_of_all", lambda algorithms, code=code: code)
        result = run("--workloads", names, "--sizes", "30", "--out", str(file))
        assert result.exit_code == 0, result.output
    assert asked == ["hem", "rein", "hem"]
    found = [(row["code"], row["workload"]) for row in tables.read(file)]
    assert found == [("", "pem"), ("one", "rein"), ("two", "hem")]
    assert "1 points, auto 1 within 1.1" in result.output  # of the same code


def test_the_workloads_of_papers_are_compared_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Workload] = {}

    def compare(workload: str, scenario: Workload, algorithms: list[str]) -> Iterator[GridPoint]:
        asked[workload] = scenario
        yield replace(POINT, workload=workload)

    monkeypatch.setattr(papers, "compare", compare)
    result = run("--sweeps", "hem,rein", "--scale", "0.01", "--out", str(tmp_path / "choices.csv"))
    assert result.exit_code == 0, result.output
    assert {name.split("-")[0] for name in asked} == {"hem", "rein"}
    assert len(set(asked.values())) == len(asked) > 50
    assert asked["hem-3 0"].events == choices.BATCHES[-1]
    assert asked["hem-3 0"].subscriptions == 10_000


def test_a_wrong_answer_ends_with_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, eq=False)
    class Silent(Matcher):
        algorithms = ("silent",)

        def match(self, events: EventBatch) -> MatchBatch:
            return MatchBatch(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int32))

        def alone(self) -> Callable[[EventBatch], Int32]:
            return lambda _: np.empty(0, np.int32)

    def build(table: SubscriptionTable) -> Matcher:
        return Silent()

    monkeypatch.setitem(ALGORITHMS, "auto", Algorithm(build, chooses=("scan",)))
    result = run("--workloads", "dense", "--sizes", "30", "-a", "scan", "--out", str(tmp_path / "choices.csv"))
    assert result.exit_code == 1
    assert "WRONG" in result.output


def test_the_decision_of_auto_is_in_its_build_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = decide_slowly(monkeypatch)
    (point,) = choices.compare("hem", choices.WORKLOADS["hem"](300), ["scan"], [1])
    assert decided == [300, 300]  # before, to compile
    assert point.build_s >= DECISION_S


def test_an_algorithm_that_answers_fewer_events_of_a_call_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = ALGORITHMS["scan"]
    monkeypatch.setitem(ALGORITHMS, "short", Algorithm(lambda table: Short(scan(table), list, events=64)))
    with pytest.raises(BenchError, match="the algorithm answered 63 events, and scan 64"):
        list(choices.compare("hem", choices.WORKLOADS["hem"](30), ["short"], [64]))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workloads", "ham"], "unknown name 'ham'"),
        (["-a", "tilse"], "unknown name 'tilse'"),
        (["--sweeps", "hen"], "unknown name 'hen'"),
        (["--sizes", "0"], "sizes cannot be '0'; they are numbers"),
    ],
)
def test_wrong_flags_are_rejected(flags: list[str], message: str) -> None:
    result = run(*flags)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
