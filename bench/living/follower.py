"""The process that reads deliveries as a subscriber does, and tells how long after their events they arrived."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from streaming import clients
from streaming.clients import Cluster
from streaming.metrics import Latencies

EVERY = 4  # of so many deliveries one is looked at, so that the reader keeps up


def run(cluster: Cluster, topics: Sequence[str]) -> None:
    """Until standard input ends."""
    input = threading.Thread(target=sys.stdin.read, daemon=True)
    input.start()
    found, n = Latencies(), 0
    message: Any
    for message in clients.read(cluster, topics, follow=True):
        if message is None:
            if not input.is_alive():
                break
            continue
        n += 1
        if n % EVERY == 0:
            at = datetime.fromisoformat(dict(message.headers())["ce_time"].decode())
            found.add(max(0.0, (time.time() - at.timestamp()) * 1000))
    print(orjson.dumps({"latencies": found.to_json(), "read": n}).decode(), flush=True)  # noqa: T201


if __name__ == "__main__":
    task = orjson.loads(sys.argv[1])
    run(Cluster(task["bootstrap_servers"], task["client"]), task["topics"])
