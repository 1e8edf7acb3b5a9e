"""The client: a method for each operation on subscriptions, deliveries, dead letters and past events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from matchers.language.parsing import parse
from streaming import tenants
from streaming.admin import change_acks, pause, start_position
from streaming.admin.apply_plan import said
from streaming.admin.change_acks import ChangeRejected, PendingChanges
from streaming.admin.dead_letters import DeadLetterFilter, StoredDeadLetter, read_letters, redriven_places
from streaming.admin.subscription_status import SubscriptionStatus, statuses_of
from streaming.admin.subscription_topic import (
    Read,
    StoredSubscription,
    decided,
    last_written,
    stored_subscriptions,
)
from streaming.client.changes import TIMEOUT_S, WrittenChanges
from streaming.client.deliveries import Deliveries
from streaming.client.starts import Starts
from streaming.codecs import RegistrySettings, open_codec
from streaming.codecs.depth import checked
from streaming.documents.change_order import Decisions
from streaming.documents.records import BY_KEY
from streaming.documents.starts import Start
from streaming.documents.subscriptions import Rejected, read_change
from streaming.documents.verdicts import SubscriptionVerdict
from streaming.errors import Forbidden, JobError, TopicMissing
from streaming.kafka import clients
from streaming.kafka.clients import Cluster, RecordWriter, Writable
from streaming.kafka.topics import Topics
from streaming.publishing.delivery import DeliveryRule
from streaming.tenants import Tenant

if TYPE_CHECKING:
    from confluent_kafka import Message

    from config.model import Settings
    from streaming.admin.apply_plan import ApplyPlan
    from streaming.admin.backtest import Backtest
    from streaming.admin.redrive import RedriveOutcome, RedriveSummary
    from streaming.admin.replay import Replay


ALL_DEAD_LETTERS = DeadLetterFilter()


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
    """Access to the topics of a job, whether the job is running or not.

    A client connects when a method first needs the broker. Threads may share a client; only one thread at a time may
    use an iterator or a result. `close`, or the end of the `with` block, closes the connections.

    An error that the caller can handle is a `JobError`. Its text states the reason and the remedy, and `retry` is True
    if the same call may succeed later.
    """

    def __init__(self, settings: Settings, progress: ProgressReport = _silent) -> None:
        """Pass the settings of the job, such as `config.load("sluice.toml")`. With `settings.of_tenant("acme")` the
        client reads and writes the subscriptions of that tenant. `progress` is called for each long read or write
        with the name of the things it counts; it returns a context manager whose value is a function that takes the
        number so far."""
        self._settings = settings
        self._tenant = tenants.own(settings)
        self._progress = progress
        self._opened: _Connections | None = _Connections.of(settings)
        self._open_deliveries: WeakSet[Deliveries] = WeakSet()
        self._closing = Lock()  # of what is open

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and all open deliveries."""
        with self._closing:
            opened, self._opened = self._opened, None  # an admin client ends with the last reference
            open_deliveries = list(self._open_deliveries)
        with ExitStack() as last:  # each is closed even if another one fails
            if opened is not None:
                last.callback(opened.writer.close)
            for deliveries in open_deliveries:
                last.callback(deliveries.close)

    def _closed_with_us(self, deliveries: Deliveries) -> None:
        """Close the deliveries with the client, at once if another thread has closed that meanwhile."""
        with self._closing:
            self._open_deliveries.add(deliveries)
            is_open = self._opened is not None
        if not is_open:
            deliveries.close()

    def subscribe(
        self,
        id: str,
        subscriber: str,
        pattern: Mapping[str, Any],
        *,
        expires_at: str | None = None,
        paused: bool = False,
        start: Start | None = None,
    ) -> WrittenChanges:
        """Add a subscription, or replace the one with this id. SUBSCRIPTIONS.md describes the values. With a `start`
        (see `begin`), `catch_up` delivers the past events.

        Raises `ChangeRejected` and writes nothing if the document is invalid.
        """
        document: dict[str, Any] = {"id": id, "subscriber": subscriber, "pattern": pattern}
        if expires_at is not None:
            document["expires_at"] = expires_at
        if paused:
            document["paused"] = True
        if start is None:
            return self.write([_checked(document, self._tenant)], "subscriptions")
        return self.begin([_checked(document, self._tenant)], start)

    def begin(self, documents: Iterable[tuple[bytes, bytes]], start: Start) -> WrittenChanges:
        """Write documents together with the start of their past events. A document is (id, document), both in bytes.
        The start is "oldest", a time in milliseconds since the epoch, or an offset by (topic, partition); a partition
        without an offset starts now.

        A document that the topic already has is not written again, so the call may be repeated after a crash. Raises
        `JobError` and writes nothing if a document is paused.
        """
        wanted = {id.decode(): document for id, document in documents}
        if paused := [id for id, document in wanted.items() if read_change(id.encode(), document, self._tenant).paused]:
            raise JobError(f"{', '.join(map(repr, paused))}: a paused subscription has no start; nothing was written")
        last = last_written(self._documents()(), wanted, self._decisions(wanted), self._tenant)
        new = [id for id, document in wanted.items() if id not in last or not _says(last[id], document)]
        header = start_position.header_of(start_position.offsets_of(self._kafka.cluster, self._settings, start))
        partitions = {id: last[id].partition if id in last else BY_KEY for id in new}
        records = ((id.encode(), wanted[id], partitions[id], header) for id in new)
        changes = self.write(records, "subscriptions", answers=True)
        changes.unchanged = tuple(id for id in wanted if id not in partitions)
        return changes

    @contextmanager
    def catch_up(self, id: str, start: Start | None = None, *, timeout_s: float = TIMEOUT_S) -> Iterator[Replay]:
        """Open the replay of a subscription's past events for a `with` block. It delivers the events from the start of
        the subscription up to its first live event, each once. `Replay.run` runs it.

        Waits until the subscription is in force. The start is the one given to `subscribe`, `begin` or `resume`, else
        `from` in the document, else `start`. After a crash the same call continues the replay. Raises `NotJoined` if
        there is no start, if the subscription is paused, or if it is changed while this call waits.
        """
        from streaming.admin import replay

        with replay.joined(self._settings, id, start, timeout_s) as open_replay:
            yield open_replay

    def starts(
        self,
        *,
        follow: bool = True,
        stop: Event | None = None,
        skipped: Callable[[str], object] = lambda id: None,
    ) -> Starts:
        """Read the ids of subscriptions whose documents have `from`, as the consumer group `QUERY.catch-up`. The
        iterator ends when `stop` is set or, without `follow`, at the current end of the topic.

        An id is read again after a restart until it is committed. A document that was written more than six days ago
        is passed to `skipped` instead, because the brokers may have forgotten that its past events were delivered.
        """
        topic, kafka = self._settings.subscriptions.topic, self._kafka
        kafka.topics.required([topic], "`run_stream.py topics create` creates the topics of the job")
        group = ".".join(filter(None, (self._settings.query.name, "catch-up", self._tenant.name)))
        records = Deliveries.of_group(
            kafka.cluster,
            kafka.topics,
            topic,
            group,
            follow,
            stop or Event(),
            **_LONG_WORK,
        )
        self._closed_with_us(records)
        return Starts(records, skipped)

    def unsubscribe(self, *ids: str) -> WrittenChanges:
        """Remove subscriptions. Earlier deliveries stay in the subscriber's topic."""
        return self.write([_deletion(id) for id in ids], "deletions")

    def pause(self, *ids: str) -> WrittenChanges:
        """Pause subscriptions: they match nothing until they are resumed. Raises `NoSubscription` and writes nothing
        if an id is unknown."""
        return self._flag(ids, True)

    def resume(self, *ids: str, catch_up: bool = False, timeout_s: float = TIMEOUT_S) -> WrittenChanges:
        """Resume paused subscriptions. Raises `NoSubscription` and writes nothing if an id is unknown.

        With `catch_up=True`, the method `catch_up` then delivers the events that arrived during the pause. The call
        waits until the job has answered the pause.
        """
        return self._flag(ids, False, timeout_s if catch_up else None)

    def write(
        self, changes: Iterable[Writable], what: str = "changes", *, answers: bool | None = None
    ) -> WrittenChanges:
        """Write records to the subscriptions topic without checking them. A record is (id, document), or (id, None) to
        unsubscribe, both in bytes; a third item may name the partition. Use it for very many changes.

        If the status topic cannot be read, `wait` raises the error; with `answers=True`, this call raises it and writes
        nothing. With `answers=False` the changes take no memory, and `wait` is not possible.
        """
        pending = PendingChanges()
        starts = _UNWATCHED if answers is False else self._status_ends(required=answers is True)
        topic = self._settings.subscriptions.topic
        with self._progress(f"{what} to {topic}") as progress:
            taken = pending.take if starts is not _UNWATCHED else lambda _: None
            count = self._kafka.writer.write(topic, changes, progress, taken)
        return WrittenChanges(self._kafka.cluster, starts, pending, count)

    def compare(self, plan: ApplyPlan) -> None:
        """Compare a plan with the subscriptions topic. To carry it out, `write` the records of `plan.records`."""
        plan.compare(self._documents()(), self._decisions())

    def subscription(self, id: str) -> StoredSubscription:
        """Return the subscription with this id from the topic. Raises `NoSubscription`."""
        last = last_written(self._documents()(), [id], self._decisions([id]), self._tenant)
        if id not in last or last[id].value is None:
            raise pause.NoSubscription(f"{pause.missing(id, last)} in {self._settings.subscriptions.topic}")
        return last[id]

    def subscriptions(
        self, *, subscriber: str | None = None, paused: bool | None = None, prefix: str = ""
    ) -> Iterator[StoredSubscription]:
        """Iterate over the subscriptions in the topic. The arguments select them by subscriber, by whether they are
        paused, and by the beginning of their ids.

        For each id, the last document that the job accepts counts. Needs about 700 bytes of memory per subscription.
        """

        def is_wanted(document: Mapping[str, Any]) -> bool:
            by = subscriber is None or document.get("subscriber") == subscriber
            return by and (paused is None or document.get("paused", False) is paused)

        return stored_subscriptions(self._documents(), self._decisions(), prefix, is_wanted, self._tenant)

    def statuses(self, *ids: str) -> dict[str, SubscriptionStatus]:
        """Return the last status of each id: accepted, paused, unsubscribed or rejected, and whether a later change has
        no answer yet."""
        statuses = self._reader(self._settings.subscriptions.status_topic, "statuses read")()
        topic = self._settings.subscriptions.topic
        topic_id = self._kafka.topics.ids([topic], TIMEOUT_S).get(topic, "")
        return statuses_of(statuses, self._documents()(), ids, topic_id)

    def deliveries(
        self,
        subscriber: str,
        *,
        group: str | None = None,
        follow: bool = True,
        from_now: bool = False,
        stop: Event | None = None,
    ) -> Deliveries:
        """Read a subscriber's deliveries until `stop` is set or, without `follow`, to the current end of the topic.

        Without a `group`, reading begins with the first delivery. With one, it begins after the last delivery that the
        group committed, and the readers of a group share the partitions. With `from_now` it begins at the current end;
        with a group, only in partitions without a committed offset, and that end is committed at once.
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
        self._closed_with_us(deliveries)
        return deliveries

    def dead_letters(
        self, wanted: DeadLetterFilter = ALL_DEAD_LETTERS, *, redriven: bool = False
    ) -> Iterator[StoredDeadLetter]:
        """Iterate over the dead letters that pass a filter, in order within each partition. With `redriven`, include
        the dead letters that were already sent again."""
        cluster, topic = self._kafka.cluster, self._settings.dead_letters.topic
        letters = read_letters(cluster, topic, wanted, redriven_places(cluster, topic))
        return (letter for letter in letters if redriven or not letter.redriven)

    def redrive(
        self,
        wanted: DeadLetterFilter,
        *,
        dry_run: bool = False,
        taken: Callable[[RedriveOutcome], object] = lambda outcome: None,
    ) -> RedriveSummary:
        """Send the dead letters that pass a filter again: events and subscriptions to their topics, deliveries to their
        subscriber. Each is sent once, even if the call is repeated.

        `taken` is called with the outcome for each dead letter. A `dry_run` sends nothing.
        """
        from streaming.admin import redrive  # loads numba, as all do that match or publish

        summary = redrive.RedriveSummary(dry=dry_run)
        with redrive.opened(self._settings, dry_run) as open_redrive:
            for outcome in open_redrive.run(wanted):
                summary.counts[outcome.what] += 1
                taken(outcome)
        return summary

    @contextmanager
    def replay(
        self, id: str, *, from_ms: int | None = None, to_ms: int | None = None, name: str | None = None
    ) -> Iterator[Replay]:
        """Open a replay for a `with` block. It matches past events with the current document of one subscription and
        delivers each matching event once. `Replay.run` runs it.

        A new replay covers the events from `from_ms` up to, but not including, `to_ms` (milliseconds since the epoch;
        default: now). The `name` of an earlier replay continues it. The default name is derived from the subscription
        and the range.
        """
        from streaming.admin import replay

        if name is None and from_ms is None:
            raise ValueError("pass from_ms to start a replay, or name to resume one")
        if name is not None and not replay.NAME.fullmatch(name):
            raise ValueError("the name of a replay must have 1 to 100 letters, digits, dots, underscores or hyphens")
        with replay.opened(self._settings, id, from_ms, to_ms, name) as open_replay:
            yield open_replay

    def backtest(
        self, pattern: Any, *, from_ms: int, to_ms: int | None = None, examples: int = 3, stop: Event | None = None
    ) -> Backtest:
        """Match a pattern with past events. Returns how many match, counts by time, and the first matches. Nothing is
        written.

        Covers the events from `from_ms` up to, but not including, `to_ms` (milliseconds since the epoch; default: now);
        `stop` ends it earlier.
        """
        from streaming.admin import backtest

        with self._progress("offsets") as progress:
            try:
                return backtest.run(self._settings, pattern, from_ms, to_ms, examples, stop or Event(), progress)
            except Rejected as reason:
                raise JobError(str(reason)) from None

    def explain(
        self, event: Mapping[str, Any] | bytes, *, id: str | None = None, subscriber: str | None = None
    ) -> list[SubscriptionVerdict]:
        """Explain why an event matches or does not match the subscription with this id, the subscriptions of a
        subscriber, or all subscriptions. Bytes are decoded with `events.codec`.

        Raises `NoSubscription` for an unknown id, and `Undecodable` for bytes that are not an event.
        """
        if isinstance(event, bytes):
            registry = self._settings.schema_registry
            decode = open_codec(self._settings.events.codec, RegistrySettings.of(registry.url, registry.options))
            event = decode(event, {})
        event, now_ms = checked(dict(event)), int(1_000 * time.time())
        chosen = self.subscriptions(subscriber=subscriber) if id is None else [self.subscription(id)]
        return [
            SubscriptionVerdict.of(one.change, self._tenant.narrowed(parse(one.document["pattern"])), event, now_ms)
            for one in chosen
            if subscriber in (None, one.change.subscription.subscriber)
        ]

    def _flag(self, ids: Collection[str], is_pause: bool, catch_up_s: float | None = None) -> WrittenChanges:
        ids = dict.fromkeys(ids)
        last = last_written(self._documents()(), ids, self._decisions(ids), self._tenant)
        records: dict[str, Writable] = {**pause.changed(last, ids, is_pause)}
        if catch_up_s is not None:
            words = {id: last[id] for id in records}
            starts = start_position.withheld_from(self._kafka.cluster, self._settings, words, catch_up_s)
            records = {id: (*records[id], start_position.header_of(starts[id])) for id in records}
        changes = self.write(records.values(), "pauses" if is_pause else "resumptions")
        changes.unchanged = tuple(id for id in ids if id not in records)
        return changes

    def _status_ends(self, required: bool) -> change_acks.Starts | JobError:
        """The ends of the status topic or, unless they are required, the reason that there are none: who only writes
        needs no right to read it."""
        try:
            return change_acks.starts(self._kafka.topics, self._settings.subscriptions.status_topic)
        except (TopicMissing, Forbidden) as error:
            if required:
                raise
            return error

    @property
    def _kafka(self) -> _Connections:
        if self._opened is None:
            raise ValueError("the client is closed")
        return self._opened

    def _documents(self) -> Read:
        return self._reader(self._settings.subscriptions.topic, "documents read")

    def _decisions(self, ids: Collection[str] | None = None) -> Decisions:
        """The last decision of the job on each of these ids; None: on every id."""
        statuses = self._reader(self._settings.subscriptions.status_topic, "statuses read")
        return decided(self._kafka.topics, self._settings, statuses, ids)

    def _reader(self, topic: str, what: str) -> Read:
        """A function that reads a topic from its first record to its present end, as often as it is called."""

        def read() -> Iterator[Message | None]:
            with self._progress(what) as progress:
                for count, message in enumerate(clients.read(self._kafka.cluster, [topic], follow=False)):
                    if count % 1_000 == 0:
                        progress(count)
                    yield message

        return read


# A replay may take hours between two reads. A process that is killed is noticed by its missing heartbeats.
_LONG_WORK: dict[str, Any] = {"max_poll_interval_ms": 86_400_000, "session_timeout_ms": 10_000}
_UNWATCHED = JobError("these changes were written without `answers`, so their answers are unknown")


def _checked(document: Mapping[str, Any], tenant: Tenant) -> tuple[bytes, bytes]:
    """The record of a document that the job does not reject. Raises ChangeRejected."""
    try:
        value = json.dumps(document).encode()
        return read_change(None, value, tenant).subscription.id.encode(), value
    except Rejected as error:
        raise ChangeRejected({error.id or str(document["id"]): str(error)}) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ChangeRejected({str(document["id"]): f"not JSON: {error}"}) from None


def _says(word: StoredSubscription, document: bytes) -> bool:
    """Whether a document has the meaning of the one that the topic has."""
    id = word.id.encode()
    return word.value is not None and said(id, word.value) == said(id, document)


def _deletion(id: str) -> Writable:
    if not id:
        raise ChangeRejected({id: "an id must have at least 1 character"})
    return id.encode(), None
