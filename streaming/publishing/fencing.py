"""Fence slots, and read the committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streaming.publishing.connection import requests
from streaming.publishing.connection.client import Client
from streaming.publishing.connection.requests import CommittedOffset
from streaming.publishing.contract import ProducerEpoch, TopicPartition
from streaming.publishing.slot import Slot, asked


def slot_name(query: str, number: int) -> str:
    """Return the transactional id of a slot. No query can have such a name, so no query fences it."""
    return f"{query}/{number}"


def fence_all(client: Client, slots: Sequence[Slot]) -> list[ProducerEpoch]:
    """Open the slots, each of which waits until its last transaction has ended; return their producers.

    If these are all slots that were ever used, no older producer has an open transaction afterwards, and the committed
    offsets are final. Only the driver calls it: at a start, and whenever a task failed or was lost. Raises JobError.
    """
    return client.run(_fence_all, client, slots)


async def _fence_all(client: Client, slots: Sequence[Slot]) -> list[ProducerEpoch]:
    opening = [client.start(slot.opened) for slot in slots]
    return [await producer for producer in opening]


def committed_offsets(
    client: Client, group: str, partitions: Iterable[TopicPartition], *, stable: bool = True
) -> dict[TopicPartition, CommittedOffset]:
    """Return the committed offset of each partition that has one.

    `stable` offsets are read once no open transaction can change them; transactions of slots that are not fenced stay
    open until they time out. Raises JobError.
    """
    return client.run(_committed_offsets, client, group, list(partitions), stable)


async def _committed_offsets(
    client: Client, group: str, partitions: Sequence[TopicPartition], stable: bool
) -> dict[TopicPartition, CommittedOffset]:
    if not partitions:
        return {}
    request = requests.fetch_offsets(group, partitions, stable=stable)
    return requests.fetched_offsets(await asked(client, request, client.attempt()), group)
