"""Publish deliveries from the task that matched their events, in transactions with the offsets of these events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark import TaskContext

from matchers.contract.tables import Int64
from matchers.index.snapshot import Part
from streaming.documents import records
from streaming.errors import TopicMissing, Unsettled
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import Aborted
from streaming.publishing.slot import Committed, Slot
from streaming.publishing.sweep import slot_name
from streaming.rows import Kind
from streaming.worker.matches import Matches
from streaming.worker.publication import Publication
from streaming.worker.transaction import Batch, Transaction

LEAST_ATTEMPTS = 5  # at a transaction, unless the broker refuses another topic
AT_ONCE = 200_000  # matches, in a transaction, unless they are of one event


@dataclass
class Task:
    """The publishing of one task, in its slot."""

    publication: Publication
    parts: Sequence[Part]
    false_positives: float
    number: int
    client: Client
    stopped: bool = field(default=False, init=False)
    _missing: set[str] = field(default_factory=set, init=False)
    _refused: dict[str, str] = field(default_factory=dict, init=False)  # by topic

    @classmethod
    def of(cls, publication: Publication, parts: Sequence[Part], false_positives: float) -> Task:
        """The present task. Raises Unsettled in all attempts at it but the first: that one may be at work, or have
        published."""
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise Unsettled(f"attempt {context.attemptNumber()} at a task: only the first may publish")
        number = context.partitionId() if context is not None else 0
        client = _client(publication.bootstrap_servers, tuple(publication.options.items()))
        return cls(publication, parts, false_positives, number, client)

    def __post_init__(self) -> None:
        query = self.publication.query
        self._slot = Slot(self.client, slot_name(query, self.number), query)
        self._producer = self.publication.producers[self.number]

    def stop(self) -> None:
        """Publish no more: what comes later must not overtake what could not be published."""
        self.stopped = True

    def report(self) -> Mapping[str, Any]:
        """The SLOT row of this task."""
        facts = {
            "slot": self.number,
            "producer_id": self._producer.id,
            "epoch": self._producer.epoch,
            "missing": sorted(self._missing),
        }
        return {"kind": Kind.SLOT, "value": orjson.dumps(facts)}

    def publish(self, rows: pa.RecordBatch, matches: Matches) -> tuple[int, list[Mapping[str, Any]]]:
        """Publish the events' deliveries and dead letters; returns the number of rows done and PUBLISHED rows.

        If topics are missing, only the first rows may be done, and the task has stopped. Raises JobError.
        """
        matched = time.time()
        published: list[Mapping[str, Any]] = []
        matches = _bounded(matches, self.publication.max_matches)
        batch = Batch(self.publication, self.client, self.parts, self.false_positives, rows, matches)
        for begin, end in _slices(matches.total):
            transaction = Transaction(batch, begin, end)
            committed = self._committed(transaction)
            if committed is None:
                self.stop()
                return begin, published
            published.append(transaction.row(matched, committed))
        return len(rows), published

    def _committed(self, transaction: Transaction) -> Committed | None:
        """Commit the transaction; None if topics are missing. Topics that are gone, or for which the broker refuses
        records, show only while it is sent: then it is composed again."""
        while True:
            self._missing |= transaction.compose(self._refused)
            if self._missing:
                return None
            try:
                committed = self._slot.publish(
                    self._producer,
                    transaction.pieces(self._producer),
                    transaction.destinations,
                    transaction.offsets,
                    self.publication.note,
                )
            except Aborted as aborted:
                self._producer = aborted.producer
                if self.publication.dead_letters in {*aborted.gone, *aborted.refused}:
                    raise TopicMissing(f"dead letters cannot be written: {aborted}") from aborted
                if not aborted.refused.keys() - self._refused.keys() and transaction.aborted >= LEAST_ATTEMPTS:
                    raise
                self._refused |= aborted.refused
                transaction.aborted += 1
            else:
                self._producer = committed.producer
                return committed


def _bounded(matches: Matches, most: int) -> Matches:
    """The matches, with an event that has more than `most` as a dead one."""
    if not most or not (matches.total > most).any():
        return matches
    many = matches.total > most
    dead = dict(matches.dead)
    for row in np.flatnonzero(many).tolist():
        detail = f"{matches.total[row]:,} subscriptions match it; matching.max_per_event is {most:,}"
        dead[row] = records.TOO_MANY_MATCHES, detail
    parts = [(rows[~many[rows]], position[~many[rows]]) for rows, position in matches.parts]
    return Matches(dead, parts, np.where(many, 0, matches.total))


def _slices(total: Int64) -> Iterator[tuple[int, int]]:
    """The rows of one transaction after the other, as (first, behind the last)."""
    ends = np.cumsum(total)
    first = 0
    while first < len(total):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + AT_ONCE, side="right")))
        yield first, last
        first = last


@lru_cache(1)
def _client(bootstrap_servers: str, options: tuple[tuple[str, str], ...]) -> Client:
    """The connections of this process."""
    return Client(bootstrap_servers, dict(options))
