"""One Spark JVM for the jobs of many tests, one job at a time.

Most of the processor time of a job's start goes to its JVM: to load classes, and to run code that is not compiled yet.
A job connects to a running JVM where its environment names one (`forked`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from py4j.clientserver import ClientServer
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from streaming.driver.session import LOCAL, LOG, TUNING, class_archive
from tests.integration import forked
from tests.support.patience import PATIENCE_S

JARS = Path(__file__).resolve().parents[2] / "jars" / "spark"


@dataclass(frozen=True)
class Jvm:
    """A running one; its standard streams go to a file."""

    gateway: ClientServer
    environment: Mapping[str, str]  # of the jobs that use it
    directory: Path  # for its temporary files

    @classmethod
    def start(cls) -> Jvm:
        """Start a JVM with the options that a local job passes on the command line; all other settings come with the
        job."""
        directory = Path(tempfile.mkdtemp(prefix="sluice-jvm-"))
        options = f"-Djava.io.tmpdir={directory} -Dlog4j2.configurationFile={LOG.as_uri()}"
        ours = {
            "spark.driver.memory": TUNING["spark.driver.memory"],
            "spark.driver.extraJavaOptions": LOCAL["spark.driver.extraJavaOptions"],
            "spark.driver.defaultJavaOptions": " ".join([options, *class_archive(JARS).used_or_written()]),
            "spark.driver.extraClassPath": str(JARS / "*"),
        }
        os.environ["SPARK_LOCAL_DIRS"] = str(directory)  # Spark remembers the first job's for the life of the JVM
        try:
            with (directory / "log").open("wb") as log:
                conf = SparkConf(False).setAll(list(ours.items()))
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # of PySpark
        finally:
            del os.environ["SPARK_LOCAL_DIRS"]
        parameters = gateway.gateway_parameters
        environment = {
            forked.PORT: str(parameters.port),
            forked.SECRET: parameters.auth_token,
        }
        return cls(gateway, environment, directory)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return cast("subprocess.Popen[bytes]", self.gateway.proc)

    def lines(self, since: int = 0) -> list[str]:
        """Return the lines of its standard streams, after the first `since`."""
        with (self.directory / "log").open(errors="replace") as log:
            return log.readlines()[since:]

    def busy(self) -> bool:
        """Whether it has the context of a job, as it has still when the job was killed; or it has ended itself."""
        if self.process.poll() is not None:
            return True
        contexts = getattr(getattr(self.gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        return bool(contexts.getActive().isDefined())

    def end(self, orderly: bool) -> None:
        self.gateway.close()
        cast(BinaryIO, self.process.stdin).close()  # it ends when this does
        if not orderly:
            self.process.kill()
        try:
            self.process.wait(PATIENCE_S)
            class_archive(JARS).keep()
        finally:
            self.process.kill()
            shutil.rmtree(self.directory, ignore_errors=True)


class Shared:
    """The JVM that this process has for its jobs: started when it is first needed."""

    def __init__(self) -> None:
        self._idle: Jvm | None = None

    @contextmanager
    def lent(self) -> Iterator[Jvm]:
        """A JVM for one job. It is ended, and the next job gets another, if the job left its context in it."""
        jvm, self._idle = self._idle or Jvm.start(), None
        try:
            yield jvm
        finally:
            if self._idle is not None or jvm.busy():  # there is an idle one if two jobs ran at the same time
                jvm.end(orderly=False)
            else:
                self._idle = jvm

    def end(self) -> None:
        if self._idle is not None:
            self._idle.end(orderly=True)
        self._idle = None


SHARED = Shared()
