"""Decide who may publish for a query: one process claims its offsets; a process that was replaced commits nothing.

The metadata of each committed offset names the process that committed it, and how many slots the query has ever used.
A first start publishes statuses before it has offsets to commit; its metadata is marked, and the offset does not count.
Tasks add their progress (`streaming.progress`):

    3f0c1a 4
    3f0c1a 4 starting
    3f0c1a 4 {"job":17,...}

A state machine of four states tells what a claim, a fence and a lost answer lead to (docs/delivery-protocol.md,
"Ownership").
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from streaming.documents.records import Record
from streaming.errors import ClaimFailed, Fenced, JobError, Unsettled
from streaming.publishing.connection.client import Client
from streaming.publishing.connection.requests import CommittedOffset
from streaming.publishing.contract import Aborted, Offsets, ProducerEpoch, TopicPartition
from streaming.publishing.fencing import committed_offsets, fence_all, slot_name
from streaming.publishing.producer import TransactionalProducer
from streaming.publishing.slot import Slot

CLAIMS = 3  # attempts
TAKEOVER_S = 5.0  # in which a process that has fenced another claims the offsets
LOOK_EVERY_S = 0.1  # for such a claim
STARTING = "starting"


class Owner:
    """The process that publishes for a query: the only one, once it has claimed the committed offsets.

    Creating an owner aborts the transaction of every older one. `name` is unique to the process, or to the processes
    that a supervisor starts one after the other; every owner claims the offsets of `partitions`. With `again`, an
    earlier process of that name has claimed them: if a process of another name has committed afterwards, both were
    replaced, and nothing is opened. Raises Fenced, or another JobError.

    The broker fences a producer if another of its id was opened, but also if it was suspended beyond the timeout of a
    transaction. The names in the metadata of the offsets distinguish the two.

    `slots` is how many slots have ever published for the query. The metadata has it beside the name, so that the next
    process fences them all.
    """

    def __init__(
        self,
        client: Client,
        query: str,
        name: str,
        partitions: Sequence[TopicPartition] = (),
        *,
        again: bool = False,
    ) -> None:
        self.query = query
        self.name = name
        self.slots = 0
        self._client = client
        self._last: dict[TopicPartition, CommittedOffset] = {}  # what we committed last
        self._deciding = partitions
        self._partitions: Sequence[TopicPartition] = ()  # where another may have committed
        self._starting = False  # what we committed last does not count yet
        self._unfinished: set[TopicPartition] = set()  # whose offset is of a first start that has not ended
        # Tasks of that process may have left transactions open: who replaced it has committed all offsets before.
        noted = committed_offsets(client, query, partitions, stable=False)
        self._before = {_owner(offset.note) for offset in noted.values()}
        if again and not self._before <= {name}:
            raise self._fenced()
        self._producer = TransactionalProducer(client, query)

    @property
    def note(self) -> str:
        """Return the metadata of all offsets that this process commits for the query."""
        return f"{self.name} {self.slots}"

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets after claiming them. Partitions without one are left out, and so are those of a
        first start that has not ended. Raises Fenced if another process has taken over, or ClaimFailed."""
        self._partitions = partitions
        noted = committed_offsets(self._client, self.query, partitions)
        offsets = {at: offset for at, (offset, note) in noted.items() if not is_starting(note)}
        if not offsets:
            self._last, self._starting = _owned(noted), bool(noted)
            return {}
        try:
            self.publish([], offsets)
        except Fenced as fenced:
            if {owner for _, owner in self._committed(self._deciding).values()} != self._before:
                raise
            raise ClaimFailed(
                f"while this job took over, an older job with query.name = {self.query!r} or the broker ended its "
                "transaction; restart the job"
            ) from fenced
        self._last = {**_owned(noted), **self._last}
        self._unfinished = noted.keys() - offsets.keys()
        return offsets

    def claim(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit our last offsets of these partitions again. Raises Fenced if another process has taken over."""
        own = self._last.keys() - self._unfinished
        offsets = {at: self._last[at].offset for at in partitions if at in own}
        for attempt in range(CLAIMS):
            try:
                self.publish([], offsets, starting=self._starting)
                return
            except Aborted:
                if attempt + 1 == CLAIMS:
                    raise

    def is_last(self, client: Client) -> bool:
        """Whether no other process has claimed the offsets since. Asks by a client of its own, since it is for threads
        that do not publish."""
        noted = committed_offsets(client, self.query, self._deciding, stable=False)
        return {_owner(offset.note) for offset in noted.values()} <= {self.name}

    def keep(self) -> None:
        """Commit all our last offsets again: brokers delete offsets that were not committed for long, partition by
        partition. Call while no slot has a transaction. Raises Fenced if another process has taken over."""
        self.claim([*self._last])

    def fence_slots(
        self, partitions: Sequence[TopicPartition], least: int = 0
    ) -> tuple[list[ProducerEpoch], Mapping[TopicPartition, CommittedOffset]]:
        """Fence all slots that were ever used, at least `slots`; return their producers, and then the committed offsets
        of these partitions."""
        # The number is committed before the first transaction of a slot, so it can be read while some are open.
        noted = committed_offsets(self._client, self.query, partitions, stable=False).values()
        numbers = [word for offset in noted for word in offset.note.split(" ")[1:2]]  # behind the owner
        self.slots = max([least, self.slots, *(int(number) for number in numbers if number.isdigit())])
        slots = [Slot(self._client, slot_name(self.query, number), self.query) for number in range(self.slots)]
        producers = fence_all(self._client, slots)
        return producers, committed_offsets(self._client, self.query, partitions)

    def moved(self, offsets: Offsets) -> None:
        """Record the offsets that slots have committed."""
        self._last |= self._own(offsets)

    def publish(self, records: Iterable[Record], offsets: Offsets, *, starting: bool = False) -> tuple[float, float]:
        """Commit the records together with the offsets; return when sending and when committing ended (epoch s).

        With `starting` the offsets only mark that this process has begun a first start, so that an older process that
        was suspended in its own first start ends. Raises Aborted, Fenced, or another JobError; then nothing is visible.
        """
        try:
            note = f"{self.note} {STARTING}" if starting else self.note
            done = self._producer.publish(records, offsets, dict.fromkeys(offsets, note))
        except Unsettled as error:
            unsettled = error
        else:
            self._last |= self._own(offsets)
            self._mark(offsets, starting=starting)
            return done.sent_at, done.committed_at
        if self._reopened(offsets, timed_out=self._producer.is_timed_out):
            self._mark(offsets, starting=starting)
            return time.time(), time.time()
        raise Aborted("the transaction timed out (transaction.timeout.ms)", self._producer.newest) from unsettled

    def _mark(self, committed: Offsets, *, starting: bool) -> None:
        """Note whether these offsets, which were committed, count."""
        self._unfinished -= committed.keys()
        self._starting = starting if committed else self._starting

    def _reopened(self, tried: Offsets, *, timed_out: bool) -> bool:
        """Continue with a new producer after the old one was fenced; return whether the transaction was committed after
        all. Raises Fenced if another process has taken over, or ClaimFailed if none has, and yet the committed offsets
        are others.

        A producer fenced before its transaction could time out was fenced by another process, which may not have
        claimed the offsets yet. Opening a producer at once would fence that process in turn.
        """
        before, after = self._last, {**self._last, **self._own(tried)}
        ended = time.monotonic() + (0 if timed_out else TAKEOVER_S)
        opened = False
        while True:
            committed = self._committed({*self._partitions, *after})
            if self.slots:  # a slot of ours may have committed since, and its task died before it could report it
                moved = {at: now for at, now in committed.items() if at not in tried and now.note == self.name}
                before, after = before | moved, after | moved
            if committed not in (before, after):
                raise self._in_doubt(before, after, committed)
            if opened:
                break
            if time.monotonic() < ended:
                time.sleep(LOOK_EVERY_S)
            else:  # another may take over just before this, so look once more
                self._producer, opened = TransactionalProducer(self._client, self.query), True
        self._last = committed
        return committed == after != before

    def _committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets; their metadata is reduced to the owner."""
        return _owned(committed_offsets(self._client, self.query, partitions))

    def _own(self, offsets: Offsets) -> dict[TopicPartition, CommittedOffset]:
        return {at: CommittedOffset(offset, self.name) for at, offset in offsets.items()}

    def _in_doubt(
        self,
        before: Mapping[TopicPartition, CommittedOffset],
        after: Mapping[TopicPartition, CommittedOffset],
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> JobError:
        """The error for committed offsets that are neither those before a transaction nor those after it."""
        owners = {at: offset.note for at, offset in before.items()}
        if any(now.note not in (self.name, owners.get(at, self.name)) for at, now in committed.items()):
            return self._fenced()
        topic, partition = at = next(at for at in {**after, **committed} if committed.get(at) != after.get(at))
        found, expected = (str(of[at].offset) if at in of else "none" for of in (committed, after))
        return ClaimFailed(
            f"the broker ended a transaction of this job, and the committed offset of {topic}-{partition} is {found} "
            f"instead of {expected}, although no other job with query.name = {self.query!r} committed it; restart the "
            "job, which goes on from the committed offsets"
        )

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another job with query.name = {self.query!r} has taken over, so this one stops; nothing was lost. "
            "Two jobs that are to run side by side need two names."
        )


def is_starting(note: str) -> bool:
    """Whether the offset with this metadata does not count."""
    return note.endswith(f" {STARTING}")


def of_task(note: str) -> str:
    """Return the part of the metadata that a task has added, or ""."""
    _, _, added = note.rpartition(" ")
    return added if added.startswith("{") else ""


def _owned(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
    return {at: CommittedOffset(offset, _owner(note)) for at, (offset, note) in committed.items()}


def _owner(note: str) -> str:
    return note.partition(" ")[0]
