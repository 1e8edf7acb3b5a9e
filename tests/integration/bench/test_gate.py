"""`bench gate` with the real job: its start and its idle time."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import run_stream
from bench.gate import recorded
from bench.gate.system import Start
from rig.load import Load


def test_the_start_of_the_job_and_its_idle_time_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Start(Load(subscriptions=200, symbols=10), idle_s=0.5)
    monkeypatch.setattr("bench.gate.points.POINTS", {"start": toy})
    monkeypatch.setattr("signal.signal", lambda *_: None)
    file = tmp_path / "recorded.json"
    result = CliRunner().invoke(run_stream.app, ["bench", "gate", "--record", "--recorded", str(file)])
    assert result.exit_code == 0, result.output
    value = {figure.name: figure.value for figure in recorded.read(file)["start"].figures}
    assert value.keys() == {"start", "start, until running", "idle job", "idle broker"}
    assert all((value[name] or 0) > 0 for name in ("start", "start, until running"))
    assert all((value[name] or 0) >= 0 for name in ("idle job", "idle broker"))  # half a second: few ticks of the clock
