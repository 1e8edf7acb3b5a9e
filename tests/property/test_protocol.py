"""Jobs that crash, are delayed or replaced at any call of the broker write each record exactly once.

The broker is a double in memory. The same steps on a real one: tests/integration/streaming/kafka/test_protocol.py.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.doubles.brokers import Brokers
from tests.support.histories.histories import Fault
from tests.support.histories.protocol import KINDS, SinkHistory, at_random

pytestmark = pytest.mark.kernels

few = st.integers(0, 3)
faults = st.lists(st.builds(Fault, st.integers(1, 6), st.booleans(), st.sampled_from(KINDS)), max_size=2)
changes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=4)
events = st.lists(st.tuples(st.integers(0, 1), few), max_size=4)
Pairs = list[tuple[int, int]]


class ProtocolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()

    @initialize(quota=st.sampled_from([0, 0, 2]), create=st.booleans(), changes=changes, events=events)
    def begin(self, quota: int, create: bool, changes: Pairs, events: Pairs) -> None:
        self.history = SinkHistory(Brokers(2), self.directory, self.patch, quota=quota, create=create)
        self.history.write(changes, events)

    @rule(changes=changes, events=events)
    def write(self, changes: Pairs, events: Pairs) -> None:
        self.history.write(changes, events)

    @rule(of=few, faults=faults)
    def start(self, of: int, faults: list[Fault]) -> None:
        self.history.start(of, faults)

    @rule(which=few, most=st.integers(1, 4), again=few, rows=st.integers(1, 4), faults=faults)
    def batch(self, which: int, most: int, again: int, rows: int, faults: list[Fault]) -> None:
        self.history.batch(which, most, again, rows, faults)

    @rule(which=few, crash=few)
    def beside(self, which: int, crash: int) -> None:
        self.history.beside(which, crash)

    @rule(which=few)
    def crash(self, which: int) -> None:
        self.history.crash(which)

    @rule(which=few)
    def stop(self, which: int) -> None:
        self.history.stop(which)

    @rule()
    def expire(self) -> None:
        self.history.expire()

    @rule(which=few)
    def spoil(self, which: int) -> None:
        self.history.spoil(which)

    @rule(subscriber=few)
    def delete(self, subscriber: int) -> None:
        self.history.delete(subscriber)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "history"):
            self.history.check()

    def teardown(self) -> None:
        try:
            if hasattr(self, "history"):
                self.history.finish()
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)


EXAMPLES = hypothesis_settings().max_examples // 3
TestProtocol = ProtocolMachine.TestCase
TestProtocol.settings = hypothesis_settings(max_examples=EXAMPLES, stateful_step_count=25)


EVERYTHING = [*KINDS, "crashed", "crashed within", "crashed in a save", "stopped", "spoiled", "deleted"]
EVERYTHING += ["from a saved state", "started beside another", "superseded"]

CASES = {
    # A first start publishes statuses without offsets: that none of its own were overwritten does not tell all.
    "a first start that slept while another one took over is fenced": [Fault(2, False, "replace")],
    "a first start that slept before its first transaction goes on": [Fault(2, False, "timeout")],
    "that it slept may show at the end of a transaction": [Fault(3, False, "timeout")],
    "a first start of which all was committed and no answer came": [Fault(1, True, "lost")],
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_start(name: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        history = SinkHistory(Brokers(2), tmp_path, patch)
        history.write([(id, 0) for id in range(6)], [(0, 1), (0, 1), (1, 2)])
        history.start(faults=CASES[name])
        assert history.seen["superseded"] == ("replace" in history.seen)
        history.write([(id, 1) for id in range(6)], [(0, 1), (1, 1)])
        for fault in CASES[name]:
            history.batch(faults=[fault])
            assert history.running
        history.check()
        history.finish()


def test_a_claim_that_was_committed_and_not_answered_is_one(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        history = SinkHistory(Brokers(2), tmp_path, patch)
        history.write([(0, 0)], [(0, 1)])
        history.start()
        history.crash()
        history.start(faults=[Fault(3, True, "lost")])  # the only transaction of a later start
        assert history.seen["lost"] == 1
        assert history.running[0].job is not None
        history.finish()


def test_a_history_has_all_that_can_happen(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        history = SinkHistory(Brokers(2), tmp_path, patch, create=False)
        at_random(history, 1, 300)
        history.finish()
    assert not [kind for kind in EVERYTHING if not history.seen[kind]], history.seen


def test_who_cannot_know_whether_it_was_replaced_stops(tmp_path: Path) -> None:
    """The other one died in a transaction, so for now nobody sees what is committed."""
    with pytest.MonkeyPatch.context() as patch:
        history = SinkHistory(Brokers(2), tmp_path, patch)
        history.write([(0, 0)], [(0, 1)])
        history.start()
        history.start(faults=[Fault(3, False, "crash")])  # at the commit of its claim
        history.batch()
        assert (history.seen["unreachable"], history.running) == (1, [])
        history.finish()


def test_who_slept_and_is_replaced_while_it_opens_its_sink_again_stops(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        history = SinkHistory(Brokers(2), tmp_path, patch)
        history.write([(0, 0)], [])
        history.start()
        history.write([], [(0, 1)])
        history.batch(faults=[Fault(3, False, "timeout"), Fault(4, False, "replace")])  # at the commit, and after it
        assert (history.seen["timeout"], history.seen["superseded"]) == (1, 1)
        assert [one.job is not None for one in history.running] == [True]
        history.finish()
