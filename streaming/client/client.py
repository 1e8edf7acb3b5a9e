"""The client: one method for each thing that a program does with subscriptions, deliveries and past events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from streaming.admin import change_acks, pause
from streaming.admin.change_acks import ChangeRefused, PendingChanges
from streaming.admin.subscription_status import SubscriptionStatus, statuses_of
from streaming.admin.subscription_topic import (
    Read,
    StoredSubscription,
    decided,
    last_written,
    stored_subscriptions,
)
from streaming.client.changes import WrittenChanges
from streaming.client.deliveries import Deliveries
from streaming.documents.change_order import Decisions
from streaming.documents.subscriptions import Refused, read_change
from streaming.errors import Forbidden, JobError, TopicMissing
from streaming.kafka import clients
from streaming.kafka.clients import Cluster, RecordWriter, Writable
from streaming.kafka.topics import Topics
from streaming.publishing.delivery import DeliveryRule

if TYPE_CHECKING:
    from confluent_kafka import Message

    from config.model import Settings
    from streaming.admin.apply_plan import ApplyPlan


class ProgressReport(Protocol):
    """Report how far a long read or write is: called with what it counts, and how many there are if that is known."""

    def __call__(self, what: str, total: int | None = None) -> AbstractContextManager[Callable[[int], object]]: ...


@dataclass(frozen=True)
class _Connections:
    cluster: Cluster
    topics: Topics
    writer: RecordWriter

    @classmethod
    def of(cls, settings: Settings) -> _Connections:
        cluster = Cluster.of(settings)
        return cls(cluster, cluster.topics(), RecordWriter(cluster))


@contextmanager
def _silent(what: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    yield lambda done: None


class Client:
    """A program's access to the topics of a job, whether the job runs or not.

    It connects when a method needs it to. Threads may share a client; each iterator and each result belongs to one
    thread at a time. `close`, or the end of the `with` block, ends its connections.

    Every error that a caller can do something about is a `JobError`: its text names the reason and the remedy, and its
    `retry` tells whether the same call may succeed later.
    """

    def __init__(self, settings: Settings, progress: ProgressReport = _silent) -> None:
        """`settings` are those of the job: `config.load("sluice.toml")`."""
        self._settings = settings
        self._progress = progress
        self._opened: _Connections | None = _Connections.of(settings)
        self._open_deliveries: WeakSet[Deliveries] = WeakSet()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and the deliveries that are still open."""
        for deliveries in list(self._open_deliveries):
            deliveries.close()
        if self._opened is not None:
            self._opened.writer.close()
        self._opened = None  # an admin client ends with the last reference

    def subscribe(
        self,
        id: str,
        subscriber: str,
        pattern: Mapping[str, Any],
        *,
        expires_at: str | None = None,
        paused: bool = False,
    ) -> WrittenChanges:
        """Add a subscription, or replace the one with this id. The values are those of the document in
        SUBSCRIPTIONS.md.

        Raises `ChangeRefused` for a document that the job would refuse, and writes nothing.
        """
        document: dict[str, Any] = {"id": id, "subscriber": subscriber, "pattern": pattern}
        if expires_at is not None:
            document["expires_at"] = expires_at
        if paused:
            document["paused"] = True
        return self.write([_checked(document)], "subscriptions")

    def unsubscribe(self, *ids: str) -> WrittenChanges:
        """Withdraw subscriptions. Their past deliveries stay."""
        return self.write([_withdrawal(id) for id in ids], "withdrawals")

    def pause(self, *ids: str) -> WrittenChanges:
        """Let subscriptions match nothing until they are resumed. Raises `NoSubscription`, and writes nothing then."""
        return self._flag(ids, True)

    def resume(self, *ids: str) -> WrittenChanges:
        """Resume paused subscriptions. Raises `NoSubscription`, and writes nothing then."""
        return self._flag(ids, False)

    def write(self, changes: Iterable[Writable], what: str = "changes", *, answers: bool = True) -> WrittenChanges:
        """Write records of the subscriptions topic as they are: (id, document) or (id, None), both in bytes, and a
        partition if it matters. For very many changes, or documents that only the job shall judge.

        Without `answers` nobody can wait for these changes, and they take no memory.
        """
        pending = PendingChanges()
        starts = self._status_ends() if answers else _UNWATCHED
        topic = self._settings.subscriptions.topic
        with self._progress(f"{what} to {topic}") as progress:
            taken = pending.take if answers else lambda _: None
            count = self._kafka.writer.write(topic, changes, progress, taken)
        return WrittenChanges(self._kafka.cluster, starts, pending, count)

    def compare(self, plan: ApplyPlan) -> None:
        """Compare a plan with the subscriptions topic. Write `plan.records(...)` to carry it out."""
        plan.compare(self._documents()(), self._decisions())

    def subscription(self, id: str) -> StoredSubscription:
        """The subscription with this id, as it is in the topic. Raises `NoSubscription`."""
        last = last_written(self._documents()(), [id], self._decisions())
        if id not in last or last[id].value is None:
            raise pause.NoSubscription(f"{pause.missing(id, last)} in {self._settings.subscriptions.topic}")
        return last[id]

    def subscriptions(
        self, *, subscriber: str | None = None, paused: bool | None = None, prefix: str = ""
    ) -> Iterator[StoredSubscription]:
        """The subscriptions in the topic: all, or those of a subscriber, those that are paused or not, and those whose
        id begins with `prefix`.

        Of each id the last document counts that the job does not refuse. It takes about 700 bytes of memory for each.
        """

        def is_wanted(document: Mapping[str, Any]) -> bool:
            by = subscriber is None or document.get("subscriber") == subscriber
            return by and (paused is None or document.get("paused", False) is paused)

        return stored_subscriptions(self._documents(), self._decisions(), prefix, is_wanted)

    def statuses(self, *ids: str) -> dict[str, SubscriptionStatus]:
        """The last status of each id: in force, paused, withdrawn or refused, and whether a later change waits for the
        job's answer."""
        statuses = self._reader(self._settings.subscriptions.status_topic, "statuses read")()
        return statuses_of(statuses, self._documents()(), ids)

    def deliveries(
        self,
        subscriber: str,
        *,
        group: str | None = None,
        follow: bool = True,
        from_now: bool = False,
        stop: Event | None = None,
    ) -> Deliveries:
        """Read the deliveries of a subscriber, in either layout: to the present end, or with `follow` on and on, until
        `stop` is set.

        Without a `group`, from the first delivery on. With one, from where the group has committed: several processes
        of the same group divide the partitions among them. `from_now` begins at the present end instead; with a group,
        only where that has committed nothing.
        """
        deliveries = Deliveries.opened(
            self._kafka.cluster,
            self._kafka.topics,
            DeliveryRule.of(self._settings.deliveries),
            subscriber,
            group=group,
            follow=follow,
            from_now=from_now,
            stop=stop or Event(),
        )
        self._open_deliveries.add(deliveries)
        return deliveries

    def _flag(self, ids: Collection[str], is_pause: bool) -> WrittenChanges:
        ids = dict.fromkeys(ids)
        records = pause.changed(last_written(self._documents()(), ids, self._decisions()), ids, is_pause)
        changes = self.write(records.values(), "pauses" if is_pause else "resumptions")
        changes.unchanged = tuple(id for id in ids if id not in records)
        return changes

    def _status_ends(self) -> change_acks.Starts | JobError:
        """The ends of the status topic, or the reason that nobody can wait: who only writes needs no right to read
        it."""
        try:
            return change_acks.starts(self._kafka.topics, self._settings.subscriptions.status_topic)
        except (TopicMissing, Forbidden) as error:
            return error

    @property
    def _kafka(self) -> _Connections:
        if self._opened is None:
            raise ValueError("the client is closed")
        return self._opened

    def _documents(self) -> Read:
        return self._reader(self._settings.subscriptions.topic, "documents read")

    def _decisions(self) -> Decisions:
        """The last decision of the job on each id."""
        statuses = self._reader(self._settings.subscriptions.status_topic, "statuses read")
        return decided(self._kafka.topics, self._settings, statuses)

    def _reader(self, topic: str, what: str) -> Read:
        """A function that reads a topic from its first record to its present end, as often as it is called."""

        def read() -> Iterator[Message | None]:
            with self._progress(what) as progress:
                for count, message in enumerate(clients.read(self._kafka.cluster, [topic], follow=False)):
                    if count % 1_000 == 0:
                        progress(count)
                    yield message

        return read


_UNWATCHED = JobError("these changes were written without `answers`, so their answers are unknown")


def _checked(document: Mapping[str, Any]) -> Writable:
    """The record of a document that the job does not refuse. Raises ChangeRefused."""
    try:
        value = json.dumps(document).encode()
        return read_change(None, value).subscription.id.encode(), value
    except TypeError as error:
        raise ChangeRefused({str(document["id"]): f"not JSON: {error}"}) from None
    except Refused as error:
        raise ChangeRefused({error.id or str(document["id"]): str(error)}) from None


def _withdrawal(id: str) -> Writable:
    if not id:
        raise ChangeRefused({id: "an id must have at least 1 character"})
    return id.encode(), None
