"""What a job does about its index while the kernels for it are not compiled yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.model import Matching, Settings
from matchers.errors import MatchingError
from streaming.driver import job, warm_up
from streaming.errors import JobError
from streaming.kernels import ahead


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order."""
    done: list[str] = []
    monkeypatch.setattr(ahead, "needed", lambda names: [names])
    monkeypatch.setattr(ahead, "compile", lambda stages, *_: done.append(f"compiled {stages}"))
    monkeypatch.setattr(warm_up, "index", lambda _, algorithm, options: done.append(f"loaded {algorithm} {options}"))
    return done


def better_index(algorithm: str, options: dict[str, Any]) -> tuple[str, Any]:
    start = job.Start(
        settings=Settings(matching=Matching(algorithm=algorithm, options=options)),
        **dict.fromkeys(("session", "stop", "past", "running", "spark_checkpoint"), None),  # type: ignore[arg-type]  # unused
        lineage="",
        scratch=Path(),
        began=0.0,
    )
    return start._better_index(None, None)  # type: ignore[arg-type]  # unused


def test_the_index_of_the_settings_is_used_once_its_kernels_are_compiled_and_loaded(done: list[str]) -> None:
    assert better_index("pem", {"bits": 8}) == ("pem", {"bits": 8})
    assert done == ["compiled [['pem']]", "loaded pem {'bits': 8}"]


@pytest.mark.parametrize("error", [MatchingError("bits must lie within 1 .. 64"), TypeError("no option bits")])
def test_an_index_that_cannot_be_built_is_an_error_of_the_settings(
    done: list[str], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index(*_: object) -> None:
        raise error

    monkeypatch.setattr(warm_up, "index", index)
    with pytest.raises(JobError, match=rf"matching.algorithm = 'pem' cannot be used: {error}"):
        better_index("pem", {})
    assert done == ["compiled [['pem']]"]
