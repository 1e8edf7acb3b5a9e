"""Replays and redrives beside the job that are killed and run again: what they write must be there once, in order.

They use topics of their own, so they do not disturb the job, and its deliveries are checked as usual.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random

import orjson
from confluent_kafka import Producer

from streaming.documents import records
from streaming.documents.messages import headers_of
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S, Topic
from streaming.rows import ConsumerRecord
from tests.faults.commands import complete
from tests.faults.system import System

KILLS = 4
LETTERS = 20_000
RATE = 20_000  # events a second, so that a replay takes some seconds
NUMBERS = itertools.count()


def replay(system: System, r: Random) -> float:
    """A replay is killed and run again. What it delivers, in their order, is what one delivers that nobody kills."""
    name = f"apart{next(NUMBERS)}"
    flags = {
        "query.name": name,
        "kafka.bootstrap_servers": system.cluster.bootstrap_servers,
        "events.topics": ",".join(system.settings.events.names),
        "subscriptions.topic": f"{name}.subscriptions",
        "subscriptions.status_topic": f"{name}.status",
    }
    prefixes = {kind: f"{name}.{kind}." for kind in ("killed", "whole")}
    topics = [flags["subscriptions.topic"], flags["subscriptions.status_topic"], *(p + "r" for p in prefixes.values())]
    _create(system.cluster, topics)
    document = {"id": "all", "subscriber": "r", "pattern": {"symbol": [{"exists": True}]}}
    _write(system.cluster, [records.Record(flags["subscriptions.topic"], b"all", orjson.dumps(document), [])])
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2.0))
    command = ["replay", "all", "--from", "1d", "--to", until, "--rate", f"{RATE}", "--name", "r"]
    began = time.monotonic()
    try:
        for kind, prefix in prefixes.items():
            _run(
                command,
                {**flags, "deliveries.prefix": prefix, "query.name": f"{name}.{kind}"},
                r,
                KILLS if kind == "killed" else 0,
            )
        killed, whole = (_values(system.cluster, prefix + "r") for prefix in prefixes.values())
        if killed != whole or not whole:
            counts = [sum(map(len, values.values())) for values in (killed, whole)]
            raise JobError(f"a replay that was killed delivered other events, or others first: {counts}")
    finally:
        system.cluster.topics().delete(topics)
    return time.monotonic() - began


def redrive(system: System, r: Random) -> float:
    """A redrive is killed and run again. Each letter is sent once."""
    name = f"apart{next(NUMBERS)}"
    flags = {
        "query.name": name,
        "kafka.bootstrap_servers": system.cluster.bootstrap_servers,
        "events.topic": f"{name}.events",
        "subscriptions.topic": f"{name}.subscriptions",
        "dead_letters.topic": f"{name}.dead",
    }
    topics = [topic for key, topic in flags.items() if key.endswith(".topic")]
    _create(system.cluster, topics)
    letters = []
    for n in range(LETTERS):
        event = ConsumerRecord(0, n, 0, None, b"%d" % n)
        origin = records.Origin(flags["events.topic"], 0, n, 0)
        letters.append(records.dead_letter(flags["dead_letters.topic"], event, origin, records.UNDECODABLE_EVENT, ""))
    _write(system.cluster, letters)
    began = time.monotonic()
    try:
        _run(["dlq", "redrive", "--all-letters"], flags, r, KILLS)
        sent = sorted(int(value or b"") for values in _values(system.cluster, topics[0]).values() for value in values)
        if sent != list(range(LETTERS)):
            raise JobError(f"of {LETTERS:,} letters {len({*sent}):,} were sent again, in {len(sent):,} records")
    finally:
        system.cluster.topics().delete(topics)
    return time.monotonic() - began


def _run(command: Sequence[str], flags: Mapping[str, str], r: Random, kills: int) -> None:
    settings = [flag for name, value in flags.items() for flag in ("--set", f"{name}={value}")]
    complete([*command, *settings], r, kills)


def _create(cluster: Cluster, topics: Sequence[str]) -> None:
    if rejected := cluster.topics().create([Topic(name) for name in topics]):
        raise JobError(f"topics were rejected: {rejected}")


def _write(cluster: Cluster, written: Sequence[records.Record]) -> None:
    producer = Producer(cluster.client())
    for record in written:
        producer.produce(record.topic, record.value, record.key, headers=[*record.headers])
    if producer.flush(TIMEOUT_S):
        raise JobError("the broker does not take records")


def _values(cluster: Cluster, topic: str) -> dict[bytes, list[bytes | None]]:
    """The values of a topic, in order, by the partition that the event came from."""
    values: dict[bytes, list[bytes | None]] = defaultdict(list)
    for message in clients.read(cluster, [topic], follow=False):
        if message is not None:
            event = dict(headers_of(message)).get("ce_id") or b""  # topic-partition-offset
            values[event.rpartition(b"-")[0]].append(message.value())
    return values
