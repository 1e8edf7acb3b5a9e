"""Parse one record of each topic to numbers: events, changes, statuses, deliveries, origins of dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from rig.check import NEVER

NOTHING = -1
TENANT = 10_000_000  # more than a tenant has ids


class RecordOrigin(NamedTuple):
    topic: str
    partition: int
    offset: int


class DeliveryRecord(NamedTuple):
    partition: int  # of the event
    offset: int
    subscriber: int
    version: int  # -1 if the system writes none
    checksum: int
    ids: tuple[int, ...]


class StatusRecord(NamedTuple):
    partition: int  # of the change
    offset: int
    status: str
    version: int  # -1 of a rejection
    in_force_from: Mapping[str, int]  # by partition of the events topic; empty of a rejection

    def begins(self, partitions: int) -> list[int]:
        """Offsets from which the change counts. A partition that the job did not know of began after it."""
        unknown = 0 if self.in_force_from else NEVER
        return [self.in_force_from.get(str(q), unknown) for q in range(partitions)]


def event_of(key: bytes | None, value: bytes | None) -> list[int]:
    """Symbol, price, volume and checksum; the symbol of what is no event is NOTHING."""
    checksum = crc32(value or b"")
    try:
        event = orjson.loads(value or b"")
        return [int(event["symbol"][1:]), event["price"], event["volume"], checksum]
    except (ValueError, TypeError, KeyError):
        return [NOTHING, 0, 0, checksum]


def change_of(key: bytes | None, value: bytes | None) -> list[int]:
    """Id, subscriber, symbol, and the low and high ends of price and volume. The subscriber of a deletion is -1; the
    id of what is no change is NOTHING."""
    try:
        id = int((key or b"")[1:])
        if value is None:
            return [id, -1, -1, 0, 0, 0, 0]
        document = orjson.loads(value)
        pattern = document["pattern"]
        bounds = [pattern[name][0]["numeric"][side] for name in ("price", "volume") for side in (1, 3)]
        return [id, int(document["subscriber"][1:]), int(pattern["symbol"][0][1:]), *bounds]
    except (ValueError, TypeError, KeyError):
        return [NOTHING, -1, -1, 0, 0, 0, 0]


def status_of(value: bytes) -> StatusRecord:
    document = orjson.loads(value)
    change, status = document["change"], document["status"]
    rejected = status == "rejected"
    return StatusRecord(
        partition=change["partition"],
        offset=change["offset"],
        status=status,
        version=-1 if rejected else document["version"],
        in_force_from={} if rejected else document["in_force_from"],
    )


def subscriber_of(message: Any, prefix: str | None) -> int:
    """Return the subscriber of a delivery: with `prefix` its topic names the subscriber, otherwise its key does."""
    name = message.key() if prefix is None else message.topic().removeprefix(prefix)
    return int(name[1:])


def delivery_of(subscriber: int, headers: Mapping[str, bytes], value: bytes) -> DeliveryRecord:
    _, partition, offset = headers["ce_id"].rsplit(b"-", 2)
    version = int(headers.get("ce_matchversion", -1))
    ids = tuple(map(number_of, orjson.loads(headers["ce_subscriptionids"])))
    return DeliveryRecord(int(partition), int(offset), subscriber, version, crc32(value), ids)


def number_of(id: str) -> int:
    """Return the number of an id: 17 of `s17`, and 2 * TENANT + 17 of `t2/s17`, which belongs to the tenant t2."""
    if "/" not in id:
        return int(id[1:])
    tenant, _, own = id.rpartition("/")
    return int(own[1:]) + TENANT * int(tenant[1:])


def origin_of(headers: Mapping[str, bytes]) -> RecordOrigin:
    """The place of the record that became a dead letter."""
    topic, partition, offset = (headers[f"sluice_origin_{name}"].decode() for name in ("topic", "partition", "offset"))
    return RecordOrigin(topic, int(partition), int(offset))
