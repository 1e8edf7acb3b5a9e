"""The archive of our code: executors unpack it, and so does a program that imports it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from matchers import algorithms
from streaming.process import code_archive
from streaming.worker.starting.preloaded import CODE


def python(directory: Path, program: str, **environment: str) -> str:
    """Return the output of an interpreter that starts in this directory."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_has_all_that_a_worker_imports(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive.make(CODE, tmp_path / "code.zip")) as archive:
        archive.extractall(tmp_path / "there")
    program = "import matchers, streaming.worker.daemon; print(matchers.__file__)"
    assert python(tmp_path / "there", program) == str(tmp_path / "there" / "matchers" / "__init__.py")


def test_it_has_what_is_compiled_and_nothing_else_that_lies_there(tmp_path: Path) -> None:
    for file in ("a.py", "kernels/b.py", "kernels/__pycache__/b.f-1.nbi", "kernels/__pycache__/b.f-1.1.nbc"):
        for package in ("matchers", "streaming", "tests"):
            (tmp_path / package / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / package / file).write_text(file)
    (tmp_path / "matchers" / "kernels" / "__pycache__" / "b.cpython-311.pyc").touch()
    (tmp_path / "matchers" / "notes.md").touch()
    with zipfile.ZipFile(code_archive.make(tmp_path, tmp_path / "code.zip")) as archive:
        names = archive.namelist()
        assert {name.split("/")[0] for name in names} == {"matchers", "streaming"}
        assert len(names) == 2 * 4
        assert all(archive.read(name).decode() in name for name in names)


def test_it_has_the_library_that_pip_has_installed_beside_the_package_of_the_script(tmp_path: Path) -> None:
    code = tmp_path / "sluice_app" / "code"
    library = tmp_path / "matchers"
    for file in (library / "papers" / "a.py", library / "b.py", code / "streaming" / "c.py"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with zipfile.ZipFile(code_archive.make(code, tmp_path / "code.zip")) as archive:
        assert archive.namelist() == ["matchers/b.py", "streaming/c.py"]


def test_a_program_that_imports_it_runs_from_a_directory_which_goes_with_the_program(tmp_path: Path) -> None:
    archive = code_archive.make(CODE, tmp_path / "sluice.zip")
    (tmp_path / "t").mkdir()
    program = """
from streaming.process import code_archive
code_archive.unpack()
code_archive.unpack()
import streaming.driver.session as session, streaming.monitoring.web.page, commands.job, matchers
print(session.LOG.exists(), matchers.__file__)
"""
    exists, module = python(tmp_path, program, PYTHONPATH=str(archive), TMPDIR=str(tmp_path / "t")).split()
    assert exists == "True"
    assert Path(module).parents[2] == tmp_path / "t"
    assert list((tmp_path / "t").iterdir()) == []


SHOWN = """
from matchers.registry import named
try:
    print(named("ada_rein").approximate)
except Exception as error:
    print(error)
"""


def test_published_algorithms_are_in_it_on_request_and_the_error_says_how(tmp_path: Path) -> None:
    for papers in (False, True):
        with zipfile.ZipFile(code_archive.make(CODE, tmp_path / "code.zip", papers=papers)) as archive:
            archive.extractall(tmp_path / f"{papers}")
    assert python(tmp_path / "True", SHOWN) == "True"
    error = python(tmp_path / "False", SHOWN)
    assert error.startswith("unknown algorithm 'ada_rein'")
    assert "without matchers/papers" in error
    assert "make package ALGORITHMS=<name>" in error
    assert "make image PAPERS=1" in error


def test_without_the_published_algorithms_all_others_can_be_stored_and_match(tmp_path: Path) -> None:
    """No class or function that a served matcher holds is in the package that is left out."""
    with zipfile.ZipFile(code_archive.make(CODE, tmp_path / "code.zip")) as archive:
        archive.extractall(tmp_path)
    program = """
from matchers import ALGORITHMS, Index
from matchers.index import stored
from matchers.index.snapshot import Part
for name in ALGORITHMS:
    index = Index.build({"a": {"x": [1]}}, algorithm=name)
    (part,) = index.snapshot.parts
    back = stored.put_together(*stored.taken_apart(part), Part)
    print(name, type(back.matcher).__name__)
"""
    found = dict(line.split() for line in python(tmp_path, program).splitlines())
    assert found.keys() == algorithms.ALGORITHMS.keys()
