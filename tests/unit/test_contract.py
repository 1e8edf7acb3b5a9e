"""What the registry says of each algorithm is so."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, SubscriptionTable
from matchers.contract.matcher import RatedMatcher

HOME = Path(__file__).resolve().parents[2]
TABLE = SubscriptionTable.from_intervals([0, 1], [0, 0], [0.0, 5.0], [1.0, 6.0], n_subscriptions=2, n_columns=1)
EVENTS = EventBatch.from_dense([[0.5], [5.5]])


def listed(result: MatchBatch) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


@pytest.mark.parametrize("name", ["scan", "wpa_rein", "ada_rein"])
def test_those_that_take_a_rate_are_those_that_the_registry_names(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert isinstance(algorithm(TABLE), RatedMatcher) is algorithm.rated
    assert algorithm.approximate or not algorithm.rated


@pytest.mark.kernels
@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if algorithm.updatable])
def test_an_updatable_algorithm_inserts_and_deletes_and_is_no_matcher(name: str) -> None:
    build = ALGORITHMS[name].updatable
    assert build is not None
    index = build(TABLE, capacity=1, psi=1)
    assert listed(index.match(EVENTS)) == [[0], [1]]
    assert index.insert([0], [0.0], [9.0]) == 2
    assert listed(index.match(EVENTS)) == [[0, 2], [1, 2]]
    index.delete(0)
    assert listed(index.match(EVENTS)) == [[2], [1, 2]]


@pytest.mark.parametrize("package", ["streaming", "commands", "config", "offline", "bench"])
def test_only_the_registry_compares_the_names_of_algorithms(package: str) -> None:
    for module in (HOME / package).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Compare):
                sides = [side for side in ast.walk(node) if isinstance(side, ast.Constant)]
                names = [side.value for side in sides if side.value in ALGORITHMS]
                assert not names, f"{module.relative_to(HOME)}:{node.lineno} compares with {names}"
