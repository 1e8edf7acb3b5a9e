"""Name the topics that the job reads, their partitions, and what each tenant may subscribe to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from config import Settings
from config.model import TenantSettings
from rig.records import NOTHING, TENANT, change_of

HIGH = 4  # the column of a change that has the high end of the price


class Partitions:
    """Numbers the partitions of some topics together: those of the first topic, of the second, and at the end those
    that are added."""

    def __init__(self, topics: Sequence[str], partitions: int) -> None:
        self.topics = topics
        self._number = {(topic, p): n for n, (topic, p) in enumerate((t, p) for t in topics for p in range(partitions))}

    def __len__(self) -> int:
        return len(self._number)

    @property
    def places(self) -> list[tuple[str, int]]:
        """(topic, partition) by number."""
        return [*self._number]

    def number(self, topic: str, partition: int) -> int:
        """Return the number of a partition; of an unknown one, a number that none has."""
        return self._number.get((topic, partition), len(self._number))

    def add(self) -> None:
        """Count another partition of each topic."""
        partition = len(self._number) // len(self.topics)
        for topic in self.topics:
            self._number[topic, partition] = len(self._number)


@dataclass(frozen=True)
class Tenant:
    """The bounds of a topic of subscriptions: `t2` is the name of the tenant with the number 2, and number 0 is the
    job's own topic. The pattern of a tenant bounds the price from above."""

    number: int
    settings: TenantSettings | None

    def change(self, key: bytes | None, value: bytes | None) -> list[int]:
        """Return the row of a change as `records.change_of` does, as the job must understand it."""
        row = change_of(key, value)
        if self.settings is None or row[0] == NOTHING:
            return row
        if row[1] >= 0 and not self._may_subscribe(f"r{row[1]}"):
            return [NOTHING, -1, -1, 0, 0, 0, 0]
        if self.settings.pattern:
            row[HIGH] = min(row[HIGH], self.settings.pattern["price"][0]["numeric"][1])
        row[0] += self.number * TENANT
        return row

    def _may_subscribe(self, subscriber: str) -> bool:
        assert self.settings is not None
        prefix = self.settings.prefix
        return subscriber in self.settings.subscribers or bool(prefix and subscriber.startswith(prefix))


def tenants_of(settings: Settings) -> Mapping[str, Tenant]:
    """Return the tenants by their topics of subscriptions, beginning with the job's own topic."""
    own = settings.subscriptions
    return {own.topic: Tenant(0, None)} | {of.topic: Tenant(int(name[1:]), of) for name, of in own.tenants.items()}


def status_topics(settings: Settings) -> Mapping[str, str]:
    """Return the topic of subscriptions of each status topic."""
    own = settings.subscriptions
    return {own.status_topic: own.topic} | {of.status_topic: of.topic for of in own.tenants.values()}
