"""Jobs whose tasks publish write each record exactly once, whatever crashes, sleeps, is replaced or gets no answer.

Drivers, sinks, tasks, slots and clients are the real ones, but for what needs Spark; the brokers are a double in memory
that speaks Kafka's protocol. The same on a real broker: tests/integration/streaming/publishing/test_slots.py and
tests/faults.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streaming.errors import Unsettled
from streaming.rows import EVENTS
from tests.support.histories.actors import Actor
from tests.support.histories.histories import Fault
from tests.support.histories.slot_histories import KINDS, MOST_TASKS, SlotHistory, at_random

few = st.integers(0, 3)
cores = st.integers(1, MOST_TASKS)
faults = st.lists(st.builds(Fault, st.integers(1, 12), st.booleans(), st.sampled_from(KINDS)), max_size=2)
changes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=3)
events = st.lists(st.tuples(st.integers(0, 2), few), max_size=5)
Pairs = list[tuple[int, int]]


class SlotMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.history: SlotHistory | None = None

    @initialize(
        version=st.sampled_from([2, 2, 2, 1]),
        create=st.booleans(),
        shards=st.sampled_from([1, 1, 2]),
        at_once=st.sampled_from([200_000, 2]),
        piece_bytes=st.sampled_from([16 << 20, 300]),
        tenant=st.booleans(),
        changes=changes,
        events=events,
    )
    def begin(self, changes: Pairs, events: Pairs, create: bool, tenant: bool, **options: int) -> None:
        self.history = SlotHistory(self.directory, self.patch, create=create, tenant=tenant, **options)
        self.history.write(changes, [])
        self.history.start(MOST_TASKS)
        self.history.write([], events)

    @rule(changes=changes, events=events)
    def write(self, changes: Pairs, events: Pairs) -> None:
        self.of().write(changes, events)

    @rule(cores=cores, again=st.booleans(), faults=faults)
    def start(self, cores: int, again: bool, faults: list[Fault]) -> None:
        self.of().start(cores, again, faults)

    @rule(which=few, most=st.integers(1, 4), again=few, rows=st.integers(1, 4), order=few, faults=faults)
    def batch(self, which: int, most: int, again: int, rows: int, order: int, faults: list[Fault]) -> None:
        self.of().batch(which, most, again, rows, order, faults)

    @precondition(lambda self: self.of().sleeping)
    @rule(which=few, most=st.integers(1, 4), rows=st.integers(1, 4), bounded=st.booleans(), faults=faults)
    def epoch(self, which: int, most: int, rows: int, bounded: bool, faults: list[Fault]) -> None:
        self.of().epoch(which, most, rows, bounded, faults)

    @rule(which=few, faults=faults)
    def wake(self, which: int, faults: list[Fault]) -> None:
        self.of().wake(which, faults)

    @precondition(lambda self: self.of().zombies)
    @rule(which=few, faults=faults)
    def wake_task(self, which: int, faults: list[Fault]) -> None:
        self.of().wake_task(which, faults)

    @rule(which=few)
    def crash(self, which: int) -> None:
        self.of().crash(which)

    @rule()
    def expire(self) -> None:
        self.of().expire()

    @rule()
    def add_partition(self) -> None:
        self.of().add_partition()

    @rule(subscriber=few)
    def delete(self, subscriber: int) -> None:
        self.of().delete(subscriber)

    @rule(subscriber=few, why=few)
    def reject(self, subscriber: int, why: int) -> None:
        self.of().reject(subscriber, why)

    @invariant()
    def holds(self) -> None:
        if self.history is not None:
            self.history.check()

    def teardown(self) -> None:
        try:
            if self.history is not None:
                try:
                    self.history.finish()
                finally:
                    self.history.close()
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)

    def of(self) -> SlotHistory:
        assert self.history is not None
        return self.history


EVERYTHING = [
    *("started beside another", "started again", "woke up", "crashed", "deleted", "rejected", "superseded"),
    *("second attempt", "a zombie goes on", "partition added"),
]

EXAMPLES = hypothesis_settings().max_examples // 3
TestSlots = SlotMachine.TestCase
TestSlots.settings = hypothesis_settings(max_examples=EXAMPLES, stateful_step_count=30)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[SlotHistory]:
    with pytest.MonkeyPatch.context() as patch:
        history = SlotHistory(tmp_path, patch)
        yield history
        history.close()


def test_a_history_has_all_that_can_happen(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(20):
        with pytest.MonkeyPatch.context() as patch:
            history = SlotHistory(tmp_path / f"{seed}", patch, create=seed % 2 == 0, at_once=2, tenant=seed % 3 == 0)
            at_random(history, seed, 60)
            history.finish()
            history.close()
        seen += history.seen
    assert not [kind for kind in (*KINDS, *EVERYTHING) if not seen[kind]], seen


@pytest.mark.parametrize("again", [False, True], ids=["another job", "the same one, started again"])
def test_a_start_does_not_wait_until_the_transactions_of_dead_tasks_time_out(history: SlotHistory, again: bool) -> None:
    history.write([(0, 1)], [])
    history.start(2)
    history.write([], [(0, 1), (1, 1)])
    history.at("TxnOffsetCommit", True, history.die)
    history.batch()
    assert not history.drivers
    before = history.broker.now
    history.start(2, again)
    history.batch()
    assert history.broker.now - before < 5.0
    history.finish()


@pytest.mark.parametrize("again", [False, True], ids=["first", "second"])
def test_only_the_first_attempt_at_a_task_publishes(history: SlotHistory, again: bool) -> None:
    """The first one is suspended, and goes on after the batch."""
    history.write([(0, 1)], [])
    history.start(1)
    history.write([], [(0, 1), (0, 1)])
    history.batch(rows=1, faults=[Fault(3 if again else 1, False, "lose")])
    assert history.seen["second attempt"] == 1
    assert len(history.zombies) == 1
    history.wake_task()
    history.check()
    history.finish()


@pytest.mark.parametrize("swept", [False, True], ids=["before the next start", "after it"])
def test_a_task_of_a_dead_driver_commits_only_before_the_next_start(history: SlotHistory, swept: bool) -> None:
    history.write([(0, 1)], [])
    history.start(1)
    history.write([], [(0, 1), (1, 1)])
    history.batch(faults=[Fault(2, False, "sleep")])
    history.crash()
    if swept:
        history.start(1)
    history.wake_task()
    assert history.seen["a zombie commits"] == (not swept)
    history.check()
    history.finish()


def test_who_was_replaced_while_it_settled_publishes_nothing(history: SlotHistory) -> None:
    """The process has checked that it was not replaced, and is suspended before it fences all slots, those of its
    successor too."""
    history.write([(0, 1)], [])
    history.start(1)
    history.write([], [(0, 1)])
    history.at("InitProducerId", False, lambda driver: driver.park("sleep"))
    history.batch(faults=[Fault(1, False, "die")])
    history.start(1)
    history.write([(1, 1)], [])
    history.batch()
    history.write([], [(0, 2), (1, 2)])
    history.wake()
    assert history.seen["superseded"] == 1
    history.check()
    history.finish()


def test_who_was_replaced_while_it_opened_more_slots_publishes_nothing(history: SlotHistory) -> None:
    """The process has noted that it needs more slots, and is suspended before it opens them, those of its successor
    too."""
    history.write([(0, 1)], [(0, 1)])
    history.start(1)
    history.batch()
    history.crash()
    history.start(3, faults=[Fault(12, False, "sleep")])
    assert len(history.sleeping) == 1
    history.start(1)
    history.write([(1, 1)], [(0, 1), (1, 1)])
    history.batch()
    history.write([], [(0, 2), (1, 2)])
    history.wake()
    assert history.seen["superseded"] == 1
    history.check()
    history.finish()


def test_of_two_first_starts_only_the_later_one_publishes_statuses(history: SlotHistory) -> None:
    """The first one sleeps amid its statuses until its transaction times out, the second one before its last
    transaction; the statuses of both would say what never was in force."""
    history.write([(0, 1), (1, 1)], [])
    history.start(1, faults=[Fault(10, False, "sleep")])  # at the end of the transaction of statuses
    history.expire()
    history.write([(0, 4), (1, 2), (2, 1)], [])
    history.start(1, faults=[Fault(14, False, "sleep")])
    assert len(history.sleeping) == 2
    history.wake(1)
    assert history.seen["superseded"] == 1
    history.wake()
    history.check()
    history.start(1)
    history.finish()


def test_a_long_batch_is_not_given_up_because_a_topic_is_missing_at_its_end(history: SlotHistory) -> None:
    history.write([(0, 1), (1, 0)], [])  # bob gets all events, and another some
    history.start(1)
    for subscriber in range(3):
        history.delete(subscriber)
    history.write([], [(0, 0), (0, 1)])
    history.at("EndTxn", False, lambda task: history.broker.sleep(40.0))
    history.batch(rows=1)
    assert history.drivers
    history.finish()


def test_what_a_task_commits_while_its_driver_settles_is_not_matched_again(history: SlotHistory) -> None:
    """The task commits just before its slot is fenced, after its stage has failed."""
    history.write([(0, 1)], [])
    history.start(2)
    history.write([], [(0, 1), (1, 1)])
    history.at("InitProducerId", False, lambda driver: driver.park("sleep"))
    history.batch(faults=[Fault(1, False, "slow"), Fault(2, False, "die")])
    history.wake_task()
    assert history.seen["a zombie commits"] == 1
    history.wake()
    assert history.drivers
    history.check()
    history.finish()


def test_what_a_slot_has_committed_of_an_added_partition_is_not_published_again(history: SlotHistory) -> None:
    """The task dies before the report, and the driver learns of the partition only with this batch."""
    history.write([(0, 1)], [])
    history.start(1)
    history.write([], [(0, 1)])
    history.batch()
    history.add_partition()
    history.write([], [(0, 1), (2, 1)])
    history.at("EndTxn", True, lambda task: task.die())
    history.batch()
    assert history.drivers
    history.check()
    history.finish()


def test_a_batch_whose_tasks_are_fenced_again_and_again_is_given_up_after_half_a_minute(history: SlotHistory) -> None:
    history.write([(0, 1)], [])
    history.start(1)
    history.write([], [(0, 1)])
    began, tries = history.broker.now, 0

    def fence(actor: Actor) -> None:
        nonlocal tries
        if actor.facts.task is not None:
            tries += 1
            history.broker.ids["job/0"].epoch += 1
        history.at("TxnOffsetCommit", False, fence)

    history.at("TxnOffsetCommit", False, fence)
    with pytest.raises(Unsettled):
        history.batch()
    assert 30.0 < history.broker.now - began < 40.0
    assert 30 < tries < 60  # the pauses between them grow


SUSPENDED = pytest.mark.parametrize(
    ("call", "after"),
    [("TxnOffsetCommit", True), ("EndTxn", False), ("EndTxn", True)],
    ids=["before the commit", "in the commit", "after the commit"],
)


@SUSPENDED
@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "replaced meanwhile"])
def test_a_driver_that_is_suspended_in_its_transaction_after_all_slots_have_committed(
    history: SlotHistory, call: str, after: bool, replaced: bool
) -> None:
    """The transaction has the changes of the batch, and times out."""
    history.write([(0, 1)], [])
    history.start(2)
    history.write([(1, 0)], [(0, 1), (1, 1)])
    history.at(call, after, lambda driver: driver.park("sleep"), driver=True)
    history.batch()
    assert {at: history.world.committed[EVENTS, at] for at in (0, 1)} == {0: 1, 1: 1}
    _resumed(history, replaced)


@SUSPENDED
@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "replaced meanwhile"])
def test_a_driver_that_is_suspended_while_it_settles_and_a_slot_commits(
    history: SlotHistory, call: str, after: bool, replaced: bool
) -> None:
    """A task has failed; the transaction is the driver's claim, and another task commits, which nobody told of."""
    history.write([(0, 1)], [])
    history.start(2)
    history.write([], [(0, 1), (1, 1)])
    history.at(call, after, lambda driver: driver.park("sleep"), driver=True)
    history.batch(faults=[Fault(1, False, "slow"), Fault(2, False, "die")])
    history.wake_task()
    assert history.seen["a zombie commits"] == 1
    _resumed(history, replaced)


def _resumed(history: SlotHistory, replaced: bool) -> None:
    """A driver that sleeps goes on after its transaction has timed out, unless another has taken over."""
    assert len(history.sleeping) == 1
    history.expire()
    if replaced:
        history.start(1)
        history.write([(2, 1)], [(0, 1), (1, 1)])
        history.batch()
    history.wake()
    assert not history.sleeping
    if len(history.drivers) == 2:  # it had committed, so it learns of the other with its next batch
        history.write([], [(0, 3)])
        history.batch(1)
    assert len(history.drivers) == 1
    assert history.seen["superseded"] == replaced
    history.check()
    history.finish()
