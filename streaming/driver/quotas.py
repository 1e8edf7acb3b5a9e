"""Apply quotas: subscriptions per subscriber, and deliveries per second of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from matchers.index.snapshot import Snapshot
from matchers.index.texts import Texts
from streaming.documents.records import NO_TIMESTAMP
from streaming.index import notes
from streaming.rows import Change, Refusal, Row

REMEMBERED = 120  # seconds, those that were counted in last: late events count with those of their own second


@dataclass
class SubscriptionQuota:
    """Limits the subscriptions of a subscriber; 0: no limit. Further ones are refused.

    The subscriptions of each subscriber are counted once at the start and updated with each change. All subscriptions
    that exist when a query first starts, or when its state is rebuilt from the topic, are accepted. Refusals are
    written down before they are published (`Store.refuse`), so that a restart refuses the same.
    """

    most: int
    _count: Counter[str] = field(default_factory=Counter)

    def begin(self, snapshot: Snapshot) -> None:
        if self.most:
            for part, removed in zip(snapshot.parts, snapshot.removed, strict=True):
                subscribers = notes.subscribers(part.segment)
                self._count.update(subscribers)
                self._count.subtract(subscribers.at(removed))

    def checked(self, rows: Sequence[Row], snapshot: Snapshot) -> Sequence[Row]:
        """The rows of a batch, with changes beyond the limit as refusals; counts the others.

        Only the last change of an id counts. If it is refused, so are those before it in the batch: the subscription
        stays as it was.
        """
        if not self.most:
            return rows
        last: dict[str, Change] = {}  # in the order of the last words
        for row in rows:
            if isinstance(row, Change):
                last.pop(row.id, None)
                last[row.id] = row
        owner = owners(snapshot, last)
        refused = set()
        for id, change in last.items():
            before, after = owner.get(id), change.subscriber
            if after not in (before, None) and self._count[after] >= self.most:
                refused.add(id)
                continue
            if before is not None:
                self._count[before] -= 1
            if after is not None:
                self._count[after] += 1
        return [self._refused(row) if isinstance(row, Change) and row.id in refused else row for row in rows]

    def _refused(self, change: Change) -> Refusal:
        reason = (
            f"a subscriber may have {self.most:,} subscriptions at most (quotas.subscriptions); withdraw another first"
        )
        return Refusal(change.record, change.id, reason)


@dataclass
class DeliveryQuota:
    """Limits the deliveries to a subscriber for the events of one second, by event time; 0: no limit.

    By event time a job that catches up delivers the same as one that is in time. The last counts are forgotten when the
    job ends. Deliveries beyond the limit become dead letters, or nothing with `drop`. Events without a timestamp belong
    to no second: they are allowed and not counted; otherwise all of them would share one.
    """

    most: int
    drop: bool = False
    _count: dict[int, Counter[str]] = field(default_factory=dict)  # by second

    def allowed(self, wanted: Iterable[tuple[str, int]]) -> Iterable[bool]:
        """Whether each delivery, given as (subscriber, event's time in ms), may be made. Counts nothing yet."""
        if not self.most:
            return repeat(True)  # without a look at what is wanted: that can be a million
        counts: Counter[tuple[str, int]] = Counter()
        allowed = []
        for subscriber, time_ms in wanted:
            if time_ms == NO_TIMESTAMP:
                allowed.append(True)
                continue
            second = time_ms // 1000
            before = self._count[second][subscriber] if second in self._count else 0
            counts[subscriber, second] += 1
            allowed.append(before + counts[subscriber, second] <= self.most)
        return allowed

    def count(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Count all wanted deliveries of a committed batch, as far as they were allowed."""
        if not self.most:
            return
        for subscriber, time_ms in wanted:
            if time_ms == NO_TIMESTAMP:
                continue
            counts = self._count.pop(time_ms // 1000, None) or Counter()
            counts[subscriber] += 1
            self._count[time_ms // 1000] = counts  # the last of them now
        for second in list(self._count)[:-REMEMBERED]:
            del self._count[second]


def owners(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, str]:
    """The subscribers of the ids that exist."""
    wanted = Texts.of(ids)
    owner: dict[str, str] = {}
    for part, (which, position) in zip(snapshot.parts, snapshot.locate(wanted), strict=True):
        subscribers = notes.subscribers(part.segment).at(position)
        owner.update(zip(wanted.at(which), subscribers, strict=True))
    return owner
