"""The archive of our code that executors unpack."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from streaming.driver import code_archive
from streaming.driver.session import CODE


def test_it_has_all_that_a_worker_imports(tmp_path: Path) -> None:
    with tarfile.open(code_archive.make(CODE, tmp_path)) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    command = [sys.executable, "-c", "import matchers, streaming.worker.daemon; print(matchers.__file__)"]
    done = subprocess.run(command, cwd=tmp_path / "there", env={}, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(tmp_path / "there" / "matchers" / "__init__.py"), done.stderr


def test_it_has_what_is_compiled_and_nothing_else_that_lies_there(tmp_path: Path) -> None:
    for file in ("a.py", "kernels/b.py", "kernels/__pycache__/b.f-1.nbi", "kernels/__pycache__/b.f-1.1.nbc"):
        for package in ("matchers", "streaming", "tests"):
            (tmp_path / package / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / package / file).write_text(file)
    (tmp_path / "matchers" / "kernels" / "__pycache__" / "b.cpython-311.pyc").touch()
    (tmp_path / "matchers" / "notes.md").touch()
    with tarfile.open(code_archive.make(tmp_path, tmp_path)) as archive:
        names = archive.getnames()
        assert {name.split("/")[0] for name in names} == {"matchers", "streaming"}
        assert len(names) == 2 * 4
        assert all(archive.extractfile(name).read().decode() in name for name in names)  # type: ignore[union-attr]
