"""The marking of HEM and of REIN is measured in a run of its own."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.marking import marking_us
from bench.workloads.synthetic import Workload
from matchers import EventBatch, MatchBatch
from matchers.algorithms.hem import Hem
from matchers.papers.rein import Rein

WORKLOAD = Workload(subscriptions=300, attributes=4, predicates=(2, 2), events=3)


@pytest.mark.parametrize(("algorithm", "measured"), [("hem", True), ("rein", True), ("scan", False)])
def test_hem_and_rein_have_the_marking_of_hems_paper(algorithm: str, measured: bool) -> None:
    us, right = marking_us(MeasuredAlgorithm(algorithm), WORKLOAD)
    assert isnan(us) is not measured
    assert right


@pytest.mark.parametrize(("algorithm", "matcher"), [("hem", Hem), ("rein", Rein)])
def test_an_index_that_matches_wrong_is_named(algorithm: str, matcher: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: object, events: EventBatch) -> MatchBatch:
        return MatchBatch(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int32))

    monkeypatch.setattr(matcher, "match", nothing)
    _, right = marking_us(MeasuredAlgorithm(algorithm), WORKLOAD)
    assert not right
