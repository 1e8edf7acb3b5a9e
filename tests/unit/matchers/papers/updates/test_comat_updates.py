"""COMAT that changes in place: what its predictor takes into account."""

from __future__ import annotations

import numpy as np
import pytest

from matchers import EventBatch
from matchers.papers.comat import assumed
from matchers.papers.comat.predicted_time import features_of
from matchers.papers.updates.comat import UpdatableComat
from tests.unit.matchers.agreement import uniform_table

pytestmark = pytest.mark.kernels

EVENTS = EventBatch.from_dense(np.random.default_rng(3).random((20, 4)))


def test_hits_and_predicates_follow_what_came_and_went() -> None:
    first, more = uniform_table(300, 4, 2, 0.3), uniform_table(200, 4, 2, 0.3, seed=2)
    index = UpdatableComat(first)
    index.insert(more)
    index.delete(np.arange(100))
    expected = features_of(assumed(index._table.rows_of(np.arange(100, 500))).ends, EVENTS)
    found = features_of(index._comat.seconds.ends, EVENTS)
    assert (found[:, [0, 1, 3]] == expected[:, [0, 1, 3]]).all()
    assert np.abs(found[:, 2] - expected[:, 2]).max() < 0.2 * expected[:, 2].mean()
    assert index._comat.seconds.weights[0].tolist() == [0.0, 800.0]


def test_an_update_measures_nothing_and_a_whole_build_does() -> None:
    calls = []

    def clock() -> float:
        calls.append(1)
        return float(len(calls))

    index = UpdatableComat(uniform_table(300, 4, 2, 0.3), fewest=0, clock=clock)
    built = len(calls)
    assert built > 0
    index.insert(uniform_table(200, 4, 2, 0.3))
    index.delete([1, 2, 3])
    assert len(calls) == built
    index.insert(uniform_table(200, 4, 2, 0.3))
    assert len(calls) == 2 * built


def test_both_algorithms_have_what_is_inserted_and_lack_what_is_deleted() -> None:
    index = UpdatableComat(uniform_table(50, 4, 1, 0.3))
    index.insert(uniform_table(50, 4, 1, 0.3, seed=2))
    index.delete([0, 70])
    counted, marked = (algorithm.match(EVENTS) for algorithm in index._algorithms)
    assert counted.subscription.tolist() == marked.subscription.tolist()
    assert not {0, 70} & set(counted.subscription.tolist())
