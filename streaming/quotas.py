"""How much one subscriber may have: subscriptions, and deliveries of the events of one second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from matchers.snapshot import Snapshot
from matchers.texts import Texts
from streaming.matching import CHANGE, REFUSED

Row = Mapping[str, Any]

REMEMBERED = 120  # seconds, those that were counted in last: late events count with those of their own second


@dataclass
class SubscriptionQuota:
    """At most so many subscriptions of one subscriber; 0: any number. What would be one more is refused.

    Who has how many is counted once at the start, and from then on what changes is. Those that are there when a query
    first starts, or when its state is built from the topic again, are all taken. What was refused is written down
    before it is published (`Store.refuse`), so that a restart refuses the same.
    """

    most: int
    _count: Counter[str] = field(default_factory=Counter)

    def begin(self, snapshot: Snapshot) -> None:
        if self.most:
            for part, removed in zip(snapshot.parts, snapshot.removed, strict=True):
                self._count.update(part.segment.notes["subscriber"])
                self._count.subtract(part.segment.notes["subscriber"].at(removed))

    def checked(self, rows: Sequence[Row], snapshot: Snapshot) -> Sequence[Row]:
        """The rows of a batch, with changes that go too far as REFUSED; remembers those that do not.

        Only the last word on an id counts. If that is refused, so are those before it in the batch: the subscription
        stays as it was.
        """
        if not self.most:
            return rows
        last: dict[str, Row] = {}  # in the order of the last words
        for row in rows:
            if row["kind"] == CHANGE:
                last.pop(row["subscriptions"][0], None)
                last[row["subscriptions"][0]] = row
        owner = owners(snapshot, last)
        refused = set()
        for id, row in last.items():
            before, after = owner.get(id), next(iter(row["subscribers"]), None)
            if after not in (before, None) and self._count[after] >= self.most:
                refused.add(id)
                continue
            if before is not None:
                self._count[before] -= 1
            if after is not None:
                self._count[after] += 1
        return [
            self._refused(row) if row["kind"] == CHANGE and row["subscriptions"][0] in refused else row for row in rows
        ]

    def _refused(self, row: Row) -> Row:
        reason = (
            f"a subscriber may have {self.most:,} subscriptions at most (quotas.subscriptions); withdraw another first"
        )
        return {**row, "kind": REFUSED, "reason": reason, "subscribers": []}


@dataclass
class DeliveryQuota:
    """At most so many deliveries to one subscriber of events of one second, by the events' own times; 0: any number.

    So a job that catches up delivers what it would have delivered in time. What was counted last is forgotten when the
    job ends. What is over it becomes a dead letter, or nothing with `drop`.
    """

    most: int
    drop: bool = False
    _count: dict[int, Counter[str]] = field(default_factory=dict)  # by second

    def allowed(self, wanted: Iterable[tuple[str, int]]) -> Iterable[bool]:
        """Of deliveries, given as (subscriber, event's time in ms), which may be made. Counts nothing yet."""
        if not self.most:
            return repeat(True)  # without a look at what is wanted: that can be a million
        counts: Counter[tuple[str, int]] = Counter()
        found = []
        for subscriber, time_ms in wanted:
            second = time_ms // 1000
            before = self._count.get(second, {}).get(subscriber, 0)
            counts[subscriber, second] += 1
            found.append(before + counts[subscriber, second] <= self.most)
        return found

    def count(self, wanted: Iterable[tuple[str, int]]) -> None:
        """All that was wanted of a batch is committed, as far as it was allowed."""
        if not self.most:
            return
        for subscriber, time_ms in wanted:
            counts = self._count.pop(time_ms // 1000, None) or Counter()
            counts[subscriber] += 1
            self._count[time_ms // 1000] = counts  # the last of them now
        for second in list(self._count)[:-REMEMBERED]:
            del self._count[second]


def owners(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, str]:
    """Whose those of the ids are that there are."""
    wanted = Texts.of(ids)
    found = {}
    for part, (which, position) in zip(snapshot.parts, snapshot.found(wanted), strict=True):
        subscribers = part.segment.notes["subscriber"].at(position)
        found.update(zip(wanted.at(which), subscribers, strict=True))
    return found
