"""Apply quotas: subscriptions per subscriber, and deliveries per second of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from matchers.index.snapshot import Snapshot
from streaming.index import notes
from streaming.rows import AcceptedChange, DeliveryCounts, Refusal, Row
from streaming.state.state import registered
from streaming.worker.publication import Quota, Share

Wants = Counter[Share]  # deliveries

REMEMBERED_S = 120  # those that were counted in last: late events count with those of their own second


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
        last: dict[str, AcceptedChange] = {}  # in the order of the last words
        for row in rows:
            if isinstance(row, AcceptedChange):
                last.pop(row.id, None)
                last[row.id] = row
        owners = {id: subscription.subscriber for id, subscription in registered(snapshot, last).items()}
        refused = set()
        for id, change in last.items():
            before, after = owners.get(id), change.subscriber
            if after not in (before, None) and self._count[after] >= self.most:
                refused.add(id)
                continue
            if before is not None:
                self._count[before] -= 1
            if after is not None:
                self._count[after] += 1
        return [self._refused(row) if isinstance(row, AcceptedChange) and row.id in refused else row for row in rows]

    def _refused(self, change: AcceptedChange) -> Refusal:
        reason = (
            f"a subscriber may have {self.most:,} subscriptions at most (quotas.subscriptions); withdraw another first"
        )
        return Refusal(change.record, change.id, reason)


@dataclass
class DeliveryQuota:
    """Limits the deliveries to a subscriber for the events of one second, by event time; 0: no limit.

    By event time a job that catches up delivers the same as one that is in time. Tasks count what each subscriber would
    get (`worker.counting`), and then publish what it may get of that, the lowest partition first. The last counts are
    forgotten when the job ends.
    """

    most: int
    drop: bool = False  # what is beyond it
    _count: dict[int, Counter[str]] = field(default_factory=dict)  # by second

    def of(self, wanted: Wants) -> Quota:
        """The quota for a batch from which subscribers would get these deliveries; they are not counted yet."""
        left: dict[Share, int] = {}
        before: Counter[tuple[int, str]] = Counter()  # of lower partitions
        for share, n in sorted(wanted.items()):
            _, _, second, subscriber = share
            counted = self._count[second][subscriber] if second in self._count else 0
            may = max(0, self.most - counted - before[second, subscriber])
            before[second, subscriber] += n
            if may < n:
                left[share] = may
        return Quota(self.most, self.drop, left)

    def count(self, wanted: Wants) -> None:
        """Count what was published, or would have been without the limit."""
        for (_, _, second, subscriber), n in wanted.items():
            counts = self._count.pop(second, None) or Counter()
            counts[subscriber] += n
            self._count[second] = counts  # the last of them now
        for second in list(self._count)[:-REMEMBERED_S]:
            del self._count[second]


def wants(rows: Iterable[Row]) -> Wants:
    """The sum of all DELIVERY_COUNTS rows."""
    counts: Wants = Counter()
    for row in rows:
        if isinstance(row, DeliveryCounts):
            for subscriber, n in zip(row.subscribers, row.counts.tolist(), strict=True):
                counts[row.source, row.partition, row.second, subscriber] += n
    return counts
