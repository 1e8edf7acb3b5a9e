"""Find where a subscription begins and where its live deliveries take over, so that a replay joins both exactly.

A document may name its start as `from`. A record of the subscriptions topic may carry one too, in its header
`sluice_start`, which then counts: for each partition of the topics of events the first offset to deliver,
`{"events": {"0": 120}}`. A partition that the header does not name begins with its first event. The status of the same
change names the offsets from which the job matches it. A replay delivers what lies between (`replay.joined`), under a
name made of the place of the record. So each step leaves in Kafka what the next one needs:

    record with its start    one record: the document is never there without its start
    status                   by the job; the topic keeps the last one of each id
    range of the replay      a note, committed before any event is read
    deliveries               transactions with the offsets reached

Whoever repeats a command that was killed after any of them finds the last document of the id unchanged, writes nothing,
and goes on with the same replay.

The start of a resumption is where the pause came into force. Only the status of the pause has that offset, and the
status of the resumption replaces it. So it is read first, and then written into the record of the resumption.

Two processes that write the same id at the same time may both find it unwritten; the past events then come once for
each of their two records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import orjson

from streaming.admin import change_acks
from streaming.admin.change_acks import ChangeRejected, PendingChanges, Unanswered
from streaming.admin.subscription_topic import StoredSubscription
from streaming.documents.change_order import records_read
from streaming.documents.messages import partition_of
from streaming.documents.records import START
from streaming.documents.starts import OLDEST, Offsets, Start, as_json, parsed_offsets
from streaming.errors import JobError
from streaming.kafka import clients, times
from streaming.kafka.clients import Cluster, NewHeaders
from streaming.kafka.event_topics import resolved
from streaming.kafka.times import Place, Span

if TYPE_CHECKING:
    from config.model import Settings

GOES_ON = "The same command goes on from here, once a job answers; nothing is lost"  # after Unanswered
Status = Mapping[str, Any]


class NotJoined(JobError):
    """A replay cannot end where the live deliveries of a subscription begin: the subscription is paused, was changed,
    or has no start."""


def header_of(start: Offsets) -> NewHeaders:
    """The header of a record with this start."""
    return {START: orjson.dumps(as_json(start))}


def start_of(word: StoredSubscription) -> Offsets | None:
    """The start in the header of a record, if it has one. Raises NotJoined for one that nobody here has written."""
    if word.start is None:
        return None
    try:
        return parsed_offsets(orjson.loads(word.start))
    except ValueError:
        raise NotJoined(
            f"the header {START} of the subscription {word.id!r} has no offsets by topic and partition; write "
            "the subscription again"
        ) from None


def offsets_of(cluster: Cluster, settings: Settings, start: Start) -> Offsets:
    """The offset in each partition of the topics of events at which a start lies now.

    Offsets may be given for some partitions only; the others begin at their present end. Raises NotJoined for a
    partition that is not there, and other JobErrors.
    """
    settings = resolved(settings, cluster.topics().partitions)
    there = cluster.topics().required(settings.events.names)
    with closing(cluster.reader()) as consumer:
        bounds = times.bounds(consumer, [(topic, p) for topic, count in there.items() for p in range(count)])
        if start == OLDEST:
            return {at: low for at, (low, _) in bounds.items()}
        if isinstance(start, int):
            return {at: begin for at, (begin, _) in times.between(consumer, bounds, start, None).items()}
    assert not isinstance(start, str)
    if unknown := [f"{topic}/{partition}" for topic, partition in start if (topic, partition) not in bounds]:
        known = ", ".join(f"{topic}/0 to {topic}/{count - 1}" for topic, count in there.items())
        raise NotJoined(f"the topics of events have no partition {', '.join(unknown)}; known: {known}")
    return {at: start.get(at, high) for at, (_, high) in bounds.items()}


def until_live(bounds: Mapping[Place, Span], start: Offsets, live: Offsets) -> dict[Place, Span]:
    """The offsets of each partition from the start up to where live deliveries begin, without what is deleted already.

    The job matches a partition that `live` does not name from its first event on.
    """
    spans = {}
    for at, (low, _) in bounds.items():
        end = max(low, live.get(at, low))
        spans[at] = (min(max(low, start.get(at, 0)), end), end)
    return spans


def withheld_from(
    cluster: Cluster, settings: Settings, paused: Mapping[str, StoredSubscription], timeout_s: float
) -> dict[str, Offsets]:
    """The offsets from which each of these subscriptions, whose last documents are paused, was withheld.

    A document that replaced a paused one and is paused too goes on with its pause, as far back as the topic still has
    the statuses. Waits for the status of a pause. Raises JobError.
    """
    found = {}
    for id, statuses in answered(cluster, settings, paused, timeout_s).items():
        if not statuses:
            raise JobError(
                f"the status of the pause of {id!r} was replaced by that of a later, rejected change, so the offset of "
                f"the pause is unknown. Nothing was written; run `resume {id}`, then "
                f"`replay {id} --from TIME --to TIME`"
            )
        found[id] = live_from(settings, paused_first(statuses))
    return found


def paused_first(statuses: Iterable[Status]) -> Status:
    """The first of the pauses without a break between them that end these statuses."""
    *before, first = statuses
    for status in reversed(before):
        if status["status"] != "paused":
            break
        first = status
    return first


def live_from(settings: Settings, status: Status) -> Offsets:
    """The offsets from which the change of a status is in force, by topic and partition of events."""
    offsets = status["in_force_from"]
    if all(isinstance(of_topic, Mapping) for of_topic in offsets.values()):
        return {(topic, int(p)): offset for topic, of_topic in offsets.items() for p, offset in of_topic.items()}
    if len(settings.events.names) > 1:
        raise NotJoined(
            f"the status of {status['id']!r} names no topic, since it is from a run with a single topic of events; the "
            f"topics are {', '.join(settings.events.names)}. `replay {status['id']} --from TIME --to TIME` replays "
            "past events"
        )
    (topic,) = settings.events.names
    return {(topic, int(p)): offset for p, offset in offsets.items()}


def answered(
    cluster: Cluster, settings: Settings, words: Mapping[str, StoredSubscription], timeout_s: float
) -> dict[str, list[Status]]:
    """The statuses of each of these last words, oldest first, up to the one that answers it; waits until it is there.

    Empty for a word that was answered, and whose status the topic no longer has. Raises ChangeRejected, Unanswered, and
    NotJoined if a later change took its place.
    """
    starts = change_acks.starts(cluster.topics(), settings.subscriptions.status_topic)
    histories = _histories(cluster, settings, words)
    pending = PendingChanges()
    for id, word in words.items():
        if not any(_is_of(status, word) or _has_read(status, word) for status in histories[id]):
            pending.add(id, word.partition, word.offset)
    if pending:
        try:
            for ack in change_acks.answers(cluster, starts, pending, timeout_s):
                if ack.rejected:
                    raise ChangeRejected({ack.id: ack.reason})
                if ack.superseded:
                    raise NotJoined(f"{ack.id}: {ack}; repeat the command to continue with that change")
        except Unanswered as unanswered:
            raise Unanswered(f"{unanswered}. {GOES_ON}") from None
        histories = _histories(cluster, settings, words)
    return {id: _up_to(word, histories[id]) for id, word in words.items()}


def _histories(cluster: Cluster, settings: Settings, ids: Iterable[str]) -> dict[str, list[Status]]:
    """The statuses of each id by this job that the topic still has, oldest first."""
    topic = settings.subscriptions.topic
    topic_id = cluster.topics().id(topic)
    found: dict[bytes, list[tuple[int, Status]]] = {id.encode(): [] for id in ids}
    for record in clients.read(cluster, [settings.subscriptions.status_topic], follow=False):
        if record is None or (value := record.value()) is None or (key := record.key() or b"") not in found:
            continue
        status = orjson.loads(value)
        if (status.get("query"), status.get("topic_id")) == (settings.query.name, topic_id):
            found[key].append((partition_of(record), status))
    return {id.decode(): oldest_first(statuses) for id, statuses in found.items()}


def oldest_first(statuses: Collection[tuple[int, Status]]) -> list[Status]:
    """Order the statuses of an id, each with its partition. They lie in one, in order, unless partitions were added."""
    found = [status for _, status in statuses]
    return sorted(found, key=records_read) if len({partition for partition, _ in statuses}) > 1 else found


def _up_to(word: StoredSubscription, statuses: Iterable[Status]) -> list[Status]:
    """The statuses up to that of a word, of changes that counted; empty if that is not among them."""
    counting = [s for s in statuses if s["status"] != "rejected" and "superseded_by" not in s]
    while counting and not _is_of(counting[-1], word):
        counting.pop()
    return counting


def _is_of(status: Status, word: StoredSubscription) -> bool:
    change: Mapping[str, int] = status["change"]
    return (change["partition"], change["offset"]) == (word.partition, word.offset)


def _has_read(status: Status, word: StoredSubscription) -> bool:
    return bool(word.offset < status["read_up_to"].get(str(word.partition), 0))
