"""In every history of a job, each delivery is what the definition gives for the version that it names.

A history is random: changes and events on two partitions each, joins that finish when they like, saves, and crashes
before and after what was committed is taken into account, after which a job restores itself and goes on.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.publishing.contract import Offsets
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition
from tests.support.doubles.stage import NAMES, Later, Slots, SomeTopics, change, event
from tests.support.generators.strategies import choice, events_near, json_events, patterns
from tests.support.histories.living import Crash, Job, Truth, World, check, check_statuses

pytestmark = pytest.mark.kernels

IDS = [f"s{i}" for i in range(14)]
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [("scan", {}), ("tiles", {"tile": 3, "fewest": 1})]


@dataclass
class Sink(World):
    """The topics of events and subscriptions, and the published records with their offsets."""

    records_written: list[Record] = field(default_factory=list)
    crash_after_commit: int = 0  # the how-manieth from now; 0: none

    def written(self) -> list[Record]:
        return self.records_written

    def publish(self, records: Iterable[Record], offsets: Offsets, *, starting: bool = False) -> tuple[float, float]:
        sources = NAMES.sources.sources
        self.records_written += records
        positions = {(sources[topic], partition): offset for (topic, partition), offset in offsets.items()}
        self.committed |= {} if starting else positions
        self.note_batch(self.committed)
        self.crash_after_commit -= 1
        if self.crash_after_commit == 0:
            raise Crash
        return 0.0, 0.0


class LaterJob(Job):
    """A job whose background work runs when a history says so."""

    def __init__(self, world: Sink, empty: Snapshot, directory: Path) -> None:
        self.later = Later()
        super().__init__(world, empty, directory, world.committed, world, SomeTopics(set()), Slots(world), self.later)

    def join(self) -> None:
        """Finish the compaction before the next batch ends."""
        joining = self.compactor._compaction
        while joining is not None and not joining.future.done():
            self.later.work()
            time.sleep(0.0005)

    def end(self) -> None:
        """A crash: nothing is saved that was not."""
        self.later.shutdown()
        self.compactor._joins.shutdown(wait=True, cancel_futures=True)
        self.compactor._saves.shutdown(wait=True, cancel_futures=True)


class Changed(NamedTuple):
    id: str
    document: Any
    elsewhere: int | None  # among the partitions; None where the key puts it, as most clients do
    timestamp: int  # some clients have another clock


class Round(NamedTuple):
    """Records that are written, a batch of some of them, and then an end of the job, if there is one."""

    grows: bool  # both topics get a partition
    changes: list[Changed]
    events: list[tuple[int, Any, int]]  # partition, value, timestamp
    taken: list[tuple[int, int]]  # of the partitions in turn: how many are read again, and how many more
    order: int  # of the partitions, which tasks get in turn
    most: int  # rows in a batch of Arrow's
    crashes_after_commit: int  # the how-manieth of the batch; 0: none
    joins: bool
    end: str  # "", "crash" or "stop"
    compacts: bool  # if the job has ended


class BatchHistory(NamedTuple):
    algorithm: tuple[str, dict[str, Any]]
    shards: int
    quota: int
    steps: list[Round]


few = st.integers(0, 3)


def one_in(n: int) -> st.SearchStrategy[bool]:
    return st.integers(1, n).map(lambda drawn: drawn == n)


@st.composite
def histories(draw: st.DrawFn) -> BatchHistory:
    some = draw(st.lists(patterns(), min_size=1, max_size=8))
    more = [*[{}] * 10, *[{"paused": True}] * 2, *[{"expires_at": f"1970-01-01T00:00:0{n}Z"} for n in (1, 2, 3, 4)]]
    rejected = {"pattern": {"x": 5}}
    document = st.builds(
        lambda subscriber, pattern, more: {"subscriber": subscriber, "pattern": pattern} | more,
        st.sampled_from(["alice", "bob", "carol"]),
        st.sampled_from(some),
        st.sampled_from([*more, rejected, rejected]),
    )
    changed = st.builds(
        Changed,
        st.sampled_from(IDS),
        choice(*[document] * 6, st.none()),
        choice(*[st.none()] * 4, few),
        st.integers(0, 99),
    )
    sent = st.tuples(few, choice(*[events_near(some, json_events)] * 9, st.just(b"no event")), st.integers(0, 4_999))
    step = st.builds(
        Round,
        one_in(20),
        st.lists(changed, max_size=6),
        st.lists(sent, max_size=3),
        st.lists(st.tuples(st.sampled_from([0, 0, 0, 2]), st.sampled_from([99, 99, 2])), min_size=1, max_size=3),
        st.integers(0, 9),
        st.integers(1, 12),
        st.sampled_from([*[0] * 27, 1, 2, 3]),
        one_in(2),
        st.sampled_from([*[""] * 17, "crash", "crash", "stop"]),
        one_in(3),
    )
    steps = draw(st.lists(step, max_size=10) | st.lists(step, min_size=25, max_size=25))
    return BatchHistory(
        draw(st.sampled_from(ALGORITHMS)), draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([0, 3])), steps
    )


def grow(world: Sink, step: Round) -> None:
    if step.grows:
        world.add_partition()
    logs = [log for _, log in world.logs(SUBSCRIPTIONS)]
    for id, document, elsewhere, timestamp in step.changes:
        partition = (IDS.index(id) if elsewhere is None else elsewhere) % len(logs)
        log = logs[partition]
        log.append(change(len(log), id, document, partition) | {"timestamp": timestamp})
    logs = [log for _, log in world.logs(EVENTS)]
    for partition, value, timestamp in step.events:
        log = logs[partition % len(logs)]
        log.append(event(len(log), value, timestamp, partition % len(logs)))


def next_batch(world: Sink, job: Job, step: Round) -> list[dict[str, Any]]:
    """Some of what is there, and often what was committed already; of a partition always in order."""
    rows: list[list[dict[str, Any]]] = []
    for (at, log), (again, most) in zip(world.topics.items(), cycle(step.taken), strict=False):
        begin = max(0, job.state.positions.get(at, 0) - again)
        rows.append(log[begin : begin + most])
    Random(step.order).shuffle(rows)
    return [row for log in rows for row in log]


def live(history: BatchHistory, directory: Path) -> dict[str, int]:
    """Returns how often what happened in it."""
    algorithm, options = history.algorithm
    empty = Snapshot(algorithm=algorithm, options=options, most=4, shards=history.shards)
    world = Sink(quota=history.quota)
    truth = Truth(world)
    began: dict[SourcePartition, dict[int, int]] = {at: {} for at in world.topics}
    seen = {"joined": 0, "crashed": 0, "crashed after the commit": 0, "delivered": 0, "from disk": 0, "compacted": 0}
    job = None
    with pytest.MonkeyPatch.context() as patch:
        world.install(patch)
        for step in history.steps:
            if job is None:
                job = LaterJob(world, empty, directory)
                seen["from disk"] += any(part in job.compactor._files for part in job.state.snapshot.parts)
            grow(world, step)
            before = dict(job.state.positions)
            truth.note(before)
            rows = next_batch(world, job, step)
            world.crash_after_commit = step.crashes_after_commit
            parts = job.compactor._compaction
            try:
                job.batch(rows, step.most)
                world.crash_after_commit = 0
            except Crash:
                seen["crashed after the commit"] += 1
                job.end()
                job = None
            for p, _ in world.logs(EVENTS):
                low, high = before.get((EVENTS, p), 0), world.committed.get((EVENTS, p), 0)
                began.setdefault((EVENTS, p), {}).update(dict.fromkeys(range(low, high), world.version(before)))
            if job is not None:
                seen["joined"] += parts is not None and job.compactor._compaction is not parts
                if step.joins:
                    job.join()
                if step.end == "crash":
                    seen["crashed"] += 1
                    job.end()
                    job = None
                elif step.end == "stop":
                    job.later.shutdown()
                    job.state.close()
                    job = None
            if job is None and step.compacts:
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


@pytest.mark.large
def test_every_delivery_is_what_the_definition_says_of_its_version_in_histories_of_all_that_can_happen() -> None:
    seen: Counter[str] = Counter()

    @hypothesis_settings(max_examples=15)
    @given(history=histories())
    def each(history: BatchHistory) -> None:
        with tempfile.TemporaryDirectory() as directory:
            seen.update(live(history, Path(directory)))

    each()
    assert all(seen.values()) or not hypothesis_settings().derandomize, seen
