"""The marking of HEM is measured in a run of its own."""

from __future__ import annotations

from math import isnan

from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.marking import marking_us
from bench.workloads.synthetic import Workload

WORKLOAD = Workload(subscriptions=300, attributes=4, predicates=(2, 2), events=3)


def test_only_hem_has_the_marking_of_its_paper() -> None:
    assert not isnan(marking_us(MeasuredAlgorithm("hem"), WORKLOAD))
    assert isnan(marking_us(MeasuredAlgorithm("rein"), WORKLOAD))
