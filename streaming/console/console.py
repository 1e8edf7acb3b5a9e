"""Answer the questions of the console's pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from matchers.errors import MatchingError
from matchers.index.snapshot import Snapshot
from matchers.language.model import Pattern
from matchers.language.nesting import TOO_DEEP, is_too_deep
from matchers.language.parsing import parse
from streaming.codecs import Undecodable, decode_event
from streaming.console import search
from streaming.console.dead_letters import LastLetters, last_letters
from streaming.console.matching import EventMatches, EventScan
from streaming.console.search import FoundSubscription
from streaming.documents.subscriber_metrics import LookedUp, LookUp
from streaming.documents.subscriptions import Change, Rejected, read_change
from streaming.documents.verdicts import SubscriptionVerdict
from streaming.errors import JobError
from streaming.kafka import single_records
from streaming.kafka.clients import Cluster
from streaming.tenants import Tenants, topic_partition

SHOWN = 50  # subscriptions or subscribers
SHOWN_MATCHES = 100
SHOWN_LETTERS = 20
TIMEOUT_S = 5.0  # for Kafka


class StateMissing(JobError):
    """There is no state yet."""

    retry = True


class EventRejected(ValueError):
    """A text is no event that can be matched."""


class SubscriptionList(NamedTuple):
    found: list[FoundSubscription]
    has_more: bool
    metrics: LookedUp | None
    of_subscriber: int | None  # the number of the subscriber's; None: of no particular subscriber
    total: int  # in the state
    now_ms: int


class SubscriberList(NamedTuple):
    found: list[tuple[str, int]]  # a name, and the number of its subscriptions
    has_more: bool
    metrics: LookedUp | None


class StoredDocument(NamedTuple):
    """The document of a subscription in force or, without one, the reason."""

    text: bytes = b""
    change: Change | None = None
    pattern: Pattern | None = None  # with that of the tenant
    problem: str = ""


class SubscriptionDetails(NamedTuple):
    found: FoundSubscription
    document: StoredDocument
    metrics: LookedUp | None
    now_ms: int


class MatchAnswer(NamedTuple):
    matches: EventMatches
    verdict: SubscriptionVerdict | None  # of the subscription that was named
    problem: str  # why there is none
    max_per_event: int  # `matching.max_per_event`


@dataclass(frozen=True)
class Console:
    """`snapshot` returns the state in force, and `look_up` the metrics of subscribers and of subscriptions. One thread
    calls its methods. They raise JobError."""

    cluster: Cluster
    tenants: Tenants
    dead_letters_topic: str
    max_per_event: int
    snapshot: Callable[[], Snapshot | None]
    look_up: LookUp = lambda subscribers, subscriptions: None
    clock: Callable[[], float] = time.time
    _scan: EventScan = field(default_factory=lambda: EventScan(SHOWN_MATCHES))

    def subscriptions(self, part_of_id: str, subscriber: str) -> SubscriptionList:
        snapshot = self._state()
        found, has_more = search.subscriptions(snapshot, part_of_id, subscriber, SHOWN)
        metrics = self.look_up([], [one.id for one in found])
        of_subscriber = search.count(snapshot, subscriber) if subscriber else None
        return SubscriptionList(found, has_more, metrics, of_subscriber, len(snapshot), self._now_ms())

    def subscription(self, id: str) -> SubscriptionDetails | None:
        found = search.subscription(self._state(), id)
        if found is None:
            return None
        metrics = self.look_up([found.subscriber], [id])
        return SubscriptionDetails(found, self._document(found), metrics, self._now_ms())

    def subscribers(self, part_of_name: str) -> SubscriberList:
        found, has_more = search.subscribers(self._state(), part_of_name, SHOWN)
        return SubscriberList(found, has_more, self.look_up([name for name, _ in found], []))

    def dead_letters(self) -> LastLetters:
        return last_letters(self.cluster, self.dead_letters_topic, SHOWN_LETTERS, TIMEOUT_S)

    def matches(self, event: str, id: str) -> MatchAnswer:
        """Match an event, a JSON object, with all subscriptions; with an `id`, also explain why that one matches it or
        not. Raises EventRejected."""
        snapshot, now_ms = self._state(), self._now_ms()
        try:
            decoded = decode_event(event.encode("utf-8", "surrogatepass"))
            if is_too_deep(decoded):
                raise EventRejected(TOO_DEEP)
            matches = self._scan(snapshot, decoded, now_ms)
        except (Undecodable, MatchingError) as error:
            raise EventRejected(str(error)) from None
        verdict, problem = self._verdict(snapshot, id, decoded, now_ms) if id else (None, "")
        return MatchAnswer(matches, verdict, problem, self.max_per_event)

    def _verdict(
        self, snapshot: Snapshot, id: str, event: dict[str, Any], now_ms: int
    ) -> tuple[SubscriptionVerdict | None, str]:
        found = search.subscription(snapshot, id)
        if found is None:
            return None, "no subscription in force has this id"
        document = self._document(found)
        if document.change is None or document.pattern is None:
            return None, document.problem
        return SubscriptionVerdict.of(document.change, document.pattern, event, now_ms), ""

    def place(self, found: FoundSubscription) -> str:
        """The topic of its document, with the partition and the offset there."""
        tenant, partition = topic_partition(found.partition, self.tenants)
        return f"{tenant.topic} {partition}:{found.offset}"

    def _document(self, found: FoundSubscription) -> StoredDocument:
        """The document of a subscription, from the topic."""
        tenant, partition = topic_partition(found.partition, self.tenants)
        topic, at = tenant.topic, (partition, found.offset)
        try:
            message = single_records.record_at(self.cluster, topic, *at, TIMEOUT_S)
            if message is None:
                return StoredDocument(problem=f"{topic} does not have its record {at[0]}:{at[1]} any more")
            change = read_change(message.key(), message.value(), tenant)
        except (JobError, Rejected) as error:
            return StoredDocument(problem=str(error))
        if change.conjunctions is None or tenant.qualified(change.subscription.id) != found.id:
            return StoredDocument(problem=f"{topic} has another record at {at[0]}:{at[1]}: it was created anew")
        text = message.value() or b""
        return StoredDocument(text, change, tenant.narrowed(parse(orjson.loads(text)["pattern"])))

    def _state(self) -> Snapshot:
        if (snapshot := self.snapshot()) is None:
            raise StateMissing("the state is being restored; try again when the job is ready")
        return snapshot

    def _now_ms(self) -> int:
        return int(1_000 * self.clock())
