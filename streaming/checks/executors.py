"""Check a Spark cluster's executors: reachable, and with the packages that tasks need."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.checks import FAILURE, OK, WARNING, Finding
from streaming.errors import JobError
from streaming.worker.interpreter import MEND, ask

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
            mend = "is spark.master right, and has the cluster a core and memory left?"
            yield Finding(WHAT, FAILURE, str(error).partition(f". {MEND}")[0], MEND if MEND in str(error) else mend)
            return
    if problem := interpreter.problem():
        yield Finding(WHAT, FAILURE, problem, MEND)
    elif others := interpreter.others():
        yield Finding(WHAT, WARNING, f"executor on {interpreter.host}: {', '.join(others)}", MEND)
    else:
        versions = ", ".join(f"{name} {version}" for name, version in interpreter.versions.items())
        text = f"executor on {interpreter.host}: {interpreter.program} (Python {interpreter.python}), {versions}"
        yield Finding(WHAT, OK, text)
