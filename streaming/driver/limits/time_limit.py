"""Cancel a Spark job that takes far longer than it should: then a worker hangs, and Spark would wait for ever."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext

from streaming.log import logger

log = logger("sluice.batch")

LIMIT_FACTOR = 10  # of the longest of the last jobs
REMEMBERED_JOBS = 100
# While there is no job to compare with. Less than `monitoring.stalled_after_s`: whoever restarts the job then must not
# come before it has found the event that makes its tasks hang.
FIRST_S = 240.0


class Cancelling(Protocol):
    """Cancels a job: `begin` and `end` enclose it, in the thread that starts it; `cancel` ends it, from another."""

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def cancel(self) -> None: ...


class TaggedJobs:
    """The jobs that have our tag. Spark kills the Python workers of their tasks two to four seconds after `cancel`."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._tag = f"sluice-{uuid.uuid4().hex}"

    def begin(self) -> None:
        self._context.addJobTag(self._tag)

    def end(self) -> None:
        self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        with suppress(Py4JError, ConnectionError):  # of a JVM that has ended: the job has, too
            self._context.cancelJobsWithTag(self._tag)


@dataclass
class TimeLimit:
    """The time that the tasks of a batch may take: LIMIT_FACTOR times the longest of the last REMEMBERED_JOBS, and at
    least `least_s`.

    Cancelling too early costs time, nothing more: committed transactions stay, and the rest is matched again.
    """

    jobs: Cancelling
    least_s: float
    first_s: float = FIRST_S
    _took_s: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_JOBS), init=False)

    def seconds(self) -> float:
        return max(self.least_s, LIMIT_FACTOR * max(self._took_s) if self._took_s else self.first_s)

    @contextmanager
    def watched(self) -> Iterator[threading.Event]:
        """Cancel the job of this block if it takes too long, and set the event then."""
        limit_s, began = self.seconds(), time.monotonic()
        cancelled, lock = threading.Event(), threading.Lock()
        running = True

        def cancel() -> None:
            with lock:  # or it could end the next job
                if running:
                    log.warning("workers_hung", duration_s=round(time.monotonic() - began, 1))
                    cancelled.set()
                    self.jobs.cancel()

        timer = threading.Timer(limit_s, cancel)
        timer.daemon = True
        self.jobs.begin()
        timer.start()
        try:
            yield cancelled
            self._took_s.append(time.monotonic() - began)
        finally:
            timer.cancel()
            with lock:
                running = False
            with suppress(Py4JError, ConnectionError):  # or it would hide why the JVM has ended
                self.jobs.end()
