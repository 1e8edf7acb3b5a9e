"""A process that reads deliveries like a subscriber and reports how late each was."""

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
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

EVERY = 16  # of so many deliveries one is looked at, so that the reader keeps up


def run(cluster: Cluster, topics: Sequence[str]) -> None:
    """Read until standard input ends. Of each delivery that is looked at, report when its event was written (ms since
    the epoch) and how many ms later it was read."""
    input = threading.Thread(target=sys.stdin.read, daemon=True)
    input.start()
    written_ms, late_ms, n = array("d"), array("d"), 0
    message: Any
    for message in clients.read(cluster, topics, follow=True):
        if message is None:
            if not input.is_alive():
                break
            continue
        n += 1
        if n % EVERY == 0:
            at_ms = datetime.fromisoformat(dict(message.headers())["ce_time"].decode()).timestamp() * 1000
            written_ms.append(at_ms)
            late_ms.append(round(max(0.0, time.time() * 1000 - at_ms), 1))
    tell(written_ms=written_ms.tolist(), late_ms=late_ms.tolist(), read=n)


if __name__ == "__main__":
    task = orjson.loads(sys.argv[1])
    run(Cluster(task["bootstrap_servers"], task["client"]), task["topics"])
