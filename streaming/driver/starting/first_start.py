"""Publish the statuses of all subscriptions at the first start of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

import numpy as np

from matchers.index.texts import Texts
from streaming.documents import records
from streaming.documents.records import Record
from streaming.driver.attempts import commit
from streaming.driver.batch_order import Last
from streaming.driver.composition import Composition, Outputs, TopicNames, in_force_from
from streaming.index import notes
from streaming.publishing.ownership import Owner
from streaming.rows import AcceptedChange, ConsumerRecord, RejectedChange, SourcePartition, is_events
from streaming.state.first_load import Chosen, Slice

STATUSES_PER_TRANSACTION = 10_000  # changes, in a transaction of the first start


def publish_statuses(
    owner: Owner,
    names: TopicNames,
    outputs: Outputs,
    slices: Sequence[Slice],
    chosen: Sequence[Chosen],
    positions: Mapping[SourcePartition, int],
) -> None:
    """Publish the statuses of all subscriptions at the first start, and commit the offsets where reading begins.

    The last change of each id has a status, and so has every rejected change; superseded changes have none. After a
    crash before the end it is repeated: statuses may then be written twice, with the same content. It claims the query
    first, by the topics of subscriptions: another first start that slept does not publish statuses beside it, and
    offsets of events that are committed still count.
    """

    def answer(statuses: Iterator[Record]) -> None:
        while some := list(islice(statuses, STATUSES_PER_TRANSACTION)):
            commit(owner, names, partial(iter, some), {})

    of_changes = {at: offset for at, offset in positions.items() if not is_events(at[0])}
    commit(owner, names, tuple, of_changes, starting=True)
    rejected = [row for slice_ in slices for row in slice_.rejections]
    last = _last_words(slices, chosen, {row.id for row in rejected if row.id})
    composition = Composition(names, in_force_from(positions, names), last)
    late = [row for row in rejected if _is_later(row, last)]
    early = [row for row in rejected if not _is_later(row, last)]
    answer(chain.from_iterable(map(composition.answer, early)))
    for slice_, chosen_rows in zip(slices, chosen, strict=True):
        kept = np.flatnonzero(chosen_rows.subscriptions)
        subscribers = notes.subscribers(slice_.segment).at(kept)
        outputs.missing(set(map(names.delivery_topic, set(subscribers))))
        offsets = notes.numbers(slice_.segment, "offset")[kept].tolist()
        changes = zip(slice_.segment.ids.at(kept), subscribers, offsets, slice_.paused[kept].tolist(), strict=True)
        tenant, partition = names.of_change(slice_.partition)
        own = ((tenant.unqualified(id), *of_change) for id, *of_change in changes)
        topic, since = names.status_topic(tenant), composition.since(tenant)
        answer(records.statuses(topic, partition, own, since))
        answer(chain.from_iterable(map(composition.answer, _deletions(slice_, chosen_rows))))
    answer(chain.from_iterable(map(composition.answer, late)))
    commit(owner, names, tuple, positions)


def _last_words(slices: Sequence[Slice], chosen: Sequence[Chosen], ids: Iterable[str]) -> dict[str, Last]:
    """The last word on each of these ids that has one."""
    wanted = Texts.of(ids)
    last: dict[str, Last] = {}
    for slice_, chosen_rows in zip(slices, chosen, strict=True):
        for texts, is_last, offset, unsubscribed in (
            (slice_.segment.ids, chosen_rows.subscriptions, notes.numbers(slice_.segment, "offset"), False),
            (slice_.unsubscribed, chosen_rows.unsubscribed, slice_.unsubscribed_offset, True),
        ):
            place = texts.find(wanted)
            for i in np.flatnonzero(place >= 0).tolist():
                if is_last[place[i]]:
                    last[wanted[i]] = Last((slice_.partition, int(offset[place[i]])), unsubscribed)
    return last


def _is_later(row: RejectedChange, last: Mapping[str, Last]) -> bool:
    """Whether a rejected change comes after the last word on its id."""
    if row.id is None or row.id not in last:
        return True
    partition, offset = last[row.id].place
    return partition == row.record.partition and offset < row.record.offset


def _deletions(slice_: Slice, chosen_rows: Chosen) -> Iterator[AcceptedChange]:
    gone = np.flatnonzero(chosen_rows.unsubscribed)
    for id, offset in zip(slice_.unsubscribed.at(gone), slice_.unsubscribed_offset[gone].tolist(), strict=True):
        yield AcceptedChange(ConsumerRecord(slice_.partition, offset, timestamp_ms=0), id, subscriber=None)
