"""Tenants: what may be subscribed through which topic.

Each tenant has a topic of subscriptions, and Kafka's permissions on it decide who writes there. The job checks what was
written: a tenant subscribes for its own subscribers only, and its pattern narrows every subscription. The topic of the
job itself is the one without a tenant; there anybody is subscribed.

The changes of all topics have one order, by partition and offset. So each topic has a number, and a partition of
changes is a number with its topic's in it. It follows from the tenant's name, so that it means the same whichever other
tenants there are. If their bounds have changed, a start builds the state from the topics, and checks all of it anew.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from matchers.language.model import Pattern
from matchers.language.parsing import parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from config.model import Settings

SEPARATOR = "/"  # between a tenant and an id of its own, in an id
PARTITION_BITS = 11
MOST_PARTITIONS = 1 << PARTITION_BITS  # of a topic of subscriptions, where there are tenants
OWN = 0  # the number of the job's own topic


@dataclass(frozen=True)
class Tenant:
    """A topic of subscriptions, and what it may hold."""

    topic: str = ""
    status_topic: str = ""
    name: str = ""  # "" of the job's own topic
    prefix: str = ""  # of its subscribers
    subscribers: frozenset[str] = frozenset()  # that need not begin so
    pattern: Mapping[str, Any] | None = None  # as JSON gives it: each of its patterns is narrowed by it
    max_subscriptions: int = 0  # 0: any number
    others: frozenset[str] = frozenset()  # the tenants, whose ids the job's own topic may not use

    @cached_property
    def number(self) -> int:
        return number_of(self.name)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether there are changes that it may not make."""
        return bool(self.name or self.others)

    @cached_property
    def _id_begin(self) -> str:
        return f"{self.name}{SEPARATOR}" if self.name else ""

    @cached_property
    def _parsed(self) -> Pattern:
        return parse(self.pattern or {})

    def qualified(self, id: str) -> str:
        """The subscription's id within the job."""
        return self._id_begin + id

    def qualified_key(self, key: bytes) -> bytes:
        return self._id_begin.encode() + key

    def unqualified(self, id: str) -> str:
        """The id that the tenant gave."""
        return id.removeprefix(self._id_begin)

    def may_use(self, id: str) -> bool:
        owner, separator, _ = id.partition(SEPARATOR)
        return not (separator and owner in self.others)

    def may_subscribe(self, subscriber: str) -> bool:
        if not self.name or subscriber in self.subscribers:
            return True
        return bool(self.prefix) and subscriber.startswith(self.prefix)

    def objection(self, id: str, subscriber: str | None = None) -> str:
        """The reason to reject a change, or "". It has a subscriber unless it unsubscribes."""
        if not self.may_use(id):
            owner, _, _ = id.partition(SEPARATOR)
            return f"ids that begin with {owner + SEPARATOR!r} belong to the tenant {owner}; use another id"
        if subscriber is not None and not self.may_subscribe(subscriber):
            begins = [f"those that begin with {self.prefix!r}"] if self.prefix else []
            named = [", ".join(sorted(self.subscribers))] if self.subscribers else []
            return (
                f"the tenant {self.name} may not subscribe for {subscriber!r}; its subscribers are "
                f"{' and '.join(begins + named)}"
            )
        return ""

    def narrowed(self, pattern: Pattern) -> Pattern:
        """The pattern with the tenant's in it. What it matches, the tenant's matches too; in an array one element
        has to meet what both say of it, as in any pattern."""
        return Pattern((*pattern.parts, *self._parsed.parts)) if self.pattern else pattern


Tenants = Mapping[int, Tenant]  # by number; the job's own topic is one of them
ANYBODY: Tenants = {OWN: Tenant()}


def number_of(name: str) -> int:
    return 1 + zlib.crc32(name.encode()) % ((1 << 31 - PARTITION_BITS) - 1) if name else OWN


def same_number(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two tenants, if there are any, whose names have one number."""
    known: dict[int, str] = {}
    for name in names:
        if (other := known.setdefault(number_of(name), name)) != name:
            return other, name
    return None


def of(settings: Settings) -> dict[int, Tenant]:
    """The tenants of a job by number, with the job's own topic first."""
    own = settings.subscriptions
    tenants = [
        Tenant(
            topic=tenant.topic,
            status_topic=tenant.status_topic,
            name=name,
            prefix=tenant.prefix,
            subscribers=frozenset(tenant.subscribers),
            pattern=tenant.pattern or None,
            max_subscriptions=tenant.max_subscriptions,
        )
        for name, tenant in own.tenants.items()
    ]
    job = Tenant(own.topic, own.status_topic, others=frozenset(own.tenants))
    return {tenant.number: tenant for tenant in (job, *tenants)}


def checksum(settings: Settings) -> int:
    """A number that changes with what any tenant may subscribe; 0 without tenants."""
    bounds = {
        name: tenant.model_dump(include={"topic", "prefix", "subscribers", "pattern"})
        for name, tenant in sorted(settings.subscriptions.tenants.items())
    }
    return zlib.crc32(json.dumps(bounds).encode()) if bounds else 0


def own(settings: Settings) -> Tenant:
    """The tenant whose topic a client reads and writes by these settings (`Settings.of_tenant`)."""
    return next(tenant for tenant in reversed(of(settings).values()) if tenant.topic == settings.subscriptions.topic)


@overload
def change_partition(number: int, partition: int) -> int: ...
@overload
def change_partition(number: NDArray[Any], partition: NDArray[Any]) -> NDArray[Any]: ...
def change_partition(number: Any, partition: Any) -> Any:
    """A partition of changes, by the number of its topic and its own number there."""
    return number << PARTITION_BITS | partition


def topic_partition(change_partition: int, tenants: Tenants) -> tuple[Tenant, int]:
    """The topic of a partition of changes, and its number there."""
    if len(tenants) == 1:
        return tenants[OWN], change_partition
    return tenants[change_partition >> PARTITION_BITS], change_partition & (MOST_PARTITIONS - 1)
