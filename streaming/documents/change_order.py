"""Decide which change of a subscription counts if its changes lie in several partitions.

Kafka orders the records of one partition. The changes of one id can lie in several: partitions are added, and clients
place keys in different ways. So the job decides, batch by batch:

- A change that a later batch takes into account comes after all changes of earlier batches.
- Within a batch the changes of a partition come in their order. If an id has changes in several partitions, those of
  the partition whose last one has the latest timestamp come last; of equal timestamps, those of the highest partition.
- What a first start finds in the topic is one batch.

The statuses keep the decisions. A state that is built from the topic, and every command that reads it, uses them
first. So all follow one order, even where compaction, which cleans each partition by itself, has removed a tombstone
in one partition and left an older document in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from confluent_kafka import Message

from streaming.documents.messages import partition_of
from streaming.tenants import ANYBODY, OWN, Tenant, change_partition

What = TypeVar("What")

RecordPosition = tuple[int, int]  # partition and offset of a record of the subscriptions topic


class Decision(NamedTuple):
    """The last decision of the job on an id."""

    word: RecordPosition | None  # the last change that was not rejected; None: there is none, or it is unsubscribed
    unsubscribed: bool  # that change is a deletion
    rejected: bool  # a later change was rejected
    read_up_to: Mapping[int, int]  # partition -> offset of the first change that was not read then

    def answers(self, partition: int, offset: int) -> bool:
        """Whether the job had read that change."""
        return offset < self.read_up_to.get(partition, 0)

    @property
    def in_force(self) -> RecordPosition | None:
        """The change whose document is in force, or paused."""
        return None if self.unsubscribed else self.word


def records_read(status: Mapping[str, Any]) -> int:
    """The offsets that the job had read in the subscriptions topic of a status, added up: a number that only grows. The
    version of the state falls when a tenant is left out; it serves for old statuses, which have no `read_up_to`."""
    read_up_to: Mapping[str, int] = status.get("read_up_to", {})
    return sum(read_up_to.values()) or int(status.get("version", 0))


class Decisions:
    """The last decision on each id, from the records of the status topic; about 450 bytes of memory each.

    `follows` decides which queries' statuses count. Statuses with another `topic_id` are left out, since their
    offsets mean nothing here: a topic that was deleted and created again has another id. Statuses of earlier versions,
    which do not name the query, are left out too. With a `tenant`, ids have its name and partitions
    its number in them.
    """

    def __init__(
        self,
        topic_id: str = "",
        follows: Callable[[str], bool] = lambda query: True,
        statuses: Iterable[Message | None] = (),
        tenant: Tenant = ANYBODY[OWN],
    ) -> None:
        self._topic_id, self._follows, self._tenant = topic_id, follows, tenant
        self._by_id: dict[bytes, tuple[int, int, Decision]] = {}  # with the status's partition and its `records_read`
        self._offsets: dict[bytes, dict[int, int]] = {}  # all statuses of a batch share one
        for status in statuses:
            if status is not None:
                self.take(status)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[bytes, Decision]]:
        return ((id, decision) for id, (_, _, decision) in self._by_id.items())

    def get(self, id: bytes) -> Decision | None:
        decision = self._by_id.get(id)
        return decision and decision[2]

    def update(self, others: Decisions) -> None:
        """Add those on the ids of another tenant."""
        self._by_id.update(others._by_id)

    def take(self, status: Message) -> None:
        """Add a record of the status topic, after those before it in its partition."""
        try:
            document = orjson.loads(status.value() or b"null")
        except orjson.JSONDecodeError:
            return  # not written by a job
        if not isinstance(document, dict) or document.get("topic_id") != self._topic_id:
            return
        if not self._follows(document["query"]) or "superseded_by" in document:  # the change that counts has its own
            return
        # A status without a key is none of the job's.
        id = self._tenant.qualified_key(status.key() or b"")
        partition, read = partition_of(status), records_read(document)
        before = self._by_id.get(id)
        if before is not None and before[0] != partition and before[1] > read:
            return  # the status topic, too, may have got more partitions
        state = document["status"]
        word = document["in_force"] if state == "rejected" else document["change"]
        decision = Decision(
            word and (change_partition(self._tenant.number, word["partition"]), word["offset"]),
            state == "unsubscribed",
            state == "rejected",
            self._shared(document["read_up_to"]),
        )
        self._by_id[id] = partition, read, decision

    def _shared(self, read_up_to: Mapping[str, int]) -> Mapping[int, int]:
        key = orjson.dumps(read_up_to)
        if key not in self._offsets:
            of = self._tenant.number
            self._offsets[key] = {change_partition(of, int(p)): offset for p, offset in read_up_to.items()}
        return self._offsets[key]


class _Word(NamedTuple):
    """The last change of an id in one partition. Among several partitions the greatest counts."""

    undecided: bool  # the job had not read it when it decided last
    timestamp_ms: int
    partition: int
    offset: int
    what: Any


class LastWords(Generic[What]):
    """The last change of each id that counts; about 250 bytes of memory for each id.

    It takes all changes that were not rejected, those of a partition in order. A change that the job has decided on is
    left out unless it is the last one.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._words: dict[bytes, _Word | list[_Word]] = {}  # a list for the few that have words in several partitions

    def take(self, id: bytes, partition: int, offset: int, timestamp_ms: int, what: What) -> None:
        decision = self._decisions.get(id)
        undecided = decision is None or not decision.answers(partition, offset)
        if not undecided and decision is not None and decision.word != (partition, offset):
            return
        word = _Word(undecided, timestamp_ms, partition, offset, what)
        before = self._words.get(id)
        if before is None or (isinstance(before, _Word) and before.partition == partition):
            self._words[id] = word
            return
        others = [before] if isinstance(before, _Word) else before
        self._words[id] = [*(other for other in others if other.partition != partition), word]

    @property
    def contested(self) -> bool:
        """Whether an id has changes in several partitions."""
        return any(isinstance(words, list) for words in self._words.values())

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, id: bytes) -> bool:
        return id in self._words

    def __iter__(self) -> Iterator[tuple[bytes, int, int, What]]:
        """(id, partition, offset, what) of each."""
        for id, words in self._words.items():
            word = words if isinstance(words, _Word) else max(words)
            yield id, word.partition, word.offset, word.what
