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
from bench import command
from bench.matching import choices
from bench.matching.choices import Compared
from matchers import ALGORITHMS, Algorithm, EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.contract.tables import Int32

POINT = Compared("hem", 30, 64, 1.5, "tiles, hem", 0.1, 2.2, "tiles", 2.0, True)


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
    assert all(float(row["ratio"]) == pytest.approx(float(row["us"]) / float(row["best_us"])) for row in rows)


def test_points_of_the_file_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compare(workload: str, n: int, algorithms: list[str]) -> Iterator[Compared]:
        asked.append((workload, n))
        yield replace(POINT, workload=workload, subscriptions=n + 1)  # about as many as asked for

    monkeypatch.setattr(command, "compare", compare)
    out = ("--out", str(tmp_path / "choices.csv"))
    assert run("--workloads", "hem", "--sizes", "30", *out).exit_code == 0
    result = run("--workloads", "hem,pcm", "--sizes", "30,50", *out)
    assert asked == [("hem", 30), ("pcm", 30), ("hem", 50), ("pcm", 50)]
    assert "4 points, 4 within 1.1" in result.output
    assert "the worst 1.10" in result.output


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workloads", "ham"], "unknown name 'ham'"),
        (["-a", "tilse"], "unknown name 'tilse'"),
        (["--sizes", "0"], "sizes cannot be '0'; they are numbers"),
    ],
)
def test_wrong_flags_are_refused(flags: list[str], message: str) -> None:
    result = run(*flags)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
