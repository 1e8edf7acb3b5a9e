"""A process that reads deliveries like a subscriber and reports their latency."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.latencies import Latencies

EVERY = 16  # of so many deliveries one is looked at, so that the reader keeps up


def run(cluster: Cluster, topics: Sequence[str]) -> None:
    """Read until standard input ends. After the first line of input, latencies count for the second half too."""
    midpoint = threading.Event()
    input = threading.Thread(target=_listen, args=(midpoint,), daemon=True)
    input.start()
    overall, second_half, n = Latencies(), Latencies(), 0
    message: Any
    for message in clients.read(cluster, topics, follow=True):
        if message is None:
            if not input.is_alive():
                break
            continue
        n += 1
        if n % EVERY == 0:
            at = datetime.fromisoformat(dict(message.headers())["ce_time"].decode())
            ms = max(0.0, (time.time() - at.timestamp()) * 1000)
            for latencies in (overall, second_half) if midpoint.is_set() else (overall,):
                latencies.add(ms)
    report = {"follower": overall.to_json(), "follower_second_half": second_half.to_json(), "read": n}
    print(orjson.dumps(report).decode(), flush=True)  # noqa: T201


def _listen(midpoint: threading.Event) -> None:
    for _ in sys.stdin:
        midpoint.set()


if __name__ == "__main__":
    task = orjson.loads(sys.argv[1])
    run(Cluster(task["bootstrap_servers"], task["client"]), task["topics"])
