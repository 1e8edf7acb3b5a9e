"""Fetch the pinned jars, with the Ivy that PySpark ships."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from streaming.errors import JobError
from streaming.process.java import java

FETCH = "`make setup`, or `sluice jars` if pip has installed Sluice"  # the command to run
ERROR_LINES = 20  # of Ivy's output, without stack traces


class JarSet(NamedTuple):
    pins: str  # a file of Ivy, in `config`
    directories: tuple[str, ...]  # in `jars`, each with the jars of the configuration of that name


SetName = Literal["job", "s3", "rivals"]
SETS: dict[SetName, JarSet] = {
    "job": JarSet("ivy.xml", ("spark", "broker")),
    "s3": JarSet("s3.xml", ("s3",)),
    "rivals": JarSet("rivals.xml", ("kafka-streams", "flink")),
}


def pinned(pins: Path) -> Iterator[tuple[str, str]]:
    """The directory and the file name of each jar that a file of Ivy pins."""
    (dependencies,) = ElementTree.parse(pins).getroot().iter("dependencies")
    default = dependencies.attrib["defaultconf"]
    for dependency in dependencies.iter("dependency"):
        directory = dependency.attrib.get("conf", default).split("->")[0]
        yield directory, f"{dependency.attrib['name']}-{dependency.attrib['rev']}.jar"


def fetch(chosen: JarSet, config: Path, jars: Path) -> None:
    """Replace the directories of a set by what its file in `config` pins. On an error they stay as they are.

    Raises JobError if there is no Java or no PySpark, or if Ivy fails.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JobError(
            "PySpark, whose Ivy fetches the jars, is missing; install it with: pip install 'sluice-pubsub[job]'"
        )
    (ivy,) = Path(pyspark.origin).parent.glob("jars/ivy-*.jar")
    try:
        jars.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetched-", dir=jars) as name:
            fetched = Path(name)
            options = {
                "-settings": str(config / "ivysettings.xml"),
                "-ivy": str(config / chosen.pins),
                "-retrieve": f"{fetched}/[conf]/[artifact]-[revision].[ext]",
            }
            flags = [word for option in options.items() for word in option]
            command = [java(), "-jar", str(ivy), *flags, "-types", "jar", "bundle", "-confs", *chosen.directories]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                reasons = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("\tat ")]
                raise JobError("\n".join(["Ivy could not fetch the jars:", *reasons[-ERROR_LINES:]]))
            for directory in chosen.directories:
                shutil.rmtree(jars / directory, ignore_errors=True)
                (fetched / directory).rename(jars / directory)
    except OSError as error:
        raise JobError(f"cannot write jars into {jars}: {error.strerror}") from error
