"""`bench search`: random configurations, each again alone, checked, and the worst of `auto` and `tiles`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import run_stream
from bench.matching import search
from bench.matching.choices import BATCHES, GridPoint
from bench.papers import continued
from bench.workloads.configurations import events
from bench.workloads.configurations.drawing import configurations
from bench.workloads.configurations.workload import RandomWorkload
from matchers import ALGORITHMS, Algorithm, EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.contract.tables import Int32

FEW = ("--most-subscriptions", "30", "-a", "scan,tiles")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(run_stream.app, ["bench", "search", *arguments])


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def small_numbers(n: int) -> list[int]:
    """The first n configurations with at most 30 subscriptions."""
    return [
        one.number for one, _ in zip((c for c in configurations(1) if c.subscriptions <= 30), range(n), strict=False)
    ]


def test_each_point_has_its_configuration_and_the_worst_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "search.csv"
    first, second = small_numbers(2)
    result = run("--configurations", str(second + 1), *FEW, "--out", str(file))
    assert result.exit_code == 0, result.output
    rows = read(file)
    points = [(row["workload"], int(row["batch"])) for row in rows]
    assert points == [(f"1:{number}", batch) for number in (first, second) for batch in BATCHES]
    assert {row["checked"] for row in rows} == {"True"}
    for row in rows:
        assert int(row["subscriptions"]) <= 30
        assert float(row["tiles_ratio"]) == pytest.approx(float(row["tiles_us"]) / float(row["best_us"]))
        assert float(row["tiles_ratio"]) >= 1
    text = " ".join(result.output.split())
    assert f"6 points, auto {sum(float(row['ratio']) <= 1.1 for row in rows)} within 1.1" in text
    assert f"6 points, tiles {sum(float(row['tiles_ratio']) <= 1.1 for row in rows)} within 1.1" in text
    assert "WRONG" not in text


def test_a_configuration_is_measured_again_alone() -> None:
    (number,) = small_numbers(1)
    result = run("--number", str(number), "--batch", "64", *FEW)
    assert result.exit_code == 0, result.output
    assert "1 points" in result.output
    assert f"1:{number}" in result.output


def test_batches_of_more_events_than_there_are_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_MATCHES", 1)
    number = next(c for c in configurations(1) if c.subscriptions <= 30 and c.event_kind == "hit").number
    result = run("--number", str(number), *FEW, "--out", str(tmp_path / "search.csv"))
    assert result.exit_code == 0, result.output
    assert [row["batch"] for row in read(tmp_path / "search.csv")] == ["1", "64"]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the configurations that are compared, without measuring them: the later, the further behind."""
    asked: list[str] = []

    def compare(
        name: str, workload: RandomWorkload, algorithms: list[str], batches: Sequence[int]
    ) -> Iterator[GridPoint]:
        asked.append(name)
        us = 1.0 + len(asked) / 10
        n = workload.configuration.subscriptions
        for batch in batches:
            yield GridPoint(name, n, batch, 1.5, "hem", 0.1, us, 2 * us, "hem", 1.0, "hem", 1.0, True)

    monkeypatch.setattr(search, "compare", compare)
    return asked


def test_configurations_of_the_file_are_skipped(tmp_path: Path, compared: list[str]) -> None:
    out = ("--out", str(tmp_path / "search.csv"))
    assert run("--configurations", "2", *out).exit_code == 0
    assert run("--configurations", "4", "--batch", "1", *out).exit_code == 0
    assert compared == ["1:0", "1:1", "1:2", "1:3"]
    assert [row["batch"] for row in read(tmp_path / "search.csv")] == ["1", "64", "1024"] * 2 + ["1"] * 2


def test_configurations_of_other_code_are_measured_again(
    tmp_path: Path, compared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "search.csv"
    for code in ("one", "two", "two"):
        monkeypatch.setattr(continued, "code_version_of_all", lambda algorithms, code=code: code)
        assert run("--configurations", "1", "--out", str(file)).exit_code == 0
    assert compared == ["1:0", "1:0"]
    assert [row["code"] for row in read(file)] == ["two"] * len(BATCHES)


def test_the_worst_ten_are_printed_worst_first_with_words(compared: list[str]) -> None:
    result = run("--configurations", "12", "--seed", "4", "--batch", "64")
    lines = result.output.splitlines()
    tiles = lines.index(next(line for line in lines if line.startswith("worst of tiles")))
    for part, last in ((lines[:tiles], "2.20"), (lines[tiles:], "4.40")):
        names = [line.split()[0] for line in part if line.startswith("4:")]
        assert names == [f"4:{number}" for number in range(11, 1, -1)]
        assert f"the worst {last}" in " ".join(part)
    first = next(configurations(4))
    row = {name: str(value) for name, value in first.as_data().items()}
    assert search.described(row) == search.described(first.as_data())
    assert search.described(row).startswith(f"{first.subscriptions:,} subscriptions")


def test_no_configuration_begins_when_the_time_is_up(compared: list[str]) -> None:
    result = run("--seconds", "0")
    assert result.exit_code == 0, result.output
    assert compared == []


def test_a_wrong_answer_is_named_and_ends_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, eq=False)
    class Deaf(Matcher):
        algorithms = ("deaf",)

        def match(self, events: EventBatch) -> MatchBatch:
            return MatchBatch(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int32))

        def alone(self) -> Callable[[EventBatch], Int32]:
            return lambda _: np.empty(0, np.int32)

    def build(table: SubscriptionTable) -> Matcher:
        return Deaf()

    monkeypatch.setitem(ALGORITHMS, "hem", Algorithm(build))
    found = next(c for c in configurations(1) if c.subscriptions <= 30 and c.event_kind == "hit")
    result = run("--number", str(found.number), "--batch", "64", "-a", "hem")
    assert result.exit_code == 1
    assert f"WRONG: 1:{found.number}, 64 at once" in result.output


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-a", "tilse"], "unknown name 'tilse'"),
        (["--batch", "0"], "batch cannot be '0'; each must be 1 or more"),
        (["--number", "x"], "number cannot be 'x'; use comma-separated numbers"),
        (["--configurations", "0"], "--configurations"),
    ],
)
def test_wrong_flags_are_rejected(flags: list[str], message: str) -> None:
    result = run(*flags)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
