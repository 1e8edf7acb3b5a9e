"""Give batches to the pipeline one at a time, wait between two while there is nothing to read, and stop between two."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from streaming.driver.pipeline import Pipeline
from streaming.errors import SparkFailed
from streaming.log import logger

log = logger("sluice.job")

ASK_EVERY_S = 0.02  # where the topics end, after a batch
SAY_AFTER_S = 5.0  # what a stop waits for
WAIT_FOR_A_BATCH_S = 1.0  # before the main thread looks after the rest again
ABANDONED_S = 60.0  # for a batch when the job ends with an error
WITHOUT_WAITING = "a second signal ends the job at once; the next start repeats the uncommitted batch"


class SparkBatches:
    """Spark's callback: runs the pipeline, keeps the exception that broke it, and can stop between two batches.

    It returns when there is more to read. Spark without a batch fetches offsets every few milliseconds and takes a
    tenth of a core; waiting in here takes a hundredth.
    """

    def __init__(self, pipeline: Pipeline, at_the_end: Callable[[int], bool] = lambda number: False) -> None:
        """`at_the_end` returns whether there is nothing to read behind the batch of a number."""
        self._pipeline = pipeline
        self._at_the_end = at_the_end
        self._turn = threading.Lock()
        self._finished = False
        self.failure: BaseException | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        self._take(batch, number)
        while not self._finished:
            with self._keeping():
                if not self._at_the_end(number):
                    return
            time.sleep(ASK_EVERY_S)
            with self._turn:
                self._rest()

    def _take(self, batch: Any, number: int) -> None:
        """Process one batch. Raises InterruptedError if it was rejected."""
        with self._turn:
            if self._finished:  # a return would mean to Spark that the batch is done
                raise InterruptedError("the job is stopping")
            gc.disable()  # the rows and records of a batch are many objects, and none of them in a cycle
            try:
                with self._keeping():
                    self._pipeline(batch, number)
            finally:
                gc.enable()

    def _rest(self) -> None:
        """Do the work between two batches."""
        with self._keeping():
            self._pipeline.rest()

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Keep an error, which Spark would report as text; not the interruption of a wait by the end of the query."""
        try:
            yield
        except BaseException as error:
            if not self._finished:
                self.failure = error
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the next batch until the end of the block; if the block raises, for ever."""
        with self._turn:
            try:
                yield
            except BaseException:
                self._finished = True
                raise

    def between(self, work: Callable[[], object]) -> bool:
        """Do some work between two batches; False if a batch is in hand."""
        if not self._turn.acquire(timeout=WAIT_FOR_A_BATCH_S):
            return False
        try:
            work()
        finally:
            self._turn.release()
        return True

    def ended(self, query: StreamingQuery) -> bool:
        """Stop the query between two batches, so that another one goes on; False if a batch is in hand. Raises the
        error of the pipeline."""
        if not self._turn.acquire(timeout=WAIT_FOR_A_BATCH_S):
            return False
        self._finished = True
        self._turn.release()
        with suppress(StreamingQueryException):
            query.stop()
        if self.failure is not None:
            raise self.failure
        return True

    def end(self, query: StreamingQuery, by_request: bool) -> None:
        """Stop the query after the current batch, or report why it stopped. Raises the error of the pipeline, and
        SparkFailed if nobody stopped the query."""
        if by_request:
            self._reject()
            with suppress(StreamingQueryException):
                query.stop()
            self._pipeline.deleted.count(at_once=True)  # the next job begins behind these gaps
        if self.failure is not None:
            raise self.failure
        if not by_request:
            raise SparkFailed(f"Spark stopped the query: {reason(query.exception())}")

    def abandon(self) -> None:
        """Let no further batch begin, and wait for the current one, though not for ever. Call before an error ends the
        job: a batch uses what the job then closes."""
        self._finished = True
        if self._turn.acquire(timeout=ABANDONED_S):
            self._turn.release()

    def _reject(self) -> None:
        """Wait for the current batch and reject all further ones."""
        if not self._turn.acquire(timeout=SAY_AFTER_S):
            log.warning("batch_awaited", hint=WITHOUT_WAITING)
            self._turn.acquire()
        self._finished = True
        self._turn.release()


def reason(error: StreamingQueryException | None) -> str:
    """Why Spark stopped a query, without the plan of the query."""
    return str(error).partition("\n=== ")[0]
