"""The classes of Spark's JVM are archived before there is a job."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from config.model import Settings
from streaming.driver.starting import archiving
from tests.support.documents import HOME
from tests.support.patience import PATIENCE_S

WRITE = """
import sys
from pathlib import Path
from config.model import Settings
from streaming.driver import session
from streaming.driver.starting import archiving
session.EXIT_TIMEOUT_S = float(sys.argv[2])  # a busy machine writes slowly
archiving.write(Settings(), Path(sys.argv[1]))
"""


def test_a_jvm_archives_its_classes_for_the_first_job(tmp_path: Path) -> None:
    """In a process of its own: one process has one JVM."""
    jars = tmp_path / "jars"
    assert not archiving.is_due(Settings(), jars)  # there are no jars
    shutil.copytree(HOME / "jars" / "spark", jars, ignore=shutil.ignore_patterns("classes*"))
    assert archiving.is_due(Settings(), jars)
    assert not archiving.is_due(Settings.model_validate({"spark": {"master": "spark://host:7077"}}), jars)
    command = [sys.executable, "-c", WRITE, str(jars), str(PATIENCE_S)]
    subprocess.run(command, cwd=HOME, check=True, timeout=PATIENCE_S)
    assert not archiving.is_due(Settings(), jars)
    [archive] = jars.glob("classes*")
    assert archive.suffix == ".jsa"
