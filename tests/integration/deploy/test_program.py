"""A job in a program's own session: the example of docs/how-to/spark-submit.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streaming.process import code_archive
from tests.integration.conftest import HOME, CommandLine
from tests.integration.deploy.elsewhere import Elsewhere, as_toml
from tests.integration.running import lines, records, subscription
from tests.support.patience import PATIENCE_S

EXAMPLE = re.search(
    r"## A session of your own\n.*?```python\n(.*?)```",
    (HOME / "docs" / "how-to" / "spark-submit.md").read_text(),
    re.DOTALL,
)


@pytest.fixture
def directory(tmp_path: Path, sluice: CommandLine) -> Path:
    """Return a directory with the archive, the jars and the settings, and without a checkout."""
    there = tmp_path / "there"
    there.mkdir()
    code_archive.make(HOME, there / "sluice.zip")
    (there / "jars").symlink_to(HOME / "jars")
    (there / "sluice.toml").write_text(as_toml(sluice.flags()))
    return there


@contextmanager
def running(sluice: CommandLine, directory: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    (directory / "program.py").write_text(text)
    program = Elsewhere(sluice, directory, sys.executable)
    program.environment["PYTHONPATH"] = "sluice.zip"
    del program.environment["PYSPARK_PYTHON"]
    command = program.command("program.py")
    with subprocess.Popen(command, env=program.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def example() -> str:
    assert EXAMPLE is not None
    return EXAMPLE[1]


def test_the_example_of_the_document_runs_where_there_is_no_checkout(
    sluice: CommandLine, kafka: str, directory: Path
) -> None:
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("s1", "alice", x=[1])))
    with running(sluice, directory, example()) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("{'version': 1, 'subscriptions': 1,")
        sluice("produce", stdin=lines({"x": 1}, {"x": 2}))
        assert [record.value for record in records(kafka, f"{sluice.name}.to.alice", least=1)] == [b'{"x": 1}']


TWO_JOBS_OF_A_SESSION = """
import sys
from pathlib import Path
from streaming.driver import job, session

job.dry_run.match = lambda state, settings: None
job.publishing.compile = lambda: None
context = session.start("test", "local[1]", {}, Path("jars/spark"), Path(sys.argv[1])).sparkContext
for _ in range(2):
    job._bring(context, None, None)
archives = [Path(archive.removeprefix("file:")) for archive in context.listArchives]
print([archive.name for archive in archives], Path(context._temp_dir, "sluice-code.zip").exists())
context.stop()
"""


def test_the_second_job_of_a_session_uses_the_archive_of_the_first() -> None:
    with TemporaryDirectory() as scratch:  # the path of a socket may be only so long
        command = [sys.executable, "-c", TWO_JOBS_OF_A_SESSION, scratch]
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "['sluice-code.zip#sluice-code'] True\n"), done.stderr
