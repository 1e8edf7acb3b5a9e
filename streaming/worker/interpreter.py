"""The Python interpreter of Spark's executors: its packages, checked before any task needs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from streaming.errors import JobError
from streaming.log import error_fields, logger
from streaming.worker.executor import on_cluster

log = logger("sluice.job")

PACKAGES = {  # module -> distribution: what every task imports
    "numpy": "numpy",
    "numba": "numba",
    "pyarrow": "pyarrow",
    "kafka": "kafka-python",
    "orjson": "orjson",
}
# Spark starts it, not PySpark's worker, which would need some of the packages itself. It runs with any Python 3.
SCRIPT = """
import importlib, json, socket, sys
sys.stdin.read()
versions, lacking = {}, {}
for module, name in json.loads(sys.argv[1]).items():
    try:
        versions[name] = importlib.import_module(module).__version__
    except Exception as error:
        lacking[name] = "%s: %s" % (type(error).__name__, error)
python = sys.version.split()[0]
print(json.dumps({"host": socket.gethostname(), "python": python, "versions": versions, "lacking": lacking}))
"""
NOT_STARTED = re.compile(r"\([^() ]+ executor [^()]*\): [\w.]*IOException: (Cannot run program .*)")
EXITED = "Subprocess exited with status"
WHERE = re.compile(r"\(TID \d+\) \((\S+) executor")
REMEDY = (
    "Install the packages of requirements.lock on every host, in the driver's version of Python, or ship them with "
    "spark.archives = packages.tar.gz#packages (deploy/yarn). Select the interpreter with spark.pyspark.python "
    "(spark-submit, spark.options), or with the variable PYSPARK_PYTHON in a program that creates its own session."
)


@dataclass(frozen=True)
class Interpreter:
    """The Python of one executor."""

    host: str
    program: str
    python: str  # its version
    versions: Mapping[str, str]  # by package
    lacking: Mapping[str, str]  # package -> why it cannot be imported

    def problem(self) -> str:
        """Why tasks cannot run there, or ""."""
        ours = sys.version.split()[0]
        where = f"executor on {self.host}: {self.program} (Python {self.python})"
        if self.lacking:
            return f"{where} lacks {', '.join(f'{name} ({why})' for name, why in self.lacking.items())}"
        if self.python.split(".")[:2] != ours.split(".")[:2]:
            return f"{where} is not of the driver's version {ours}"
        return ""

    def others(self) -> list[str]:
        """The packages that have another version than the driver's."""
        ours = {name: str(import_module(module).__version__) for module, name in PACKAGES.items()}
        return [f"{name} {v}, the driver's is {ours[name]}" for name, v in self.versions.items() if v != ours[name]]


def is_ours(context: SparkContext) -> bool:
    """Whether executors run on this host with this very interpreter."""
    python = shutil.which(context.pythonExec) or ""
    return not on_cluster(context.master) and os.path.abspath(python) == os.path.abspath(sys.executable)


def check(context: SparkContext) -> None:
    """Raises JobError if an executor's interpreter cannot run tasks. Logs packages of other versions."""
    try:
        interpreter = ask(context)
    except Py4JJavaError as error:  # the executor was lost: another will do
        log.warning("executor_packages_unknown", **error_fields(error, str(error.java_exception.toString())))
        return
    if problem := interpreter.problem():
        raise JobError(f"{problem}. {REMEDY}")
    if others := interpreter.others():
        log.warning("executor_packages_differ", host=interpreter.host, packages=others)


def ask(context: SparkContext, timeout_s: float | None = None) -> Interpreter:
    """Ask one executor, as soon as there is one. Costs one Spark job and one start of the interpreter.

    Raises JobError if the executor cannot start the interpreter, or, with `timeout_s`, if none answers in time, and
    py4j's error if the executor is lost meanwhile.
    """
    jvm: Any = context._jvm
    program = context.pythonExec
    command = [program, "-c", SCRIPT, json.dumps(PACKAGES)]
    context.setJobDescription("packages of an executor")
    try:
        answer = context._jsc.parallelize([""], 1).pipe(command).collectAsync()
        if timeout_s is None:
            (line,) = answer.get()
        else:
            (line,) = answer.get(int(1000 * timeout_s), jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString()) + str(error)
        if "TimeoutException" in text:
            answer.cancel(True)
            raise JobError(f"no executor answered within {timeout_s:g} s") from error
        host = found[1] if (found := WHERE.search(text)) else "?"
        if not_started := NOT_STARTED.search(text):
            raise JobError(f"executor on {host}: {not_started[1]}. {REMEDY}") from error
        if EXITED in text:
            raise JobError(f"executor on {host}: {program} is not Python 3. {REMEDY}") from error
        raise
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type]  # of PySpark: it takes None
    return Interpreter(program=program, **json.loads(line))
