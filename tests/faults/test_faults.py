"""The short form of `make test-faults`: after a few faults nothing is lost, duplicated or wrong."""

from __future__ import annotations

from tests.faults.run import run
from tests.faults.system import LOAD, System

KINDS = ["driver", "poison", "worker", "twin", "topic", "broker", "drop", "job"]
SEED = 1


def test_the_job_comes_back_by_itself_and_everything_is_delivered_exactly_once() -> None:
    told: list[str] = []
    with System(LOAD, {"matching.algorithm": "scan"}) as system:
        outcome = run(system, KINDS, SEED, told.append)
    assert outcome.right, "\n".join(told)
    assert [fault.kind for fault in outcome.faults] == KINDS
    assert outcome.restarts >= 2
    assert min(outcome.written["transactions_committed"], outcome.written["transactions_aborted"]) > 0
    assert outcome.found is not None
    assert outcome.found.answer.delivered > 1_000
    assert not system.directory.exists()
