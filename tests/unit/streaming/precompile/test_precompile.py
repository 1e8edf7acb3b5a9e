"""The kernels of a job are compiled before they are called, once, and it is known which there are."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from commands.machine import warm
from matchers import ALGORITHMS
from matchers.kernels.jit.code_cache import CacheDirectories
from streaming.driver.starting import compiling
from streaming.precompile import dry_run, kernels, marker
from tests.support.documents import HOME
from tests.support.doubles.stage import AtOnce
from tests.support.patience import PATIENCE_S


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of which nothing is known."""
    monkeypatch.setattr(marker, "places", lambda: CacheDirectories((tmp_path,), tmp_path, False, ()))
    (tmp_path / "kernel.nbi").touch()
    monkeypatch.setattr(marker, "called", lambda: [_Kernel(tmp_path)])
    return tmp_path


class _Kernel:
    def __init__(self, path: Path) -> None:
        self._cache = self
        self.directories = lambda: [path]


def test_what_is_compiled_stays_so_until_the_code_or_the_cache_changes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not marker.is_compiled("scan")
    marker.set_compiled("scan")
    assert marker.is_compiled("scan")
    assert not marker.is_compiled("tiles")
    with monkeypatch.context() as changed:
        changed.setattr(marker, "_fingerprint", lambda: "of other code")
        assert not marker.is_compiled("scan")
    (cache / "kernel.nbi").unlink()
    assert not marker.is_compiled("scan")


@pytest.mark.usefixtures("cache")
def test_who_compiles_into_the_same_cache_waits_and_finds_what_was_compiled() -> None:
    waits = threading.Event()

    def second() -> list[list[str]]:
        waits.set()
        with marker.alone():
            return kernels.needed(["scan"])

    with ThreadPoolExecutor(1) as pool:
        with marker.alone():
            found = pool.submit(second)
            assert waits.wait(PATIENCE_S)
            for name in kernels.BASE:
                marker.set_compiled(name)
            assert not found.done()
        assert found.result(PATIENCE_S) == []


def test_a_start_that_waits_for_another_to_compile_says_so_and_can_be_stopped(
    cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    caplog.set_level(logging.INFO, "sluice")
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool, marker.alone():
        try:
            done = pool.submit(compiling.ahead, "scan", {}, stop)
            with pytest.raises(TimeoutError):
                done.result(3 * marker.LOOK_EVERY_S)
            stop.set()
            assert not done.result(PATIENCE_S)
            assert [(record.message, vars(record)["fields"]) for record in caplog.records] == [
                ("kernels_awaited", {"path": str(cache / "compiling.lock")})
            ]
            for name in kernels.BASE:
                marker.set_compiled(name)
            assert pool.submit(compiling.ahead, "scan", {}, threading.Event()).result(PATIENCE_S)  # nothing is left
        finally:
            stop.set()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"of": 1}', '{"of": "%s", "in": 5}'])
def test_a_marker_that_cannot_be_read_is_none(cache: Path, text: str) -> None:
    (cache / "compiled-scan.json").write_text(text.replace("%s", marker._fingerprint()))
    assert not marker.is_compiled("scan")


def test_a_marker_changes_with_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker, "PACKAGES", (tmp_path,))
    found = []
    for text in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "a.py").write_text(text)
        marker._fingerprint.cache_clear()
        found.append(marker._fingerprint())
    marker._fingerprint.cache_clear()
    assert found[0] == found[2] != found[1]


@pytest.mark.usefixtures("cache")
def test_all_need_the_base_first_and_who_chooses_comes_last() -> None:
    assert kernels.needed(["scan"]) == [["publishing", "scan"]]
    base, plain, choosing = kernels.needed(["auto", "sff"])
    assert (base, choosing) == (["publishing", "scan"], ["auto"])
    assert plain[0] == "tiles"
    assert {*ALGORITHMS["auto"].chooses, "sff"} == {*plain, "scan"}
    marker.set_compiled("publishing")
    marker.set_compiled("tiles")
    assert kernels.needed(["tiles"]) == [["scan"]]


class _Failing(AtOnce):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("there is nothing to compile")


@pytest.mark.usefixtures("cache")
def test_the_time_of_compiling_is_estimated_by_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CPU_S", {"a": 10, "b": 20, "c": 30})
    monkeypatch.setattr(kernels, "OTHERS_CPU_S", 7)
    assert kernels.estimate_s([], 2) == 0
    assert kernels.estimate_s([["a", "b", "c"]], 1) == 60
    assert kernels.estimate_s([["a", "b", "c"], ["other"]], 2) == 37
    assert kernels.estimate_s([["a", "b", "c"]], 100) == 30  # an algorithm is compiled by one core


@pytest.mark.usefixtures("cache")
def test_what_was_compiled_is_said_and_not_compiled_again() -> None:
    said: list[str] = []
    pool: Executor = AtOnce()
    kernels.compile(kernels.needed(["counting"]), {}, pool, lambda compiled: said.append(compiled.name))
    assert (sorted(said[:2]), said[2:]) == (["publishing", "scan"], ["counting"])
    assert kernels.is_ready("counting")
    kernels.compile(kernels.needed(["counting"]), {}, _Failing())


@pytest.mark.usefixtures("cache")
def test_options_go_to_their_algorithm_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Any] = []
    monkeypatch.setattr(dry_run, "run", lambda *call: run.append(call))
    kernels.compile([["scan"], ["ocm"]], {"ocm": {"bits": 8}}, AtOnce())
    assert run == [("scan", {}), ("ocm", {"bits": 8})]


def test_an_algorithm_that_chooses_has_to_choose() -> None:
    """An algorithm that chooses takes one at once for fewer subscriptions, and the kernels of the others would be
    missing."""
    assert len(dry_run.indexed("scan", {}).snapshot) < 100 < 2_000 < dry_run.MANY_SUBSCRIPTIONS


def test_sparse_subscriptions_run_too() -> None:
    """Or else the first batch of sparse events would wait for a compiler."""
    (part,) = dry_run.indexed("tiles", {}, "sparse").snapshot.parts
    assert len(part.matcher.by_columns.slot)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("cache")
def test_the_command_says_what_there_is_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "archive_classes", lambda settings: None)
    monkeypatch.setattr(
        kernels, "compile", lambda stages, options, pool, done: done(kernels.CompiledKernels("scan", 7, 1.5))
    )
    result = CliRunner().invoke(warm.app, ["scan"])
    assert result.exit_code == 0, result.output
    assert "scan: 7 kernels in 1.5 s of a core; left: publishing, reading" in result.output
    for name in ("publishing", "scan", "reading"):
        marker.set_compiled(name)
    assert "all kernels are compiled for scan" in CliRunner().invoke(warm.app, ["scan"]).output


def test_the_image_and_setup_compile_by_the_command() -> None:
    assert "RUN .venv/bin/python run_stream.py warm\n" in (HOME / "docker" / "Dockerfile").read_text()
    assert "$(RUN) warm\n" in (HOME / "Makefile").read_text()
