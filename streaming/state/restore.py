"""Restore the state at a start: from a saved version and later changes, or from the whole topic."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matchers.index.snapshot import Part, Snapshot
from streaming.documents.change_order import Decisions, LastWords
from streaming.documents.messages import topic_of
from streaming.index import packing
from streaming.kafka.clients import Cluster, read
from streaming.log import logger
from streaming.rows import SourcePartition, of_changes
from streaming.state.first_load import (
    SLICE_OFFSETS,
    Chosen,
    Ranges,
    RejectedChanges,
    Slice,
    assemble,
    choose,
    joined,
    load,
    spans,
    unsubscribed,
    words,
)
from streaming.state.pool import processes
from streaming.state.state import FALLBACK_ALGORITHM
from streaming.state.store import Store
from streaming.tenants import Tenants

log = logger("sluice.state")

SAY_EVERY_S = 2.0
NAMED_IDS = 5  # that a warning lists


@dataclass(frozen=True)
class SubscriptionsTopics:
    """The topics of subscriptions, and what decides which of their changes count."""

    bootstrap_servers: str
    options: Mapping[str, str]
    tenants: Tenants
    lows: Mapping[int, int]  # partition of changes -> first offset there is
    ids: Mapping[int, str]  # that Kafka gave the topics, by number
    query: str


@dataclass(frozen=True)
class Restored:
    snapshot: Snapshot
    files: Mapping[Part, Path]
    positions: Mapping[SourcePartition, int]
    first_start: bool
    slices: tuple[Path, ...]  # of which it was made, as far as they were read
    chosen: tuple[Chosen, ...]  # of each slice, what counts

    def forget_slices(self) -> None:
        for path in self.slices:
            path.unlink()


def restore(
    empty: Snapshot,
    store: Store,
    topics: SubscriptionsTopics,
    positions: Mapping[SourcePartition, int],
    *,
    first_start: bool,
) -> Restored:
    """The state after all changes before `positions`. Raises BrokerUnreachable."""
    began = time.monotonic()
    ends = of_changes(positions)
    saved = None
    if not first_start:
        saved = store.load(empty, ends)
    # Rejections beyond the committed offsets will be decided again.
    store.forget_rejected(lambda at: not first_start and at[1] < ends.get(at[0], 0))
    store.clean() if saved is not None else store.forget()
    snapshot, begins = empty, topics.lows
    files: dict[Part, Path] = {}
    if saved is not None:
        snapshot, files, manifest = saved
        snapshot = scanned_where_unfit(snapshot)
        begins = {p: max(low, manifest.positions.get(p, 0)) for p, low in topics.lows.items()}
    ranges = {p: (begin, ends[p]) for p, begin in begins.items() if begin < ends[p]}
    version = sum(ends.values())
    # An unfinished first start has left statuses; none of the changes in them was ever in force.
    follows = (lambda query: query != topics.query) if first_start else (lambda query: query == topics.query)
    decisions = _decisions(topics, follows) if saved is None and ranges else Decisions()
    paths = _load(topics, ranges, store, decisions) if ranges else []
    slices = [packing.read(path, Slice) for path in paths]
    last = words(slices, decisions)
    if saved is not None and last.contested:
        # All these changes came after the saved state. Statuses decide which of several partitions counts.
        decisions = _decisions(topics, follows)
        last = words(slices, decisions)
    chosen = choose(slices, last)
    if saved is None:
        snapshot, files = _built(empty, paths, chosen, store, version)
        _warn_of_lost(decisions, last, ends)
    elif slices:
        gone = [
            id
            for slice_ in slices
            for ids in (slice_.segment.ids, slice_.unsubscribed)
            for id in ids
            if id.encode() not in last
        ]
        snapshot = snapshot.update(joined(slices, chosen), [*unsubscribed(slices, chosen), *gone], version=version)
    duration_s = round(time.monotonic() - began, 1)
    if saved is None:
        log.info("state_built", subscription_count=len(snapshot), duration_s=duration_s)
    else:
        log.info("state_restored", subscription_count=len(snapshot), duration_s=duration_s)
    return Restored(snapshot, files, positions, first_start, tuple(paths), tuple(chosen))


def scanned_where_unfit(snapshot: Snapshot) -> Snapshot:
    """The snapshot without indexes of other algorithms or options, whose kernels may not be compiled, and which may not
    be exact. FALLBACK_ALGORITHM takes their place; `Snapshot.due` has the parts to index anew."""

    def usable(part: Part) -> Part:
        fits = part.is_by(snapshot.algorithm, snapshot.options) or part.is_by(FALLBACK_ALGORITHM, {})
        return part if fits else Part.of(part.segment, FALLBACK_ALGORITHM, {})

    return snapshot.of(list(zip(map(usable, snapshot.parts), snapshot.removed, strict=True)), snapshot.version)


def _decisions(topics: SubscriptionsTopics, follows: Callable[[str], bool]) -> Decisions:
    by_topic = {
        tenant.status_topic: Decisions(topics.ids[number], follows, tenant=tenant)
        for number, tenant in topics.tenants.items()
    }
    for status in read(Cluster(topics.bootstrap_servers, topics.options), [*by_topic], follow=False):
        if status is not None:
            by_topic[topic_of(status)].take(status)
    decisions = Decisions()
    for of_tenant in by_topic.values():
        decisions.update(of_tenant)
    return decisions


def _warn_of_lost(decisions: Decisions, last: LastWords[tuple[int, int]], ends: Mapping[int, int]) -> None:
    """Log subscriptions that compaction has removed: it keeps the newest record of an id in a partition, and if that
    was rejected, removes the document before it, which is in force. And those that new settings of a tenant reject."""
    lost = [
        id.decode(errors="replace")
        for id, decision in decisions
        if decision.in_force and decision.in_force[1] < ends.get(decision.in_force[0], 0) and id not in last
    ]
    if lost:
        log.warning("subscriptions_lost", subscription_count=len(lost), subscription_ids=lost[:NAMED_IDS])


def _pool(n: int, few: bool) -> AbstractContextManager[Executor]:
    """An executor; for few subscriptions, starting a process would take longer than the work."""
    return ThreadPoolExecutor(1) if few else processes(n)


def _load(topics: SubscriptionsTopics, ranges: Ranges, store: Store, decisions: Decisions) -> list[Path]:
    cluster = Cluster(topics.bootstrap_servers, dict(topics.options))
    rejected = {p: RejectedChanges.of(p, store.rejected(), decisions, topics.tenants) for p in ranges}
    logged_s = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal logged_s
        if time.monotonic() - logged_s > SAY_EVERY_S:
            logged_s = time.monotonic()
            log.info("subscriptions_loading", offset_count=done, offset_total=total)

    few = sum(end - begin for begin, end in ranges.values()) <= SLICE_OFFSETS
    with _pool(os.cpu_count() or 1, few) as pool:
        return load(pool, spans(cluster, topics.tenants, ranges), store.directory, rejected, progress)


def _built(
    empty: Snapshot, slices: list[Path], chosen: Sequence[Chosen], store: Store, version: int
) -> tuple[Snapshot, dict[Part, Path]]:
    if not slices:
        return empty.of([], version), {}
    log.info("index_building", algorithm=empty.algorithm)
    parts: dict[Part, Path] = {}
    few = sum(int(of.subscriptions.sum()) for of in chosen) <= SLICE_OFFSETS
    with _pool(1, few) as pool:
        for shard in range(empty.shards):
            path = store.new_path()
            like = (empty.algorithm, dict(empty.options), path, shard, empty.shards)
            pool.submit(assemble, slices, chosen, *like).result()
            parts[packing.read(path, Part)] = path
    none_removed = [(part, np.empty(0, np.int32)) for part in parts if len(part.segment.ids)]
    return empty.of(none_removed, version), parts
