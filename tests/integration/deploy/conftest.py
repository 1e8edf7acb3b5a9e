"""A directory that has the archive and the settings, and a file system that all hosts see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.process import code_archive
from tests.integration.conftest import HOME, CommandLine
from tests.integration.deploy import webhdfs
from tests.integration.deploy.elsewhere import as_toml


@pytest.fixture
def files() -> Iterator[webhdfs.WebHdfs]:
    """A file system that all hosts see."""
    with webhdfs.running() as server:
        yield server


@pytest.fixture
def directory(tmp_path: Path, sluice: CommandLine, files: webhdfs.WebHdfs) -> Path:
    """Return a directory with the archive, the program and the settings."""
    there = tmp_path / "there"
    there.mkdir()
    code_archive.make(HOME, there / "sluice.zip")
    shutil.copy(HOME / "run_stream.py", there)
    text = as_toml(sluice.flags() | {"query.checkpoint": f"{files.url}/sluice"})
    text += '[spark.options]\n"spark.executor.memory" = "512m"\n'  # what spark-submit is given wins
    files.files["/sluice.toml"] = text.encode()
    (there / "sluice.toml").write_text(text)
    return there
