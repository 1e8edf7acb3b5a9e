"""A restored state equals the original, wherever the changes of an id lie."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from matchers.index.snapshot import Snapshot
from streaming.rows import SUBSCRIPTIONS
from streaming.state import restore
from streaming.state.compaction import Compactor
from streaming.state.restore import SubscriptionsTopics
from streaming.tenants import Tenant, change_partition, number_of
from tests.property.test_living import LaterJob, Sink
from tests.support.doubles.stage import ALICE, BOB, change
from tests.support.doubles.topic import Record
from tests.support.histories.living import Crash
from tests.support.logged import fields_of

pytestmark = pytest.mark.kernels

WRONG = {"subscriber": "?", "pattern": {}}
Change = tuple[str, Any, int, int]  # id, document, partition, timestamp


class SavedJob:
    """A job and what it reads; it starts again on what it saved, or on nothing."""

    def __init__(self, directory: Path) -> None:
        self.world, self.directory = Sink(), directory
        self.world.add_partition()
        self.job: LaterJob | None = None

    def write(self, *changes: Change) -> None:
        for id, document, partition, timestamp in changes:
            log = self.world.topics[SUBSCRIPTIONS, partition]
            log.append(change(len(log), id, document, partition) | {"timestamp": timestamp})

    def batch(self, *changes: Change) -> None:
        self.write(*changes)
        assert self.job is not None
        logs = self.world.topics.items()
        self.job.batch([row for at, log in logs for row in log[self.job.state.positions.get(at, 0) :]], 100)

    def start(self) -> dict[str, str]:
        """The subscriber of each subscription."""
        self.job = LaterJob(self.world, Snapshot(most=4), self.directory)
        return {id: subscriber for id, (subscriber, _) in self.job.subscriptions().items()}

    def save(self) -> None:
        """Save and stop."""
        assert self.job is not None
        self.job.later.shutdown()
        self.job.state.close()

    def crash(self) -> None:
        assert self.job is not None
        self.job.end()

    def forget(self) -> None:
        shutil.rmtree(self.directory)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SavedJob]:
    world = SavedJob(tmp_path / "state")
    world.world.install(monkeypatch)
    monkeypatch.setattr(Compactor, "save_if_due", lambda *_: None)  # only when a test says so
    world.write(("kept", ALICE, 0, 1))
    assert world.start() == {"kept": "alice"}
    yield world
    world.crash()


# Batches of changes; in every one an id counts as its last change says, whatever the times and partitions.
HISTORIES: dict[str, tuple[list[Sequence[Change]], dict[str, str]]] = {
    "unsubscribed in a lower partition": ([[("s", ALICE, 1, 5)], [("s", None, 0, 9)]], {}),
    "unsubscribed in a lower partition by a client whose clock is slow": (
        [[("s", ALICE, 1, 5)], [("s", None, 0, 2)]],
        {},
    ),
    "replaced in a lower partition": ([[("s", ALICE, 2, 5)], [("s", BOB, 1, 2)]], {"s": "bob"}),
    "back in the first partition": (
        [[("s", ALICE, 0, 5)], [("s", None, 1, 6)], [("s", BOB, 0, 4)]],
        {"s": "bob"},
    ),
    "unsubscribed elsewhere, then a rejected change": (
        [[("s", ALICE, 0, 5)], [("s", None, 1, 2)], [("s", WRONG, 0, 9)]],
        {},
    ),
    "replaced, unsubscribed elsewhere, then a rejected change": (
        [[("s", ALICE, 0, 5)], [("s", BOB, 0, 6)], [("s", None, 1, 2)], [("s", WRONG, 0, 9)]],
        {},
    ),
    "replaced elsewhere, then a rejected change": (
        [[("s", ALICE, 1, 5)], [("s", BOB, 0, 2)], [("s", WRONG, 1, 9)]],
        {"s": "bob"},
    ),
    "all in one batch: the latest time counts": ([[("s", ALICE, 1, 5), ("s", BOB, 0, 9)]], {"s": "bob"}),
}


@pytest.mark.parametrize("saved", [None, 0, 1], ids=["nothing is saved", "the first is saved", "a batch is saved"])
@pytest.mark.parametrize(("batches", "expected"), HISTORIES.values(), ids=HISTORIES)
def test_what_counts_when_the_job_is_back(
    world: SavedJob, batches: list[Sequence[Change]], expected: dict[str, str], saved: int | None
) -> None:
    for number, changes in enumerate(batches):
        if number == saved:
            world.save()
            world.start()
        world.batch(*changes)
    assert world.job is not None
    live = world.job.subscriptions()
    world.crash()
    if saved is None:
        world.forget()
    assert world.start() == {"kept": "alice"} | expected
    assert world.job.subscriptions() == live


def test_what_a_quota_rejected_stays_rejected_without_the_checkpoint(world: SavedJob) -> None:
    assert world.job is not None
    world.batch(("s", BOB, 0, 5))
    world.job.pipeline.subscription_quota.most = 1
    world.job.pipeline.subscription_quota.begin(world.job.state.snapshot)
    world.batch(("s", ALICE, 0, 6))
    world.batch(("s", ALICE, 0, 7))
    assert [s["status"] for s in world.world.said("s")] == ["accepted", "rejected", "rejected"]
    world.crash()
    world.forget()
    assert world.start() == {"kept": "alice", "s": "bob"}


def test_a_partition_that_is_added_changes_nothing(world: SavedJob) -> None:
    """The natural way: the keys of later changes lead to another partition."""
    world.batch(*((f"s{i}", ALICE, i % 2, 1) for i in range(6)))
    world.batch(*((f"s{i}", None, (i + 1) % 3, 2) for i in range(6)))
    world.crash()
    world.world.compact(())
    world.forget()
    assert world.start() == {"kept": "alice"}


def test_what_a_first_start_said_that_did_not_end_was_never_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SavedJob(tmp_path / "state")
    world.world.install(monkeypatch)
    world.write(("s", ALICE, 0, 5))
    publish = world.world.publish

    def crash_at_the_end(records: Any, offsets: Any, *, starting: bool) -> tuple[float, float]:
        if offsets and not starting:
            raise Crash
        return publish(records, offsets, starting=starting)

    monkeypatch.setattr(world.world, "publish", crash_at_the_end)
    with pytest.raises(Crash):
        world.start()
    assert len(world.world.written()) == 1
    monkeypatch.undo()
    world.world.install(monkeypatch)
    world.write(("s", BOB, 1, 2))
    assert world.start() == {"s": "alice"}  # one batch, and alice's change was written later
    world.crash()


def test_what_compaction_took_is_told(world: SavedJob, caplog: pytest.LogCaptureFixture) -> None:
    """A rejected change keeps the document before it in force, but in the topic that goes after a day."""
    world.batch(("s", ALICE, 0, 5))
    world.batch(("s", WRONG, 0, 6))
    world.crash()
    world.world.compact(())
    world.forget()
    assert world.start() == {"kept": "alice"}
    assert [fields_of(r)["subscription_ids"] for r in caplog.records if r.message == "subscriptions_lost"] == [["s"]]


def test_the_statuses_of_each_tenant_decide_on_its_own_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = {n: Tenant(f"{name}.changes", f"{name}.statuses", name) for name in ("a", "b") if (n := number_of(name))}
    status = {"query": "job", "status": "accepted", "version": 7, "read_up_to": {"0": 9}}
    written = [
        Record("s", status | {"topic_id": "id of a", "change": {"partition": 0, "offset": 3}}, topic="a.statuses"),
        Record("s", status | {"topic_id": "id of b", "change": {"partition": 0, "offset": 5}}, topic="b.statuses"),
        Record("s", None, topic="b.statuses", partition=1),
        Record("t", status | {"topic_id": "id of a", "change": {"partition": 0, "offset": 6}}, topic="b.statuses"),
    ]
    monkeypatch.setattr(restore, "read", lambda cluster, topics, follow: iter(written))
    topics = SubscriptionsTopics("", {}, tenants, {}, {n: f"id of {t.name}" for n, t in tenants.items()}, "job")
    words = {id: decision.word for id, decision in restore._decisions(topics, "job".__eq__)}
    assert words == {
        tenant.qualified_key(b"s"): (change_partition(n, 0), offset)
        for (n, tenant), offset in zip(tenants.items(), (3, 5), strict=True)
    }
