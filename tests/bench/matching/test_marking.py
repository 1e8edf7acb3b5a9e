"""The marking of HEM and of REIN is measured in a run of its own."""

from __future__ import annotations

from math import isnan

import pytest

from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.marking import marking_us
from bench.workloads.synthetic import Workload

WORKLOAD = Workload(subscriptions=300, attributes=4, predicates=(2, 2), events=3)


@pytest.mark.parametrize(("algorithm", "measured"), [("hem", True), ("rein", True), ("scan", False)])
def test_hem_and_rein_have_the_marking_of_hems_paper(algorithm: str, measured: bool) -> None:
    assert isnan(marking_us(MeasuredAlgorithm(algorithm), WORKLOAD)) is not measured
