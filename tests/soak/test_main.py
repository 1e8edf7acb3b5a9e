"""The command writes its files whatever happens, and rejects what would lose them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.soak import __main__ as command
from tests.soak.run import Outcome


@pytest.fixture(autouse=True)
def _signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["soak", *arguments])
    return command.main()


def test_a_mistake_of_ours_leaves_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(outcome: Outcome, *_: Any) -> None:
        outcome.start["job_running"] = {"s": 20.0, "job_mb": 900}
        raise RuntimeError

    monkeypatch.setattr(command, "run", broken)
    files = tmp_path / "soak.json", tmp_path / "soak.png"
    with pytest.raises(RuntimeError):
        started(monkeypatch, "--json", str(files[0]), "--picture", str(files[1]), "--set", "matching.algorithm=scan")
    data = orjson.loads(files[0].read_bytes())
    assert (data["start"], data["settings"]) == (
        {"job_running": {"s": 20.0, "job_mb": 900}},
        {"matching.algorithm": "scan"},
    )
    assert data["right"] is False
    assert files[1].stat().st_size > 1_000


def test_the_exit_code_is_that_of_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run", lambda *_: None)
    assert started(monkeypatch) == 1  # nothing was checked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--json", "/no/such/place/soak.json"), "there is no directory /no/such/place"),
        (("--subscriptions", "10"), "10 subscriptions to 1,000 symbols"),
        (("--set", "matching.algorithm"), "argument --set: 'matching.algorithm' is not NAME=VALUE"),
        (("--broker", "num.io.threads"), "argument --broker: 'num.io.threads' is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_is_rejected_at_once(
    arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        started(monkeypatch, *arguments)
    assert words in capsys.readouterr().err
