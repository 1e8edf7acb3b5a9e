"""A standalone Spark cluster on this machine: a master and some workers, each with a core and a gigabyte."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pyspark

from matchers.flat_file import MAGIC
from rig.broker import LOOPBACK, free_port
from rig.processes import Process, below, ended, kill
from streaming.errors import JobError
from streaming.process.child import die_with_parent
from streaming.process.code_archive import NAME
from streaming.process.java import java
from tests.support.patience import PATIENCE_S

WORKERS = 2
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # up in half the time, as a job's own JVM
SCALA = "2.13"
TAKEN = ("PATH", "JAVA_HOME", "LANG")  # of our environment
CLASS = "org.apache.spark.deploy"
FINISHED = re.compile(r"Finished task (\d+)\.0 in stage (\d+)\.0 ")


class SparkCluster:
    """`with SparkCluster(directory) as cluster: cluster.master`; it ends with us.

    It works in `directory` and knows neither our environment nor where the repository is.
    """

    def __init__(self, directory: Path, workers: int = WORKERS) -> None:
        self._directory = directory
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://{LOOPBACK}:{free_port()}"
        self.flags = {
            "spark.options.spark.executor.memory": "600m",
            "spark.options.spark.executor.cores": "1",
            "spark.options.spark.executor.extraJavaOptions": " ".join(JVM),
            "spark.options.spark.cores.max": str(workers),
            "spark.options.spark.driver.host": LOOPBACK,
            "spark.options.spark.driver.bindAddress": LOOPBACK,
        }

    def __enter__(self) -> SparkCluster:
        self._directory.mkdir(parents=True)
        host, _, port = self.master.removeprefix("spark://").partition(":")
        try:
            self._start("master.Master", "--host", host, "--port", port, "--webui-port", str(free_port()))
            self._await("master.Master", "I have been elected leader")
            for number in range(self._workers):
                ports = ("--port", str(free_port()), "--webui-port", str(free_port()))
                work = ("--work-dir", str(self._directory / f"work{number}"))
                self._start(
                    "worker.Worker", "--host", host, *ports, *work, "--cores", "1", "--memory", "1g", self.master
                )
            self._await("worker.Worker", "Successfully registered with master", self._workers)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        executors = self.executors()
        for process in self._processes:
            process.kill()
            process.wait()
        kill(executors)
        ended(executors, PATIENCE_S)

    def executors(self) -> list[Process]:
        """The JVMs that run tasks, and the Python workers of each."""
        return [process for worker in self._processes[1:] for process in below(worker.pid)]

    def finished_tasks(self) -> list[set[tuple[int, int]]]:
        """Return the tasks that each worker's executors have finished, as (stage, number of the task in it)."""
        return [
            {
                (int(stage), int(task))
                for log in work.glob("*/*/stderr")
                for task, stage in FINISHED.findall(log.read_text(errors="replace"))
            }
            for work in (self._directory / f"work{number}" for number in range(self._workers))
        ]

    def is_at_work(self, jvm: Process) -> bool:
        """Return whether an executor has a task, by its log."""
        with contextlib.suppress(FileNotFoundError):
            log = Path("/proc", str(jvm.pid), "cwd", "stderr").read_text(errors="replace")
            return log.count("Running task ") > log.count("Finished task ")
        return False

    def kernels(self) -> list[set[str]]:
        """The compiled ones that lie with the code of each executor."""
        return [{file.name for file in code.rglob("*.nbc")} for code in self._directory.glob(f"work*/*/*/{NAME}")]

    def fetched(self) -> set[str]:
        """Files of the state that executors have brought from a file system."""
        return {file.name for file in self._directory.glob("work*/*/*/part-*")}

    def mapped(self) -> set[str]:
        """Files of the state that executors have from the driver."""
        found = set()
        for file in (self._directory / "local").rglob("broadcast_*_python"):
            with contextlib.suppress(FileNotFoundError), file.open("rb") as content:
                if content.read(len(MAGIC)) == MAGIC:
                    found.add(file.name)
        return found

    def _start(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [java(), "-Xmx256m", *JVM, "-cp", str(home / "jars" / "*")]
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, f"{CLASS}.{name}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._directory,
                env={
                    **{name: os.environ[name] for name in TAKEN if name in os.environ},
                    "HOME": str(self._directory),
                    "SPARK_LOCAL_DIRS": str(self._directory / "local"),
                    "SPARK_HOME": str(home),  # for its executors, as the next
                    "SPARK_SCALA_VERSION": SCALA,
                },
                preexec_fn=die_with_parent,
            )
        self._processes.append(process)

    def _await(self, name: str, line: str, times: int = 1) -> None:
        log = self._directory / f"{name}.log"
        deadline = time.monotonic() + PATIENCE_S
        while log.read_text(errors="replace").count(line) < times:
            if time.monotonic() > deadline or any(p.poll() is not None for p in self._processes):
                raise JobError(f"Spark's {name} did not start:\n{log.read_text(errors='replace')[-3_000:]}")
            time.sleep(0.1)
