"""Compiled kernels are kept where their user can write; an installation that its user cannot write works as well.

Directories are protected by their mode. Tests that run as root give up root's privilege to write there in spite of it.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import types as numba_types

from matchers.kernels.jit import code_cache
from tests.support.documents import HOME

ROOT = os.getuid() == 0
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if ROOT else []

CHILD = """
import json, os, sys, tempfile, warnings
asked = json.loads(sys.argv[1])
sys.path.insert(0, asked["code"])
tempfile.tempdir = asked["temporary"]
import numpy as np
from numba.core import event

class Compiled(event.Listener):
    names = []
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if (function.__module__ or "").startswith(("matchers.", "streaming.")):
            self.names.append(function.__name__)
    def on_end(self, event): pass

answer = {}
with event.install_listener("numba:compile", Compiled()), warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from matchers import ALGORITHMS, EventBatch, SubscriptionTable
    from matchers.kernels.merge import merge
    if "match" in asked["do"]:
        table = SubscriptionTable.from_intervals(
            [0, 1, 1], [0, 0, 1], [1.0, 0.0, 5.0], [2.0, 9.0, 5.0], n_subscriptions=2, n_columns=2)
        answer["matches"] = ALGORITHMS["scan"](table).match(EventBatch.from_dense([[1.5, 5.0]])).of(0).tolist()
    if "merge" in asked["do"]:
        none = np.zeros(0, np.int16)  # a type for which it is compiled nowhere
        merge(none, none, none, none)
    if "fork" in asked["do"]:
        if os.fork() == 0:
            merge(*[np.zeros(0, np.int8)] * 4)
            os._exit(len(caught) - 1)
        answer["warnings_of_fork"] = os.waitstatus_to_exitcode(os.wait()[1])
    if "crc" in asked["do"]:
        from streaming.publishing.encode import crc32c
        answer["checksum"] = int(crc32c.by_tables(np.zeros(9, np.uint8), 0, 9))
    if "mark" in asked["do"]:
        from streaming.precompile import marker
        marker.set_compiled("scan")
        marker.set_compiled("publishing")  # most of its kernels are not: that would take long
    if "doctor" in asked["do"]:
        from streaming.checks import machine
        from streaming.precompile import marker
        answer["compiled"] = marker.is_compiled("scan")
        answer["finding"] = machine.kernels("scan").as_data()
print(json.dumps({"compiled_kernels": Compiled.names, "warnings": [str(w.message) for w in caught], **answer}))
"""


@dataclass
class Installation:
    """A copy of the code, and a temporary directory."""

    at: Path

    @property
    def code(self) -> Path:
        return self.at / "code"

    @property
    def temporary(self) -> Path:
        return self.at / "temporary"

    def run(self, *do: str, **more: str) -> dict[str, Any]:
        """Return the answer of CHILD; `more` is for its environment."""
        asked = {"code": str(self.code), "temporary": str(self.temporary), "do": do}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.code / "home"), **more}
        command = [*UNPRIVILEGED, sys.executable, "-c", CHILD, json.dumps(asked)]
        done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def protect(self) -> None:
        """Make the code read-only, and so its home, which is not there, impossible."""
        for path in [self.code, *self.code.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)


def copied(at: Path) -> Installation:
    for package in ("matchers", "streaming"):
        shutil.copytree(HOME / package, at / "code" / package, ignore=shutil.ignore_patterns("__pycache__"))
    (at / "temporary").mkdir()
    (at / "temporary").chmod(0o1777)
    return Installation(at)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if ROOT and shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv to change that")
    at = tmp_path_factory.mktemp("installations")
    yield at
    for path in [at, *at.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)  # so that it can be deleted


@pytest.fixture(scope="module")
def bare(place: Path) -> Installation:
    """Without compiled kernels."""
    made = copied(place / "bare")
    made.protect()
    return made


@pytest.fixture(scope="module")
def compiled(place: Path) -> Installation:
    """Compile the kernels that CHILD needs."""
    made = copied(place / "compiled")
    assert made.run("match", "crc", "mark")["compiled_kernels"]
    made.protect()
    return made


@pytest.fixture
def temporary(bare: Installation, compiled: Installation) -> Iterator[None]:
    """Empty temporary directories."""
    yield
    for installation in (bare, compiled):
        installation.temporary.chmod(0o1777)
        for path in installation.temporary.iterdir():
            path.unlink() if path.is_symlink() else shutil.rmtree(path)


pytestmark = pytest.mark.usefixtures("temporary")


def test_an_installation_that_cannot_be_written_compiles_into_a_directory_of_the_user_once(bare: Installation) -> None:
    first = bare.run("match")
    assert first["matches"] == [0, 1]
    assert "scan" in first["compiled_kernels"]
    (warning,) = first["warnings"]
    directory = bare.temporary / f"sluice-kernels-{os.getuid()}"
    assert f"kept in {directory} until the system empties it" in warning
    assert f"{bare.code}/matchers/kernels/__pycache__: Permission denied" in warning
    assert warning.endswith("set NUMBA_CACHE_DIR to a directory that this user can write")
    assert (directory.stat().st_mode & 0o777, directory.stat().st_uid) == (0o700, os.getuid())
    assert bare.run("match") == {"matches": [0, 1], "compiled_kernels": [], "warnings": []}


def test_where_nothing_can_be_written_kernels_are_compiled_and_not_kept(bare: Installation) -> None:
    bare.temporary.chmod(0o555)
    first = bare.run("match", "merge", "fork")
    assert first["matches"] == [0, 1]
    (warning,) = first["warnings"]
    assert "compiled kernels are not kept, each process compiles them again" in warning
    assert "NUMBA_CACHE_DIR" in warning
    assert first["warnings_of_fork"] == 0  # so Spark's workers, which are forked, do not repeat it
    assert "merge" in bare.run("merge")["compiled_kernels"]


def test_a_compiled_installation_that_cannot_be_written_compiles_nothing_again(compiled: Installation) -> None:
    assert compiled.run("match") == {"matches": [0, 1], "compiled_kernels": [], "warnings": []}
    assert not any(compiled.temporary.rglob("*.nbi"))


def test_what_it_lacks_is_kept_elsewhere(compiled: Installation) -> None:
    first = compiled.run("match", "merge")
    assert (first["compiled_kernels"], len(first["warnings"])) == (["merge"], 1)
    assert compiled.run("match", "merge")["compiled_kernels"] == []


def test_the_home_of_the_user_comes_before_the_temporary_directory(bare: Installation, place: Path) -> None:
    home = place / "home"
    home.mkdir()
    for expected in (["merge"], []):
        answer = bare.run("merge", HOME=str(home))
        assert (answer["compiled_kernels"], answer["warnings"]) == (expected, [])
    home.chmod(0o555)
    assert bare.run("merge", HOME=str(home)) == {"compiled_kernels": [], "warnings": []}
    assert not any(bare.temporary.iterdir())


def test_a_named_directory_is_the_only_one(compiled: Installation, place: Path) -> None:
    named = place / "named"
    named.mkdir()
    named.chmod(0o555)
    rejected = compiled.run("merge", NUMBA_CACHE_DIR=str(named))
    (warning,) = rejected["warnings"]
    assert f"not kept, each process compiles them again: {named}: Permission denied" in warning
    named.chmod(0o777)
    for expected in (["merge"], []):
        answer = compiled.run("merge", NUMBA_CACHE_DIR=str(named))
        assert (answer["compiled_kernels"], answer["warnings"]) == (expected, [])
    assert not any(compiled.temporary.rglob("*.nbi"))


@pytest.mark.parametrize(
    "fault", ["of another user", "open to others", "a link", "in a directory that others can write"]
)
def test_no_machine_code_is_loaded_that_another_user_could_have_written(fault: str, bare: Installation) -> None:
    directory = bare.temporary / f"sluice-kernels-{os.getuid()}"
    assert bare.run("merge")["compiled_kernels"] == ["merge"]
    assert bare.run("merge")["compiled_kernels"] == []
    if fault == "of another user":
        if not ROOT:
            pytest.skip("only root can give a directory to another user")
        os.chown(directory, 65534, 65534)
        directory.chmod(0o777)
    elif fault == "open to others":
        directory.chmod(0o777)
    elif fault == "a link":
        directory.rename(elsewhere := bare.temporary / "elsewhere")
        directory.symlink_to(elsewhere)
    else:
        bare.temporary.chmod(0o777)
    answer = bare.run("merge")
    assert answer["compiled_kernels"] == ["merge"]
    (warning,) = answer["warnings"]
    assert "compiled kernels are not kept" in warning
    assert str(directory) in warning


def test_the_doctor_and_the_markers_tell_where_kernels_are(bare: Installation, compiled: Installation) -> None:
    answer = compiled.run("doctor")
    assert (answer["compiled"], answer["finding"]["state"]) == (True, "ok")
    assert f"complete for scan, in {compiled.code}/" in answer["finding"]["found"]
    answer = bare.run("doctor")
    assert (answer["compiled"], answer["finding"]["state"]) == (False, "warning")
    directory = bare.temporary / f"sluice-kernels-{os.getuid()}"
    assert f"stored in {directory} until the system empties it" in answer["finding"]["found"]
    assert "NUMBA_CACHE_DIR" in answer["finding"]["remedy"]
    bare.run("match", "crc", "mark")
    answer = bare.run("doctor")
    assert (answer["compiled"], answer["finding"]["state"]) == (True, "warning")
    shutil.rmtree(directory)
    bare.temporary.chmod(0o555)
    answer = bare.run("doctor")
    assert answer["compiled"]  # there is nothing that could be done ahead
    assert "not stored, so each process compiles them" in answer["finding"]["found"]
    assert f"{bare.code}/matchers" in answer["finding"]["found"]


def test_the_doctor_says_where_numba_is_not_to_compile(bare: Installation) -> None:
    answer = bare.run("doctor", NUMBA_DISABLE_JIT="1")
    assert (answer["compiled"], answer["finding"]["state"]) == (True, "skipped")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("STEP = 1", "STEP = 2", (5, ["step", "twice"]), id="a constant"),
        pytest.param("value + STEP", "value - STEP", (-1, ["step", "twice"]), id="its code"),
        pytest.param("# a remark", "# another", (3, []), id="a remark"),
    ],
)
def test_a_kernel_is_compiled_again_if_a_kernel_of_another_file_that_it_calls_has_changed(
    old: str, new: str, expected: tuple[int, list[str]], tmp_path: Path
) -> None:
    inner = tmp_path / "inner.py"
    kernel = "from matchers.kernels.jit import kernel\n"
    inner.write_text(f"{kernel}STEP = 1\n@kernel\ndef step(value):\n    return value + STEP\n# a remark\n")
    outer = f"{kernel}import inner\n@kernel\ndef twice(value):\n    return inner.step(inner.step(value))\n"
    (tmp_path / "outer.py").write_text(outer)
    program = (
        "import inner, outer; print(outer.twice(1), "
        "*(one.__name__ for one in (inner.step, outer.twice) if one.stats.cache_misses))"
    )
    environment = {"PYTHONPATH": f"{tmp_path}:{HOME}", "NUMBA_CACHE_DIR": f"{tmp_path}/cache"}
    environment = {**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1"}  # its files know only whole seconds

    def run() -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        result, *compiled = done.stdout.split()
        return int(result), compiled

    run()
    assert run() == (3, [])
    inner.write_text(inner.read_text().replace(old, new))
    assert run() == expected


def index(at: Path, stamp: str = "stamp") -> Any:
    return code_cache._IndexFile(str(at), "kernel", (stamp,))


def test_an_index_that_names_a_type_of_another_version_is_empty(tmp_path: Path) -> None:
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(numba.__version__) + b"cmatchers.kernels.merge\nGone\n.")
    assert index(tmp_path)._load_index() == {}


@pytest.mark.parametrize("contents", [b"", b"\x80", b"rubbish"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_file_that_was_cut_short_counts_as_absent(kind: str, contents: bytes, tmp_path: Path) -> None:
    index(tmp_path).save("a", "code of a")
    (file,) = tmp_path.glob(f"*.{kind}")
    file.write_bytes(contents)
    assert index(tmp_path).load("a") is None
    index(tmp_path).save("a", "code of a")
    assert index(tmp_path).load("a") == "code of a"
    assert len([*tmp_path.iterdir()]) == 2


def test_code_that_could_not_be_written_is_in_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(tmp_path).save("a", "code of a")
    full = index(tmp_path)

    def fail(name: str, data: str) -> None:
        raise OSError("full")

    monkeypatch.setattr(full, "_save_data", fail)
    with pytest.raises(OSError, match="full"):
        full.save("b", "code of b")
    assert index(tmp_path)._load_index().keys() == {"a"}


def test_two_processes_that_save_different_code_at_once_lose_some_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(tmp_path).save("a", "code of a")
    one, other = index(tmp_path), index(tmp_path)
    saves = one._save_data

    def interrupted(name: str, data: str) -> None:
        other.save("c", "code of c")
        saves(name, data)

    monkeypatch.setattr(one, "_save_data", interrupted)
    one.save("b", "code of b")
    loaded = {key: index(tmp_path).load(key) for key in "abc"}
    assert loaded == {"a": "code of a", "b": "code of b", "c": None}


def test_code_of_other_sources_is_deleted_and_that_of_other_kernels_not(tmp_path: Path) -> None:
    other = code_cache._IndexFile(str(tmp_path), "kernels", ("stamp",))
    other.save("a", "code of another")
    for stamp in ("before", "after"):
        index(tmp_path, stamp).save("a", f"code {stamp}")
    assert index(tmp_path, "after").load("a") == "code after"
    assert other.load("a") == "code of another"
    assert len([*tmp_path.iterdir()]) == 4


types: Any = numba_types


def test_code_for_a_named_tuple_is_not_that_for_one_with_other_fields() -> None:
    def kernel(of: Any) -> Any:
        return of.a

    kept = code_cache.CodeCache(kernel)
    codegen = numba.core.registry.cpu_target.target_context.codegen()
    before, after = (types.NamedTuple((types.int64, types.int64), namedtuple("T", names)) for names in ("a b", "b a"))
    keys = [kept._index_key((types.Tuple((one, types.int64)),), codegen) for one in (before, after)]
    assert keys[0] != keys[1]
    assert keys[0][-1] == (("a", "b"),)
