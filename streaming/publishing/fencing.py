"""Fence all slots: no transaction of older producers is open any more, and the committed offsets are final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streaming.publishing.connection import requests
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import ProducerEpoch, TopicPartition
from streaming.publishing.slot import asked, open_slot


class FencedSlots(NamedTuple):
    producers: Mapping[str, ProducerEpoch]  # of each slot, by its name
    offsets: Mapping[TopicPartition, int]  # partitions without a committed offset are left out
    notes: Mapping[TopicPartition, str]  # metadata of these offsets; partitions without any are left out


def slot_name(query: str, number: int) -> str:
    """The transactional id of a slot. No query can have such a name, so none can fence it."""
    return f"{query}/{number}"


def fence_all(
    client: Client, slots: Sequence[str], group: str, partitions: Sequence[TopicPartition], *, stable: bool = True
) -> FencedSlots:
    """Fence all slots ever used, wait until their last transactions have ended, then read the committed offsets.

    Only the driver calls it with slots: at a start, and whenever a task failed or was lost. Without any, it only reads.
    Without `stable` it also reads while transactions are open that could change the offsets: nobody ends those of slots
    that are not named here until they time out. Raises JobError.
    """
    return client.run(_fence_all, client, slots, group, partitions, stable)


async def _fence_all(
    client: Client, slots: Sequence[str], group: str, partitions: Sequence[TopicPartition], stable: bool
) -> FencedSlots:
    opening = [client.start(open_slot, client, name) for name in slots]
    producers = {name: await producer for name, producer in zip(slots, opening, strict=True)}
    committed: Mapping[TopicPartition, tuple[int, str]] = {}
    if partitions:
        response = await asked(client, requests.fetch_offsets(group, partitions, stable=stable), client.attempt())
        committed = requests.fetched_offsets(response, group)
    return FencedSlots(
        producers,
        {at: offset for at, (offset, _) in committed.items()},
        {at: note for at, (_, note) in committed.items() if note},
    )
