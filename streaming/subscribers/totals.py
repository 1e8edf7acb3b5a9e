"""Sum what tasks report by subscriber and subscription, and choose what is to be written.

Memory: about 70 bytes per subscriber, and as many per subscription that had an event, with short names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from matchers.contract.tables import Int64
from matchers.index.snapshot import Snapshot
from matchers.index.texts import Texts
from streaming.documents.subscriber_metrics import SubscriberMetrics, SubscriptionMetrics, key_of
from streaming.index import notes
from streaming.subscriber_counts import SubscriberCounts
from streaming.subscribers.named_rows import NamedRows

RATE_S = 60.0  # that rates are averages of, the last seconds most

_SUBSCRIBERS = {
    **dict.fromkeys(("deliveries", "size_bytes", "matches", "last_event_ms", "since_ms"), np.int64),
    "recent": np.float64,  # deliveries, each of which fades away in some RATE_S
    "changed": np.bool_,  # since it was last written
}
_SUBSCRIPTIONS = {**dict.fromkeys(("owner", "matches", "last_event_ms", "since_ms"), np.int64), "changed": np.bool_}


class Unwritten(NamedTuple):
    """The records to write next: keys of tombstones, and rows of both tables."""

    gone: Sequence[bytes]
    subscribers: Int64
    subscriptions: Int64


class Totals:
    """The sums of one query, without threads and topics."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._subscribers, self._subscriptions = NamedRows(_SUBSCRIBERS), NamedRows(_SUBSCRIPTIONS)
        self._letters: dict[int, Counter[str]] = {}  # dead letters by reason, by row
        self._gone: dict[bytes, None] = {}  # keys of records that are to become tombstones, the first one first
        self._next = [0, 0]  # the row of each table that is to be written first
        self._seen_s = 0.0  # for which rates are averages

    @property
    def size(self) -> tuple[int, int]:
        """The number of subscribers and of subscriptions with metrics. A row may also have a name only."""
        of_subscribers, of_subscriptions = (int(np.count_nonzero(table["since_ms"])) for table in self._tables)
        return of_subscribers, of_subscriptions

    def add(self, counts: SubscriberCounts, now_ms: int) -> None:
        """Add what a task reports."""
        table = self._subscribers
        row = table.rows(counts.names)
        for column in ("deliveries", "size_bytes", "matches"):
            table[column][row] += getattr(counts, column)
        table["recent"][row] += counts.deliveries
        _add_times(table, row, counts.last_event_ms, now_ms)
        table["changed"][row] = True
        for name, letters in counts.dead_letters.items():
            self._letters.setdefault(int(table.rows(Texts.of([name]))[0]), Counter()).update(letters)
        id_row = self._subscriptions.rows(counts.ids)
        self._move(id_row, row[counts.owner])
        table = self._subscriptions
        np.add.at(table["matches"], id_row, counts.id_matches)
        _add_times(table, id_row, counts.id_last_event_ms, now_ms)
        table["changed"][id_row] = True

    def replace(self, records: Sequence[SubscriberMetrics | SubscriptionMetrics]) -> None:
        """Put these in place of what is known of them."""
        subscribers = [one for one in records if isinstance(one, SubscriberMetrics)]
        table = self._subscribers
        row = table.rows(Texts.of(one.subscriber for one in subscribers))
        for column in ("deliveries", "size_bytes", "matches", "last_event_ms", "since_ms"):
            table[column][row] = [getattr(one, column) for one in subscribers]
        for one, at in zip(subscribers, row.tolist(), strict=True):
            self._letters[at] = Counter(one.dead_letters)
        subscriptions = [one for one in records if isinstance(one, SubscriptionMetrics)]
        owner = table.rows(Texts.of(one.subscriber for one in subscriptions))
        table = self._subscriptions
        row = table.rows(Texts.of(one.subscription for one in subscriptions))
        self._move(row, owner)
        for column in ("matches", "last_event_ms", "since_ms"):
            table[column][row] = [getattr(one, column) for one in subscriptions]

    def forget(self, key: bytes) -> None:
        """A record was a tombstone."""
        self._gone.pop(key, None)
        subscriber, slash, id = key.decode(errors="replace").partition("/")
        row = int(self._subscribers.rows(Texts.of([subscriber]))[0])
        if not slash:
            self._subscribers["since_ms"][row] = 0
            return
        at = int(self._subscriptions.rows(Texts.of([id]))[0])
        if self._subscriptions["owner"][at] == row:
            self._subscriptions["since_ms"][at] = 0

    def take_in(self, earlier: Totals) -> None:
        """Add the sums of before the start, which are in the topic already."""
        theirs, ours = earlier._subscribers, self._subscribers
        known = np.flatnonzero(theirs["since_ms"] > 0)
        row = ours.rows(theirs.names.take(known))
        for column in ("deliveries", "size_bytes", "matches"):
            ours[column][row] += theirs[column][known]
        _join_times(ours, row, theirs, known)
        for at, to in zip(known.tolist(), row.tolist(), strict=True):
            if letters := earlier._letters.get(at):
                self._letters.setdefault(to, Counter()).update(letters)
        there, here = earlier._subscriptions, self._subscriptions
        known = np.flatnonzero(there["since_ms"] > 0)
        distinct, of = np.unique(there["owner"][known], return_inverse=True)
        owner = ours.rows(theirs.names.take(distinct))[of]
        row = here.rows(there.names.take(known))
        stays = (here["since_ms"][row] == 0) | (here["owner"][row] == owner)
        for at in known[~stays].tolist():
            self._gone[earlier._key(at)] = None
        known, row, owner = known[stays], row[stays], owner[stays]
        here["owner"][row] = owner
        here["matches"][row] += there["matches"][known]
        _join_times(here, row, there, known)
        self._gone |= earlier._gone

    def sweep(self, snapshot: Snapshot) -> None:
        """Forget whoever has no subscription any more, and each subscription that is unsubscribed or has moved."""
        subscribers, subscriptions = self._subscribers, self._subscriptions
        has_one = np.zeros(len(subscribers), np.bool_)
        names = subscribers.names
        for part, removed in zip(snapshot.parts, snapshot.removed, strict=True):
            there = np.ones(len(part.segment.ids), np.bool_)
            there[removed] = False
            found = names.find(notes.subscribers(part.segment))[there]
            has_one[found[found >= 0]] = True
        is_there = np.zeros(len(subscriptions), np.bool_)
        for part, (which, position) in zip(snapshot.parts, snapshot.locate(subscriptions.names), strict=True):
            owner = names.find(notes.subscribers(part.segment).take(position))
            is_there[which] = owner == subscriptions["owner"][which]
        if not (has_one.all() and is_there.all()):
            written = np.flatnonzero(~is_there & (subscriptions["since_ms"] > 0))
            self._gone |= dict.fromkeys(map(self._key, written.tolist()))
            written = np.flatnonzero(~has_one & (subscribers["since_ms"] > 0))
            self._gone |= dict.fromkeys(key_of(name) for name in names.at(written))
            row = subscribers.keep(has_one)
            self._letters = {int(row[at]): letters for at, letters in self._letters.items() if has_one[at]}
            subscriptions.keep(is_there)
            subscriptions["owner"][:] = row[subscriptions["owner"]]
            self._next = [0, 0]

    def fade(self, seconds: float) -> None:
        """Let the rates forget, so much later."""
        self._subscribers["recent"][:] *= math.exp(-seconds / RATE_S)
        self._seen_s += seconds

    def choose(self, most: int) -> Unwritten:
        """The next to be written: tombstones first, then the rows that changed, those of both tables in turn. What is
        chosen counts as written, unless it is given back."""
        gone = list(self._gone)[:most]
        for key in gone:
            del self._gone[key]
        most -= len(gone)
        waiting = [self._waiting(table, begin) for table, begin in zip(self._tables, self._next, strict=True)]
        of_subscriptions = min(len(waiting[1]), max(most // 2, most - len(waiting[0])))
        rows = waiting[0][: most - of_subscriptions], waiting[1][:of_subscriptions]
        for number, (table, some) in enumerate(zip(self._tables, rows, strict=True)):
            table["changed"][some] = False
            if len(some):
                self._next[number] = int(some[-1]) + 1
        return Unwritten(gone, *rows)

    def give_back(self, chosen: Unwritten) -> None:
        """Mark rows that could not be written as changed again."""
        self._gone |= dict.fromkeys(chosen.gone)
        self._subscribers["changed"][chosen.subscribers] = True
        self._subscriptions["changed"][chosen.subscriptions] = True

    def metrics_of(self, rows: Int64) -> Iterator[SubscriberMetrics]:
        """The metrics in these rows of subscribers."""
        table = self._subscribers
        columns = (table[name][rows].tolist() for name in ("deliveries", "size_bytes", "matches"))
        times = (table[name][rows].tolist() for name in ("last_event_ms", "since_ms"))
        letters = (dict(self._letters.get(row, ())) for row in rows.tolist())
        for name, *counts in zip(table.names.at(rows), *columns, letters, *times, strict=True):
            yield SubscriberMetrics(self._query, name, *counts)

    def subscription_metrics_of(self, rows: Int64) -> Iterator[SubscriptionMetrics]:
        """The metrics in these rows of subscriptions."""
        table = self._subscriptions
        owners = self._subscribers.names.at(table["owner"][rows])
        columns = (table[name][rows].tolist() for name in ("matches", "last_event_ms", "since_ms"))
        for facts in zip(owners, table.names.at(rows), *columns, strict=True):
            yield SubscriptionMetrics(self._query, *facts)

    def busiest(self, most: int) -> list[tuple[SubscriberMetrics, float]]:
        """The subscribers with the most deliveries of late, the busiest first, and how many a second they get."""
        recent = self._subscribers["recent"]
        some = np.argpartition(recent, -most)[-most:] if len(recent) > most else np.arange(len(recent))
        some = some[self._subscribers["since_ms"][some] > 0]
        some = some[np.argsort(-recent[some], kind="stable")]
        whole_s = RATE_S * (1 - math.exp(-self._seen_s / RATE_S))
        rates = (recent[some] / whole_s).tolist() if whole_s else [0.0] * len(some)
        return list(zip(self.metrics_of(some), rates, strict=True))

    def named(self, names: Sequence[str]) -> list[SubscriberMetrics]:
        """The metrics of the subscribers of these names that have any."""
        return list(self.metrics_of(_with_metrics(self._subscribers, names)))

    def subscriptions_named(self, ids: Sequence[str]) -> list[SubscriptionMetrics]:
        """The metrics of the subscriptions with these ids that have any."""
        return list(self.subscription_metrics_of(_with_metrics(self._subscriptions, ids)))

    @property
    def _tables(self) -> tuple[NamedRows, NamedRows]:
        return self._subscribers, self._subscriptions

    @staticmethod
    def _waiting(table: NamedRows, begin: int) -> Int64:
        """The rows that changed, from `begin` on and then those before."""
        rows = np.flatnonzero(table["changed"])
        return np.roll(rows, -int(np.searchsorted(rows, begin)))

    def _key(self, row: int) -> bytes:
        """The key of the record of a row of subscriptions."""
        owner = self._subscribers.names[int(self._subscriptions["owner"][row])]
        return key_of(owner, self._subscriptions.names[row])

    def _move(self, row: Int64, owner: Int64) -> None:
        """Set the owner of these subscriptions. One that had another begins anew, under another key."""
        table = self._subscriptions
        for at in row[(table["since_ms"][row] > 0) & (table["owner"][row] != owner)].tolist():
            self._gone[self._key(at)] = None
            for column in ("matches", "last_event_ms", "since_ms"):
                table[column][at] = 0
        table["owner"][row] = owner


def _with_metrics(table: NamedRows, names: Sequence[str]) -> Int64:
    """The rows of those of these names that have metrics; the others get no row."""
    row = table.names.find(Texts.of(names)).astype(np.int64)
    row = row[row >= 0]
    return row[table["since_ms"][row] > 0]


def _add_times(table: NamedRows, row: Int64, last_event_ms: Int64, now_ms: int) -> None:
    np.maximum.at(table["last_event_ms"], row, last_event_ms)
    table["since_ms"][row] = np.where(table["since_ms"][row] == 0, now_ms, table["since_ms"][row])


def _join_times(table: NamedRows, row: Int64, earlier: NamedRows, of: Int64) -> None:
    """The latest last event, and the beginning of the earlier one. Rows are there once."""
    table["last_event_ms"][row] = np.maximum(table["last_event_ms"][row], earlier["last_event_ms"][of])
    table["since_ms"][row] = earlier["since_ms"][of]
