"""A process that reads deliveries and statuses like a subscriber and reports how late each was."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from rig.child import tell
from rig.records import status_of
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

EVERY = 16  # of so many deliveries one is looked at, so that the reader keeps up


def run(
    cluster: Cluster, deliveries: Sequence[str], changes: str, statuses: str, starts: Sequence[tuple[str, int, int]]
) -> None:
    """Read until standard input ends. Of each delivery that is looked at, report when its event was due (ms since the
    epoch) and how many ms later it was read; of each change when it was due and how many ms later its status was read.

    The topics of `changes` and `statuses` are read from `starts` on: topic, partition and offset."""
    input = threading.Thread(target=sys.stdin.read, daemon=True)
    input.start()
    due_ms, late_ms, n = array("d"), array("d"), 0
    changed_ms: dict[tuple[int, int], int] = {}  # when a change was due, by its partition and offset
    answered_ms: dict[tuple[int, int], float] = {}  # when its status was read
    begins = {(topic, partition): offset for topic, partition, offset in starts}
    message: Any
    for message in clients.read(cluster, [*deliveries, changes, statuses], follow=True, starts=begins):
        if message is None:
            if not input.is_alive():
                break
        elif (topic := message.topic()) == changes:
            changed_ms[message.partition(), message.offset()] = message.timestamp()[1]
        elif topic == statuses:
            status = status_of(message.value())
            answered_ms[status.partition, status.offset] = time.time() * 1000
        else:
            n += 1
            if n % EVERY == 0:
                at_ms = datetime.fromisoformat(dict(message.headers())["ce_time"].decode()).timestamp() * 1000
                due_ms.append(at_ms)
                late_ms.append(round(max(0.0, time.time() * 1000 - at_ms), 1))
    answered = changed_ms.keys() & answered_ms.keys()
    tell(
        due_ms=due_ms.tolist(),
        late_ms=late_ms.tolist(),
        read=n,
        change_due_ms=[changed_ms[at] for at in answered],
        in_force_ms=[round(answered_ms[at] - changed_ms[at], 1) for at in answered],
    )


if __name__ == "__main__":
    task = orjson.loads(sys.argv[1])
    run(Cluster(task.pop("bootstrap_servers"), task.pop("client")), **task)
