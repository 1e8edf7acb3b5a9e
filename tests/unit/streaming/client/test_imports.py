"""A program imports the client from a checkout or from the package, and little else with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commands import HOME
from streaming.process import code_archive


@pytest.mark.parametrize("packaged", [False, True], ids=["checkout", "package"])
def test_the_import_of_the_client_loads_neither_spark_nor_a_compiler(packaged: bool, tmp_path: Path) -> None:
    code = code_archive.make(HOME, tmp_path / "sluice.zip") if packaged else HOME
    program = """
import sys
from config import Settings
from streaming.client import Client
with Client(Settings()) as client:
    print(*sys.modules, sys.modules[Client.__module__].__file__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
        check=True,
    )
    *modules, file = done.stdout.split()
    assert Path(file).is_relative_to(code)
    assert not {"pyspark", "numba", "numpy", "pyarrow", "pandas", "typer", "rich"} & set(modules)
