"""Run the job where there is no checkout: from a directory that has the archive, with an environment without ours."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rig.processes import below
from tests.integration.conftest import CommandLine
from tests.integration.running import Job
from tests.support.patience import PATIENCE_S

MORE = 9_000  # subscriptions, more than move between parts without a file
OURS = ("SLUICE_", "PYTHONPATH", "NUMBA_CACHE_DIR")  # of the environment, which no cluster has

PROGRAM = """
import json, logging, sys
from pyspark.sql import SparkSession
import streaming
from config import load

if __name__ == "__main__":
    master, settings, jars = sys.argv[1:]
    needed = streaming.spark_defaults(master)
    del needed["spark.sql.shuffle.partitions"]
    builder = SparkSession.builder.master(master).config(map=needed).config("spark.driver.extraClassPath", jars)
    spark = builder.getOrCreate()
    logged = []
    logging.getLogger("sluice.state").setLevel("INFO")
    logging.getLogger("sluice.state").addFilter(lambda record: logged.append(record.getMessage()))
    handle = streaming.start(spark, load(settings))
    print(json.dumps(handle.status()["job"]), flush=True)
    sys.stdin.readline()
    ended = handle.stop(timeout_s=300) and handle.await_termination(0)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    found = {"rows": spark.range(7).count(), "ended": ended, "partitions": partitions, "restored": logged[0]}
    print(json.dumps(found))
    spark.stop()
"""


class Elsewhere(CommandLine):
    """Runs in a directory of its own, with an environment that says nothing of us, as `arguments` say."""

    def __init__(self, sluice: CommandLine, directory: Path, *words: str) -> None:
        self.name = sluice.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        self.temporary = directory / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.environment |= {"PYSPARK_PYTHON": sys.executable, "HOME": str(directory), "TMPDIR": str(self.temporary)}
        self._words = ["env", "-C", str(directory), *words]

    def command(self, *arguments: str) -> list[str]:
        return [*self._words, *arguments]


def as_toml(flags: Mapping[str, str]) -> str:
    """A file of settings, given by their dotted names."""
    sections: dict[str, dict[str, str]] = {}
    for name, value in flags.items():
        section, key = name.split(".")
        sections.setdefault(section, {})[key] = value
    return "".join(
        f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        for section, keys in sections.items()
    )


def asked(ui: int, path: str = "") -> Any:
    """Return the answer of Spark's UI about applications."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ui}/api/v1/applications{path}", timeout=PATIENCE_S) as answer:
        return json.load(answer)


def python_of(running: Job) -> int:
    """The process of the driver's Python, which spark-submit has started."""
    return next(p.pid for p in below(running.process.pid) if "run_stream.py" in p.command and "java" not in p.command)
