"""The work of a job on its index while the kernels for it are being compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.model import Events, Matching, Settings
from matchers.errors import MatchingError
from matchers.index.snapshot import Snapshot
from matchers.language.lowering import Conjunction
from streaming.driver import job
from streaming.driver.starting import compiling, warm_up
from streaming.errors import JobError
from streaming.monitoring.view import BUILDING, COMPILING, LOADING
from streaming.precompile import kernels
from streaming.precompile.kernels import CompiledKernels
from streaming.state.state import State
from tests.support.doubles.stage import Value


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what was done, in order."""
    done: list[str] = []
    monkeypatch.setattr(kernels, "needed", lambda names: [names])

    def compiled(
        stages: list[list[str]], options: object, pool: object, tell: Callable[[CompiledKernels], None]
    ) -> None:
        done.append(f"compiled {stages}")
        for stage in stages:
            for name in stage:
                tell(CompiledKernels(name, 3, 1.5))

    monkeypatch.setattr(kernels, "compile", compiled)
    monkeypatch.setattr(warm_up, "index", lambda _, algorithm, options: done.append(f"loaded {algorithm} {options}"))
    return done


def run_of(settings: Settings) -> job.JobRun:
    return job.JobRun(
        settings=settings,
        **dict.fromkeys(("session", "stop", "past", "running", "spark_checkpoint"), None),  # type: ignore[arg-type]  # unused
        lineage="",
        scratch=Path(),
        began=0.0,
        has_standby=False,
    )


def better_index(algorithm: str, options: dict[str, Any], steps: list[tuple[str, int, int]]) -> tuple[str, Any]:
    chosen = Matching(algorithm=algorithm, options=options)
    compilers, session = ThreadPoolExecutor(1), None
    try:
        return compiling.index(
            chosen,
            session,  # type: ignore[arg-type]  # unused
            compilers,
            lambda *step: steps.append(step),
            threading.Event(),
        )
    finally:
        with pytest.raises(RuntimeError, match="shutdown"):  # the processes are not kept
            compilers.submit(int)


def test_the_index_of_the_settings_is_used_once_its_kernels_are_compiled_and_loaded(done: list[str]) -> None:
    steps: list[tuple[str, int, int]] = []
    assert better_index("pem", {"bits": 8}, steps) == ("pem", {"bits": 8})
    assert steps == [(COMPILING, 0, 1), (COMPILING, 1, 1), (LOADING, 0, 0), (BUILDING, 0, 0)]
    assert done == ["compiled [['pem']]", "loaded pem {'bits': 8}"]


@pytest.mark.parametrize("error", [MatchingError("bits must lie within 1 .. 64"), TypeError("no option bits")])
def test_an_index_that_cannot_be_built_is_an_error_of_the_settings(
    done: list[str], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index(*_: object) -> None:
        raise error

    monkeypatch.setattr(warm_up, "index", index)
    with pytest.raises(JobError, match=rf"matching.algorithm = 'pem' cannot be used: {error}"):
        better_index("pem", {}, [])
    assert done == ["compiled [['pem']]"]


def state_with(subscriptions: int, algorithm: str) -> State:
    """A state whose only part is by `scan`, although `algorithm` is to match."""
    snapshot = Snapshot(0, "scan").update((f"s{i}", [Conjunction({})]) for i in range(subscriptions))
    return State(replace(snapshot, algorithm=algorithm), Value, {})


def test_a_state_lacks_its_index_while_kernels_are_compiled_and_until_the_longest_part_has_it() -> None:
    compiling = state_with(2, "scan")
    assert not compiling.lacks_index
    compiling.pending_index = Future()
    assert compiling.lacks_index
    assert state_with(2, "sff").lacks_index
    assert not State(Snapshot(0, "sff"), Value, {}).lacks_index


@pytest.mark.parametrize(
    ("subscriptions", "lacks", "now", "events"),
    [
        (40_000, True, 0, 5_000),  # which is 200 million pairs
        (40_000, False, 0, 100_000),
        (40_000, False, 5_000, 100_000),  # the index is there
        (40_000, True, 1_251, 1_251),  # near enough
        (40_000, True, 1_250, 5_000),
        (40_000, True, 19_999, 19_999),
        (40_000, True, 20_000, 5_000),
        (1, True, 0, 100_000),
        (1, True, 100_000, 100_000),
    ],
)
def test_without_an_index_batches_have_fewer_events_the_more_subscriptions_there_are(
    subscriptions: int, lacks: bool, now: int, events: int
) -> None:
    run = run_of(Settings(events=Events(max_per_batch=100_000, reading="source")))
    state = state_with(subscriptions, "sff" if lacks else "scan")
    assert run._events_per_batch(state, now) == events
