"""Check a Spark cluster's executors: reachable, and with the packages that tasks need."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.checks import FAILURE, OK, WARNING, Finding
from streaming.errors import JobError
from streaming.worker.interpreter import REMEDY, ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "executors"
TIMEOUT_S = 60.0


def findings(opens: Callable[[Path], AbstractContextManager[SparkSession]]) -> Iterator[Finding]:
    """Check one executor of the session that `opens` opens, given a directory for temporary files."""
    from py4j.protocol import Py4JError

    with tempfile.TemporaryDirectory(prefix="sluice-doctor-") as scratch:
        try:
            with opens(Path(scratch)) as spark:
                interpreter = ask(spark.sparkContext, TIMEOUT_S)
        except (JobError, Py4JError) as error:
            remedy = "Correct spark.master, or free a core and memory on the cluster."
            yield Finding(
                WHAT, FAILURE, str(error).partition(f". {REMEDY}")[0], REMEDY if REMEDY in str(error) else remedy
            )
            return
    if problem := interpreter.problem():
        yield Finding(WHAT, FAILURE, problem, REMEDY)
    elif others := interpreter.others():
        yield Finding(WHAT, WARNING, f"executor on {interpreter.host}: {', '.join(others)}", REMEDY)
    else:
        versions = ", ".join(f"{name} {version}" for name, version in interpreter.versions.items())
        text = f"executor on {interpreter.host}: {interpreter.program} (Python {interpreter.python}), {versions}"
        yield Finding(WHAT, OK, text)
