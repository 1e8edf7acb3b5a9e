"""In every history of a job, each delivery is what the definition gives for the version that it names.

A history is random: changes and events on two partitions each, joins that finish when they like, saves, and crashes
before and after what was committed is taken into account, after which a job restores itself and goes on.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.kafka.sink import Offsets
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition
from tests import workloads
from tests.living import Crash, Job, Truth, World, check, check_statuses
from tests.stage import NAMES, Later, SomeTopics, change, event

pytestmark = pytest.mark.kernels

IDS = [f"s{i}" for i in range(14)]
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [("scan", {}), ("tiles", {"tile": 3, "fewest": 1})]


@dataclass
class Sink(World):
    """Both topics, and what was published: the records and the offsets, or neither."""

    records_written: list[Record] = field(default_factory=list)
    crash_after_commit: bool = False

    def written(self) -> list[Record]:
        return self.records_written

    def publish(self, records: Sequence[Record], offsets: Offsets) -> tuple[float, float]:
        sources = {NAMES.events: EVENTS, NAMES.subscriptions: SUBSCRIPTIONS}
        self.records_written += records
        positions = {(sources[topic], partition): offset for (topic, partition), offset in offsets.items()}
        self.committed |= positions
        self.note_batch(self.committed)
        if self.crash_after_commit:
            self.crash_after_commit = False
            raise Crash
        return 0.0, 0.0


class LaterJob(Job):
    """What is done beside its batches is done when it is told to."""

    def __init__(self, world: Sink, empty: Snapshot, directory: Path) -> None:
        self.later = Later()
        super().__init__(world, empty, directory, world.committed, world, SomeTopics(set()), self.later)

    def join(self) -> None:
        """What is being joined is done before the next batch ends."""
        joining = self.compactor._compaction
        while joining is not None and not joining.future.done():
            self.later.work()
            time.sleep(0.0005)

    def end(self) -> None:
        """A crash: nothing is saved that was not."""
        self.later.shutdown()
        self.compactor._joins.shutdown(wait=True, cancel_futures=True)
        self.compactor._saves.shutdown(wait=True, cancel_futures=True)


def subscription(r: Random) -> Any:
    document: dict[str, Any] = {"subscriber": r.choice(["alice", "bob", "carol"]), "pattern": workloads.pattern(r)}
    kind = r.random()
    if kind < 0.15:
        return None
    if kind < 0.25:
        return document | {"paused": True}
    if kind < 0.4:
        return document | {"expires_at": f"1970-01-01T00:00:0{r.randint(1, 4)}Z"}
    if kind < 0.5:
        return document | {"pattern": {"x": 5}}  # refused
    return document


def grow(world: Sink, r: Random) -> None:
    """Both topics by some records, or a partition. Most changes of an id go where its key puts them, among all
    partitions that there are; some come from clients with another partitioner, or with another clock."""
    if r.random() < 0.05:
        world.add_partition()
    for _ in range(r.choice([0, 1, 2, 3, 6])):
        id = r.choice(IDS)
        logs = dict(world.logs(SUBSCRIPTIONS))
        partition = r.choice(list(logs)) if r.random() < 0.2 else IDS.index(id) % len(logs)
        log = logs[partition]
        log.append(change(len(log), id, subscription(r), partition) | {"timestamp": r.randrange(100)})
    for _ in range(r.choice([0, 1, 2, 3])):
        partition, log = r.choice(list(world.logs(EVENTS)))
        value = b"no event" if r.random() < 0.1 else workloads.event(r, exotic=False)
        log.append(event(len(log), value, r.randrange(5_000), partition))


def next_batch(world: Sink, job: Job, r: Random) -> list[dict[str, Any]]:
    """Some of what is there, and often what was committed already; of a partition always in order."""
    rows = []
    for at, log in world.topics.items():
        begin = max(0, job.state.positions.get(at, 0) - r.choice([0, 0, 0, 2]))
        rows.append(log[begin : r.choice([len(log), len(log), begin + 2])])
    merged = []
    while any(rows):
        merged.append(r.choice([log for log in rows if log]).pop(0))
    return merged


def live(r: Random, directory: Path, batches: int) -> dict[str, int]:
    """A whole history; returns how often what happened in it."""
    algorithm, options = r.choice(ALGORITHMS)
    empty = Snapshot(algorithm=algorithm, options=options, most=4, shards=r.choice([1, 1, 2, 3]))
    world = Sink(quota=r.choice([0, 3]))
    truth = Truth(world)
    began: dict[SourcePartition, dict[int, int]] = {at: {} for at in world.topics}
    seen = {"joined": 0, "crashed": 0, "crashed after the commit": 0, "delivered": 0, "from disk": 0, "compacted": 0}
    job = None
    with pytest.MonkeyPatch.context() as patch:
        world.install(patch)
        for _ in range(batches):
            if job is None:
                job = LaterJob(world, empty, directory)
                seen["from disk"] += any(part in job.compactor._files for part in job.state.snapshot.parts)
            grow(world, r)
            before = dict(job.state.positions)
            truth.note(before)
            rows = next_batch(world, job, r)
            world.crash_after_commit = r.random() < 0.1
            parts = job.compactor._compaction
            try:
                job.batch(rows, r.randint(0, len(rows)))
                world.crash_after_commit = False
            except Crash:
                seen["crashed after the commit"] += 1
                job.end()
                job = None
            for p, _ in world.logs(EVENTS):
                low, high = before.get((EVENTS, p), 0), world.committed.get((EVENTS, p), 0)
                began.setdefault((EVENTS, p), {}).update(dict.fromkeys(range(low, high), world.version(before)))
            if job is not None:
                seen["joined"] += parts is not None and job.compactor._compaction is not parts
                if r.random() < 0.4:
                    job.join()
                if r.random() < 0.1:
                    seen["crashed"] += 1
                    job.end()
                    job = None
                elif r.random() < 0.05:
                    job.later.shutdown()
                    job.state.close()
                    job = None
            if job is None and r.random() < 0.3:
                truth.note(world.committed)
                world.compact(set(truth.places[world.version(world.committed)].values()))
                shutil.rmtree(directory)  # a saved state is of no use after a day
                seen["compacted"] += 1
        if job is not None:
            job.end()
    check(world, truth, began)
    check_statuses(world, truth, began)
    seen["rebuilt"] = world.rebuilt
    seen["delivered"] += sum(record.topic.startswith("to.") for record in world.written())
    return seen


@hypothesis_settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_every_delivery_is_what_the_definition_says_of_its_version(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        live(Random(seed), Path(directory), 25)


def test_a_history_has_all_that_can_happen(tmp_path: Path) -> None:
    seen = live(Random(3), tmp_path, 80)
    assert all(seen.values()), seen
