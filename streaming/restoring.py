"""The subscriptions of a start: a saved state and what the topic says since then, or all of the topic."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matchers.snapshot import Part, Snapshot
from streaming import packing
from streaming.clients import Cluster
from streaming.loading import SLICE, Ranges, assemble, joined, load
from streaming.matching import SUBSCRIPTIONS, Position, of_source
from streaming.pool import processes
from streaming.store import Store

log = logging.getLogger("sluice.state")

SAY_EVERY_S = 2.0


@dataclass(frozen=True)
class Topic:
    """Where the subscriptions are read."""

    bootstrap_servers: str
    options: Mapping[str, str]
    name: str
    lows: Mapping[int, int]  # partition -> first offset there is


@dataclass(frozen=True)
class Restored:
    snapshot: Snapshot
    files: Mapping[Part, Path]
    positions: Mapping[Position, int]
    first_start: bool
    slices: tuple[Path, ...]  # of which it was made, as far as they were read

    def forget_slices(self) -> None:
        for path in self.slices:
            path.unlink()


def restore(
    empty: Snapshot, store: Store, topic: Topic, positions: Mapping[Position, int], *, first_start: bool
) -> Restored:
    """The state that takes into account what lies before `positions`. Raises BrokerUnreachable."""
    began = time.monotonic()
    ends = of_source(positions, SUBSCRIPTIONS)
    saved = None
    if not first_start:
        saved = store.load(empty, ends)
    # What lies beyond was never committed and will be judged again.
    store.forget_refused(lambda at: not first_start and at[1] < ends.get(at[0], 0))
    store.clean() if saved is not None else store.forget()
    snapshot, files, begins = empty, {}, topic.lows
    if saved is not None:
        snapshot, files, manifest = saved
        begins = {p: max(low, manifest.positions.get(p, 0)) for p, low in topic.lows.items()}
    ranges = {p: (begin, ends[p]) for p, begin in begins.items() if begin < ends[p]}
    slices = _load(topic, ranges, store) if ranges else []
    version = sum(ends.values())
    if saved is None:
        snapshot, files = _built(empty, slices, store, version)
    elif slices:
        added, withdrawn = joined([packing.read(path) for path in slices])
        snapshot = snapshot.update(added, withdrawn, version=version)
    fields = {"subscriptions": len(snapshot), "s": round(time.monotonic() - began, 1)}
    log.info("state built from the topic" if saved is None else "saved state in use", extra={"fields": fields})
    return Restored(snapshot, files, positions, first_start, tuple(slices))


def _pool(n: int, few: bool) -> AbstractContextManager[Executor]:
    """For few subscriptions a process of their own would take longer to start than they do."""
    return ThreadPoolExecutor(1) if few else processes(n)


def _load(topic: Topic, ranges: Ranges, store: Store) -> list[Path]:
    kafka = Cluster(topic.bootstrap_servers, topic.options).client()
    said = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            log.info("reading subscriptions", extra={"fields": {"done": done, "of": total}})

    few = sum(end - begin for begin, end in ranges.values()) <= SLICE
    with _pool(os.cpu_count() or 1, few) as pool:
        return load(pool, kafka, topic.name, ranges, store.directory, progress, store.refused())


def _built(empty: Snapshot, slices: list[Path], store: Store, version: int) -> tuple[Snapshot, dict[Part, Path]]:
    if not slices:
        return empty.of([], version), {}
    log.info("building the index", extra={"fields": {"algorithm": empty.algorithm}})
    parts: dict[Part, Path] = {}
    with _pool(1, len(slices) == 1) as pool:
        for shard in range(empty.shards):
            path = store.new_path()
            like = (empty.algorithm, dict(empty.options), path, shard, empty.shards)
            pool.submit(assemble, slices, *like).result()
            parts[packing.read(path)] = path
    none_removed = [(part, np.empty(0, np.int32)) for part in parts if len(part.segment.ids)]
    return empty.of(none_removed, version), parts
