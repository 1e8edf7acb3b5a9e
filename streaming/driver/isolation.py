"""Halve a batch that kills workers until the rows that cause it are found.

A worker can die of what it is given: an event can bring down the process that reads it, and what very many events
match can be more than it has memory for. It can also die of something else, so the whole is tried again first. Then the
batch is halved, and halved again, until everything is done but the single rows that no worker survives in three tries,
nor in a last one after an empty batch. Where workers hang, an empty batch comes before each halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from matchers.contract.tables import Int64
from streaming.errors import of_worker
from streaming.log import error_fields, logger

log = logger("sluice.batch")

PIECE_TRIES = 3
PIECE_BYTES = 64 << 20  # keys and values

# Only the text of an exception shows what happened in Spark. After these another try would fail as well.
TOO_MUCH = (
    "MemoryError",
    "spark.driver.maxResultSize",
    "java.lang.OutOfMemoryError",
    "SparkOutOfMemoryError",
    "capacity error",
)
RAISED = "Traceback (most recent call last)"  # by our code

Batch = TypeVar("Batch")
Row = TypeVar("Row")


class WorkersLost(Exception):
    """Raised where the workers died on the rows, or `hung` until they were killed. `again`: another try may succeed."""

    def __init__(self, reason: str, again: bool, hung: bool = False) -> None:
        super().__init__(reason)
        self.again = again
        self.hung = hung


def workers_lost(trace: str) -> WorkersLost | None:
    """The reason why a Spark job lost its workers; None if our own code raised an exception."""
    for sign in TOO_MUCH:
        if sign in trace:
            return WorkersLost(sign, again=False)
    return None if RAISED in trace else WorkersLost(_said(trace), again=True)


def failure(error: Exception) -> Exception:
    """Why a job of Spark failed: our own error, the loss of workers, or `error` itself."""
    return of_worker(str(error)) or workers_lost(str(error)) or error


def workers_hung() -> WorkersLost:
    """The error of a job that was cancelled because it took too long."""
    return WorkersLost("workers did not answer in time and were killed", again=True, hung=True)


def _said(trace: str) -> str:
    """The innermost cause, without its stack."""
    causes = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    return (causes or trace.splitlines() or ["no reason given"])[-1][:500]


@dataclass(frozen=True)
class Isolation(Generic[Batch, Row]):
    """Match rows piece by piece, and set aside each row that kills the workers.

    `match` raises WorkersLost. `places` are int64[rows, 4], each (source, partition, offset, bytes) in the order of its
    columns; `only` cuts the batch down to a contiguous range; `aside` turns a row that kills every worker into a dead
    letter with the reason.
    """

    match: Callable[[Batch], list[Row]]
    places: Callable[[Batch], Int64]
    only: Callable[[Batch, Int64], Batch]
    aside: Callable[[Batch, str], list[Row]]

    def pieces(self, batch: Batch, careful: bool) -> Iterator[list[Row]]:
        """The workers' rows, piece by piece. Consume each before the next: a piece may be matched against the changes
        of the one before. With `careful`, no piece has more than PIECE_BYTES, unless it is a single row.

        Raises WorkersLost if workers fail even on an empty batch.
        """
        if careful:
            places = self.places(batch)
            cuts = _cuts(places)
            if len(cuts) > 1:
                for piece in cuts:
                    yield from self._piece(self.only(batch, piece), piece)
                return
        yield from self._piece(batch, None)

    def _piece(self, batch: Batch, places: Int64 | None) -> Iterator[list[Row]]:
        try:
            rows = self._tried(batch, PIECE_TRIES if places is None or len(places) == 1 else 1)
        except WorkersLost as reason:
            places = self.places(batch) if places is None else places
            log.warning("workers_lost", **error_fields(reason), row_count=len(places))
            if len(places) < 2:
                # If workers fail even on an empty batch, the row is not the cause.
                try:
                    self.match(self.only(batch, places[:0]))
                except WorkersLost as outage:
                    log.warning("workers_retried", **error_fields(outage))
                    self._tried(self.only(batch, places[:0]), PIECE_TRIES - 1)
                    yield from self._piece(batch, places)  # now that they are there again
                    return
                # The batch itself may have more rows: some that are committed, or that came after `places` looked.
                yield self._last_tried(self.only(batch, places), str(reason)) if len(places) else []
                return
            if reason.hung:  # each try takes minutes, so an outage has to show before the batch is halved
                self._tried(self.only(batch, places[:0]), PIECE_TRIES - 1)
        else:
            yield rows
            return
        for half in np.array_split(places, 2):
            yield from self._piece(self.only(batch, half), half)

    def _last_tried(self, row: Batch, reason: str) -> list[Row]:
        """Match a row once more, since workers work again: the old ones may have had no memory left, or waited for a
        disk. It is set aside if they are lost again."""
        try:
            return self.match(row)
        except WorkersLost as again:
            log.warning("workers_retried", **error_fields(again))
            return self.aside(row, reason)

    def _tried(self, batch: Batch, tries: int) -> list[Row]:
        for _ in range(tries - 1):
            try:
                return self.match(batch)
            except WorkersLost as reason:
                if not reason.again:
                    raise
                log.warning("workers_retried", **error_fields(reason))
        return self.match(batch)


def ranges(places: Int64) -> Iterator[tuple[int, int, int, int]]:
    """The rows as (source, partition, first offset, last offset)."""
    for source, partition in np.unique(places[:, :2], axis=0).tolist():
        offsets = places[(places[:, 0] == source) & (places[:, 1] == partition), 2]
        yield source, partition, int(offsets.min()), int(offsets.max())


def _cuts(places: Int64) -> Sequence[Int64]:
    piece = np.maximum(np.cumsum(places[:, 3]) - 1, 0) // PIECE_BYTES
    return np.split(places, np.flatnonzero(np.diff(piece)) + 1)
