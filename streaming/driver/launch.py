"""Run the job, as a process or in another program's session (`streaming.start`): its code loads while Spark starts."""

from __future__ import annotations

import errno
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from streaming.driver import session
from streaming.driver.starting.beside import beside
from streaming.errors import JobError, ProcessLost, SparkFailed, StorageFailed
from streaming.process import checkpoint
from streaming.process.supervision import SCARCE, RestartHistory

if TYPE_CHECKING:
    from config.model import Settings
    from streaming.monitoring.monitor import Monitor

T = TypeVar("T")

Opens = Callable[[Path], AbstractContextManager[SparkSession]]  # a session, given a directory for temporary files
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOENT)  # of a disk


def run(
    settings: Settings,
    opens: Opens,
    stop: threading.Event,
    lineage: str,
    past: RestartHistory | None = None,
    running: Callable[[Monitor], None] = lambda monitor: None,
    *,
    stands_by: bool = False,
    give_up: Callable[[], object] = lambda: None,
) -> None:
    """Run until `stop` is set and the current batch is done. Raises JobError, or the error that broke the query.

    `opens` is called once this process may start; what it returns opens the session (`session.own`,
    `session.submitted`, `session.borrowed`), in a thread. `give_up` ends that early (`session.end_jvm`), so that a job
    that cannot start does not wait for Spark. `past` is the history from a supervisor; None without one. Jobs of one
    `lineage` follow each other, each because the last one ended: if another job took over meanwhile, it keeps the
    checkpoint. `running` is called once, when the job processes batches. While another job runs on the checkpoint, one
    that `stands_by` prepares everything and waits for its end.
    """
    location = settings.query.checkpoint
    began = time.monotonic()
    try:
        with checkpoint.opened(location, settings.query.name, stands_by=stands_by) as lock:
            if lock is not None and not lock.reserve(stop):
                return
            waits = lock is not None and not lock.held

            def started(monitor: Monitor) -> None:
                if lock is not None:
                    lock.started()
                running(monitor)

            with (
                lock.watched() if lock is not None and waits else nullcontext(),
                checkpoint.scratch(location, stands_by=waits) as scratch,
                beside(opens(scratch), give_up) as spark,
            ):
                from streaming.driver import job  # its imports take a second, in which Spark's JVM starts

                first = job.JobRun(
                    settings=settings,
                    session=spark,
                    stop=stop,
                    lineage=lineage,
                    past=past,
                    running=started,
                    spark_checkpoint=checkpoint.spark(location, scratch),
                    scratch=scratch,
                    began=began,
                    has_standby=stands_by,
                )
                run = first.stand_by(lock) if lock is not None and waits else first
                if run is not None:
                    run.run()
    except BrokenExecutor as error:
        raise ProcessLost(
            f"a background process (loading, compaction) was killed, often for lack of memory: {error}"
        ) from error
    except MemoryError as error:  # here, or in such a process
        raise ProcessLost(f"the job has no memory left: {error!r}") from error
    except Py4JJavaError as error:  # an answer of the JVM, which runs
        raise SparkFailed(f"Spark failed: {error.java_exception.toString()}") from error
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(f"Spark's JVM has ended: {error}") from error
    except OSError as error:
        if error.errno in SCARCE:
            raise ProcessLost(f"the system has no process, memory or file descriptor for the job: {error}") from error
        if error.errno not in DISK_ERRORS and not checkpoint.obstacle(settings.query.checkpoint):
            raise
        raise StorageFailed(checkpoint.failure(error, settings.query.checkpoint)) from error
    except JobError:
        raise
    except Exception as error:  # PySpark reports the end of its JVM in many ways
        if (code := session.exit_code(error)) is None:
            raise
        raise SparkFailed(f"Spark's JVM has ended (exit code {code}): {error}") from error


class Handle:
    """A running job. Made by `start`."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._stop = threading.Event()
        self._running: Future[Monitor] = Future()
        self._ended: Future[None] = Future()
        self._thread = InheritableThread(target=self._run, args=(spark, settings), name="sluice-job", daemon=True)
        self._thread.start()
        either: list[Future[Any]] = [self._running, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if not self._running.done():
            self._ended.result()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop after the current batch, save the state, and wait for both, at most so long; returns whether it has
        ended. If not, it goes on stopping, and another call waits for it.

        To end it at once, end the process: the next start repeats the uncommitted batch. Raises the error that ended
        the job.
        """
        self._stop.set()
        return self.await_termination(timeout_s)

    def status(self) -> dict[str, Any]:
        """Return the document of `/status.json` (`streaming/monitoring/status.py`): phase, health, state, rates,
        latencies, lag."""
        from streaming.monitoring import status

        return status.document(self._running.result().view())

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended, at most so long; returns whether it has. Raises the error that ended it."""
        wait([self._ended], timeout_s)
        if not self._ended.done():
            return False
        self._ended.result()
        return True

    def _run(self, spark: SparkSession, settings: Settings) -> None:
        opens = partial(session.borrowed, spark)
        try:
            run(settings, opens, self._stop, uuid.uuid4().hex, running=self._running.set_result)
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)


def start(spark: SparkSession, settings: Settings) -> Handle:
    """Start the job in this session; returns when it runs. Raises JobError if it cannot."""
    return Handle(spark, settings)
