"""Apply quotas: subscriptions per subscriber, and deliveries per second of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import Part, Snapshot
from streaming.index import notes
from streaming.rows import AcceptedChange, DeliveryCounts, RejectedChange, Row
from streaming.state.state import registered
from streaming.tenants import ANYBODY, Tenant, Tenants, topic_partition
from streaming.worker.publication import Quota, Share

Wants = Counter[Share]  # deliveries

REMEMBERED_S = 120  # beside those of the last batch: late events count with those of their own second


@dataclass
class SubscriptionQuota:
    """Limits the subscriptions of a subscriber, and of a tenant; 0: no limit. Further ones are rejected.

    The subscriptions of each are counted once at the start and updated with each change. All subscriptions that exist
    when a query first starts, or when its state is rebuilt from the topics, are accepted. Rejections are written down
    before they are published (`Store.reject`), so that a restart rejects the same.
    """

    most: int
    tenants: Tenants = field(default_factory=lambda: ANYBODY)
    _count: Counter[str] = field(default_factory=Counter)  # by subscriber
    _of_tenant: Counter[str] = field(default_factory=Counter)  # by name

    @property
    def limits_any(self) -> bool:
        return bool(self.most) or any(tenant.max_subscriptions for tenant in self.tenants.values())

    def begin(self, snapshot: Snapshot) -> None:
        if not self.limits_any:
            return
        for part, removed in zip(snapshot.parts, snapshot.removed, strict=True):
            subscribers = notes.subscribers(part.segment)
            self._count.update(subscribers)
            self._count.subtract(subscribers.at(removed))
            self._of_tenant.update(self._tenants_of(np.delete(notes.numbers(part.segment, "partition"), removed)))

    def expired(self, part: Part, positions: Int32) -> None:
        """Count no longer what compaction has dropped from a part."""
        if not self.limits_any:
            return
        self._count.subtract(notes.subscribers(part.segment).at(positions))
        self._count = +self._count  # without zeros
        self._of_tenant.subtract(self._tenants_of(notes.numbers(part.segment, "partition")[positions]))

    def checked(self, rows: Sequence[Row], snapshot: Snapshot) -> Sequence[Row]:
        """The rows of a batch, with changes beyond the limits as rejections; counts the others.

        Only the last change of an id counts. If it is rejected, so are those before it in the batch: the subscription
        stays as it was.
        """
        if not self.limits_any:
            return rows
        last: dict[str, AcceptedChange] = {}  # in the order of the last words
        for row in rows:
            if isinstance(row, AcceptedChange):
                last.pop(row.id, None)
                last[row.id] = row
        owners = {id: subscription.subscriber for id, subscription in registered(snapshot, last).items()}
        rejected: dict[str, str] = {}  # the reason by id
        for id, change in last.items():
            before, after = owners.get(id), change.subscriber
            tenant = self._tenant(change.record.partition)
            if after is not None and (reason := self._over(tenant, before, after)):
                rejected[id] = reason
                continue
            if before is not None:
                self._count[before] -= 1
                if not self._count[before]:
                    del self._count[before]
                self._of_tenant[tenant.name] -= 1
            if after is not None:
                self._count[after] += 1
                self._of_tenant[tenant.name] += 1
        return [
            RejectedChange(row.record, row.id, rejected[row.id])
            if isinstance(row, AcceptedChange) and row.id in rejected
            else row
            for row in rows
        ]

    def _over(self, tenant: Tenant, before: str | None, after: str) -> str:
        """The reason to reject a subscription for the subscriber `after` in the place of one for `before`, or ""."""
        most = tenant.max_subscriptions
        if most and before is None and self._of_tenant[tenant.name] >= most:
            return f"the tenant {tenant.name} may have at most {most:,} subscriptions; unsubscribe another first"
        if self.most and after != before and self._count[after] >= self.most:
            return (
                f"a subscriber may have at most {self.most:,} subscriptions (quotas.subscriptions); unsubscribe "
                "another first"
            )
        return ""

    def _tenants_of(self, change_partitions: Int64) -> Counter[str]:
        """Count these partitions by the name of their tenant."""
        count: Counter[str] = Counter()
        partitions, counts = np.unique(change_partitions, return_counts=True)
        for partition, n in zip(partitions.tolist(), counts.tolist(), strict=True):
            count[self._tenant(partition).name] += n
        return count

    def _tenant(self, change_partition: int) -> Tenant:
        return topic_partition(change_partition, self.tenants)[0]


@dataclass
class DeliveryQuota:
    """Limits the deliveries to a subscriber for the events of one second, by event time; 0: no limit.

    By event time a job that catches up drops no more than one that is in time. Tasks count what each subscriber would
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
        if of_batch := len({second for _, _, second, _ in wanted}):
            for second in list(self._count)[: -REMEMBERED_S - of_batch]:
                del self._count[second]


def wants(rows: Iterable[Row]) -> Wants:
    """The sum of all DELIVERY_COUNTS rows."""
    counts: Wants = Counter()
    for row in rows:
        if isinstance(row, DeliveryCounts):
            for subscriber, n in zip(row.subscribers, row.counts.tolist(), strict=True):
                counts[row.source, row.partition, row.second, subscriber] += n
    return counts
