"""PCM's dispatcher: events are read from bytes, forwarded, and written to their interfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.errors import BenchError
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.papers import sweeps
from bench.workloads.dispatcher import Dispatcher, outputs
from bench.workloads.documents import Documents
from matchers import ALGORITHMS, MatchBatch
from matchers.contract.tables import offsets_of

TOY = Dispatcher(events=60, filters=(30, 40), names=12)


def test_what_is_read_are_the_events_of_the_scenario() -> None:
    read, drawn = TOY.prepared().encoded(0, 60), TOY.batch()
    assert read.offsets.tolist() == drawn.offsets.tolist()
    assert read.column.tolist() == drawn.column.tolist()
    assert read.value.tolist() == drawn.value.tolist()
    assert read.n_columns == TOY.columns


def test_an_interface_gets_a_line_for_each_event_that_is_forwarded_to_it() -> None:
    documents = Documents.of(['{"a":1}', '{"b":2}', "{}"]).part(1, 3)
    forwarded = MatchBatch(offsets_of([2, 1]), np.array([0, 2, 2], np.int32))
    assert outputs(documents, forwarded, 3) == [b'{"b":2}\n', b"", b'{"b":2}\n{}\n']


def test_its_steps_give_the_interfaces_of_the_filters_that_match() -> None:
    prepared = TOY.prepared()
    matcher = ALGORITHMS["scan"](prepared.table)
    found: Any = prepared.part(0, 60)
    for step in prepared.steps(matcher).values():
        found = step(found)
    expected = prepared.interfaces.behind(matcher.match(TOY.batch()))
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.subscription.tolist() == expected.subscription.tolist()
    assert len(expected.subscription) > 0


def test_each_step_is_timed_and_the_answer_checked() -> None:
    (one,) = measure(TOY, [MeasuredAlgorithm("sff")], Effort(seconds=0.0, rounds=1, batch=7))
    assert one.checked
    assert list(one.us_of_step) == ["read", "forward", "write"]
    assert sum(one.us_of_step.values()) == pytest.approx(one.us_per_event)


def test_the_rate_counts_all_steps_and_that_of_the_engine_one() -> None:
    (figure,) = sweeps.figures("pcm", ["10"])
    outcome = sweeps.run(figure, 0.0002, Effort(seconds=0.0, rounds=1))
    for x, us in outcome.values("sff", "us").items():
        assert outcome.values("sff", "rate")[x] == pytest.approx(1e6 / us)
        assert outcome.values("sff", "engine")[x] > outcome.values("sff", "rate")[x]


def test_texts_are_rejected() -> None:
    with pytest.raises(BenchError, match=r"numerical cannot be 0.5; it must be 1: a dispatcher reads numbers only"):
        Dispatcher(numerical=0.5)
