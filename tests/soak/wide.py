"""`python -m tests.soak.wide`: one event that a million subscriptions match, and one that two in seven of them match.

Each subscription has a subscriber of its own, all in the shared topic. Prints how long the deliveries took and how much
memory the job; exit code 1 unless each subscriber got each event that it should have, once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rig.job import JobProcess
from rig.place import place
from rig.usage import Most, taken
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

START_TIMEOUT_S = 900.0
TIMEOUT_S = 600.0
ALL, SOME = b'{"x":1}', b'{"x":2}'  # the events


@dataclass(frozen=True)
class Outcome:
    deliveries: int
    right: bool
    seconds: float  # from the events until a reader had all deliveries
    before_mb: Mapping[str, float]  # by kind of process
    most_mb: Mapping[str, float]


def subscriptions(n: int) -> Iterator[tuple[bytes, bytes]]:
    """(id, document)"""
    for i in range(n):
        values = b"1,2" if i % 7 < 2 else b"1"
        yield b"s%d" % i, b'{"id":"s%d","subscriber":"r%d","pattern":{"x":[%b]}}' % (i, i, values)


def run(n: int) -> Outcome:
    with place("wide", {"deliveries.layout": "shared"}, partitions=1) as here, ExitStack() as stack:
        settings, cluster = here.settings, here.cluster
        clients.write(cluster, settings.subscriptions.topic, subscriptions(n))
        job = stack.enter_context(JobProcess(here.flags, here.directory / "job.log", supervised=True))
        job.wait_until_running(START_TIMEOUT_S)

        def pids() -> dict[str, list[int]]:
            tree = job.tree()
            kinds = {"driver": tree.drivers, "JVM": tree.jvms, "workers": tree.workers}
            return {kind: [process.pid for process in processes] for kind, processes in kinds.items()}

        before = {kind: round(taken(of).memory_mb) for kind, of in pids().items()}
        expected = np.stack([np.ones(n, np.int64), np.arange(n) % 7 < 2])
        with Most(pids) as most:
            began = time.monotonic()
            clients.write(cluster, settings.events.topic, [(None, ALL), (None, SOME)])
            times = _delivered(cluster, settings.deliveries.topic, expected)
            seconds = time.monotonic() - began
        right = bool((times == expected).all())
        return Outcome(int(times.sum()), right, round(seconds, 1), before, most.memory_mb)


def _delivered(cluster: Cluster, topic: str, expected: NDArray[np.int64]) -> NDArray[np.int64]:
    """Wait for as many deliveries as expected, and count how often each subscriber got each event."""
    times = np.zeros_like(expected)
    left = int(expected.sum())
    deadline = time.monotonic() + TIMEOUT_S
    for message in clients.read(cluster, [topic], follow=True):
        if message is not None:
            times[int(message.value() != ALL), int((message.key() or b"")[1:])] += 1
            left -= 1
        elif left <= 0 or time.monotonic() > deadline:
            break
    return times


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.soak.wide", description=__doc__)
    arguments.add_argument("--subscriptions", type=int, default=1_000_000)
    outcome = run(arguments.parse_args().subscriptions)
    print(f"{outcome.deliveries:,} deliveries in {outcome.seconds:,.1f} s: {'right' if outcome.right else 'WRONG'}")
    for kind, most_mb in outcome.most_mb.items():
        print(f"{kind}: {most_mb:,.0f} MB at most, {outcome.before_mb[kind]:,.0f} before")
    return 0 if outcome.right else 1


if __name__ == "__main__":
    sys.exit(main())
