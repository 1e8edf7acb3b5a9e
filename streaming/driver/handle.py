"""Run the job in another program's session, in a thread of its own: `streaming.start`."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from streaming.driver import launch, session
from streaming.monitoring import status
from streaming.monitoring.monitor import Monitor

if TYPE_CHECKING:
    from config.model import Settings


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

    def stop(self) -> None:
        """Stop after the current batch, save the state, and wait for both. Raises the error that ended the job."""
        self._stop.set()
        self._ended.result()

    def status(self) -> dict[str, Any]:
        """What `/status.json` says (`streaming/monitoring/status.py`): phase, health, state, rates, latencies, lag."""
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
            launch.run(settings, opens, self._stop, uuid.uuid4().hex, running=self._running.set_result)
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)


def start(spark: SparkSession, settings: Settings) -> Handle:
    """Start the job in this session; returns when it runs. Raises JobError if it cannot."""
    return Handle(spark, settings)
