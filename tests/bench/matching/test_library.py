"""`bench library`: the library as a program calls it, checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import run_stream
from matchers import Index

QUICK = ("--events", "20", "--rounds", "2", "-a", "tiles")


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(run_stream.app, ["bench", "library", *arguments])


def test_each_number_of_rules_has_a_row() -> None:
    result = run("--rules", "30,40", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["rules"], row["algorithm"], row["checked"]) for row in rows] == [
        (30, "tiles", True),
        (40, "tiles", True),
    ]
    for row in rows:
        assert all(row[name] > 0 for name in row if name.endswith(("_us", "_ms", "_s")))
        assert row["json_p50_us"] <= row["json_p99_us"] >= row["json_p99_of_events_us"]
    table = run("--rules", "30", *QUICK)
    assert table.exit_code == 0
    assert "yes" in table.output
    assert "p99" in table.output


@pytest.mark.parametrize("at_once", [True, False])
def test_a_wrong_answer_is_found(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    match = Index.match

    def missing(index: Index, events: Sequence[Any]) -> list[list[str]]:
        found = match(index, events)
        several = len(events) > 1
        is_scan = index.snapshot.algorithm == "scan"
        return found if is_scan or several is not at_once else [[*ids, "another"] for ids in found]

    monkeypatch.setattr(Index, "match", missing)
    result = run("--rules", "30", *QUICK)
    assert result.exit_code == 1
    assert "WRONG" in result.output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--rules", "0"), "rules cannot be '0'; each must be 1 or more"),
        (("--rules", "many"), "rules cannot be 'many'; use comma-separated numbers"),
        (("--rules", "5", "-a", "tile"), "unknown algorithm 'tile'"),
    ],
)
def test_a_wrong_flag_is_named(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert reason in " ".join(result.output.replace("│", " ").split())
