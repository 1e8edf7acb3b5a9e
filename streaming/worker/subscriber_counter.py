"""Count what each subscriber and subscription gets from the transactions that a task commits.

Nothing is counted event by event. The columns of each transaction are kept until the task reports, or until there are
MOST_MATCHES, and then counted at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from matchers.contract.tables import Int32, Int64
from matchers.index.texts import Texts
from streaming.latencies import credible
from streaming.publishing.encode.interner import Interner
from streaming.rows import RowKind
from streaming.subscriber_counts import NEVER_MS, SubscriberCounts

MOST_MATCHES = 1 << 20
SPARSE = 8  # times as many names as numbers: then sorting is cheaper than a pass over all names


class CountedDeliveries(NamedTuple):
    """The D deliveries of a transaction, and the matches that they were made of, part by part."""

    subscriber: Int64  # [D]: its number
    size_bytes: Int64  # [D]
    dead_letters: Mapping[tuple[str, str], int]  # by subscriber and reason
    matches: tuple[CountedMatches, ...]


class CountedMatches(NamedTuple):
    """M matches with subscriptions whose ids are in one column."""

    subscriber: Int64  # [M]: its number
    timestamp_ms: Int64  # [M]: of the event
    position: Int32 | Int64  # [M]: of the subscription
    ids: Texts


@dataclass
class SubscriberCounter:
    """The counts of one task; `by_subscription`, also of each subscription."""

    names: Interner
    by_subscription: bool
    _deliveries: list[CountedDeliveries] = field(default_factory=list)
    _matches: int = 0
    _counted: list[SubscriberCounts] = field(default_factory=list)

    def add(self, committed: CountedDeliveries) -> None:
        """Add a transaction once it is committed."""
        self._deliveries.append(committed)
        self._matches += sum(len(some.subscriber) for some in committed.matches)
        if self._matches > MOST_MATCHES:
            self._count()

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The SUBSCRIBER_COUNTS rows of what was added."""
        self._count()
        for counts in self._counted:
            yield {"kind": RowKind.SUBSCRIBER_COUNTS, "value": counts.to_bytes()}

    def _count(self) -> None:
        if self._matches:
            self._counted.append(counts_of(self._deliveries, self.names, self.by_subscription))
        self._deliveries, self._matches = [], 0


def counts_of(transactions: list[CountedDeliveries], names: Interner, by_subscription: bool) -> SubscriberCounts:
    """The counts of these transactions, of which all subscribers are numbers of `names`."""
    matches = [some for transaction in transactions for some in transaction.matches]
    subscriber = np.concatenate([some.subscriber for some in matches])
    timestamp = _credible(np.concatenate([some.timestamp_ms for some in matches]))
    delivered = np.concatenate([transaction.subscriber for transaction in transactions])
    size = np.concatenate([transaction.size_bytes for transaction in transactions])
    distinct, of = _distinct(np.concatenate([subscriber, delivered]), len(names))
    of_match, of_delivery, n = of[: len(subscriber)], of[len(subscriber) :], len(distinct)
    letters: dict[str, Counter[str]] = {}
    for transaction in transactions:
        for (name, reason), number in transaction.dead_letters.items():
            letters.setdefault(name, Counter())[reason] += number
    ids, owner, id_matches, id_last = _of_subscriptions(matches if by_subscription else [], of_match, timestamp)
    return SubscriberCounts(
        names=names.names.take(distinct),
        deliveries=np.bincount(of_delivery, minlength=n),
        size_bytes=np.bincount(of_delivery, size, n).astype(np.int64),
        matches=np.bincount(of_match, minlength=n),
        last_event_ms=_latest(of_match, timestamp, n),
        dead_letters=letters,
        ids=ids,
        owner=owner,
        id_matches=id_matches,
        id_last_event_ms=id_last,
    )


def _of_subscriptions(
    matches: list[CountedMatches], of_subscriber: Int64, timestamp: Int64
) -> tuple[Texts, Int64, Int64, Int64]:
    """The ids of these subscriptions, their subscribers, matches and last events. `of_subscriber` and `timestamp` are
    columns of all matches, one part behind the other."""
    which: dict[int, list[tuple[CountedMatches, slice]]] = {}  # by the column of ids
    begin = 0
    for some in matches:
        end = begin + len(some.subscriber)
        which.setdefault(id(some.ids), []).append((some, slice(begin, end)))
        begin = end
    ids, columns = [], [np.empty((3, 0), np.int64)]
    for same in which.values():
        column = same[0][0].ids
        distinct, of = _distinct(np.concatenate([some.position for some, _ in same]), len(column))
        owner = np.empty(len(distinct), np.int64)
        owner[of] = np.concatenate([of_subscriber[at] for _, at in same])
        latest = _latest(of, np.concatenate([timestamp[at] for _, at in same]), len(distinct))
        ids.append(column.take(distinct))
        columns.append(np.stack([owner, np.bincount(of, minlength=len(distinct)), latest]))
    owner, total, latest = np.concatenate(columns, axis=1)
    return Texts.joined(ids), owner, total, latest


def _distinct(numbers: Int32 | Int64, n: int) -> tuple[Int64, Int64]:
    """The distinct ones of some numbers below n, ascending, and which of them each number is."""
    if SPARSE * len(numbers) < n:
        distinct, of = np.unique(numbers, return_inverse=True)
        return distinct.astype(np.int64), of
    there = np.zeros(n, np.bool_)
    there[numbers] = True
    distinct = np.flatnonzero(there)
    rank = np.empty(n, np.int64)
    rank[distinct] = np.arange(len(distinct))
    return distinct, rank[numbers]


def _credible(timestamp_ms: Int64) -> Int64:
    return np.where(credible(timestamp_ms.astype(np.float64), time.time()), timestamp_ms, NEVER_MS)


def _latest(of: Int64, timestamp_ms: Int64, n: int) -> Int64:
    latest = np.full(n, NEVER_MS, np.int64)
    np.maximum.at(latest, of, timestamp_ms)
    return latest
