"""Each algorithm is as the registry describes it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.contract.matcher import RatedMatcher
from matchers.index.stored import put_together, taken_apart
from matchers.papers.updates import UPDATABLE

HOME = Path(__file__).resolve().parents[4]
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
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "ccm"])  # which keeps arrays on a device
def test_a_matcher_that_has_matched_can_be_stored(name: str) -> None:
    """Matching may keep values on the matcher; these must be storable too."""
    matcher = ALGORITHMS[name](TABLE)
    found = listed(matcher.match(EVENTS))
    again = put_together(*taken_apart(matcher), type(matcher))
    assert listed(again.match(EVENTS)) == found


@pytest.mark.kernels
@pytest.mark.parametrize("name", UPDATABLE)
def test_an_updatable_algorithm_inserts_and_deletes_and_is_no_matcher(name: str) -> None:
    build = UPDATABLE[name]
    index = build(TABLE)
    assert not isinstance(index, Matcher)
    assert listed(index.match(EVENTS)) == [[0], [1]]
    assert index.insert(TABLE) == 2
    before = index.match(EVENTS)
    assert listed(before) == [[0, 2], [1, 3]]
    index.delete([3, 0])
    assert listed(index.match(EVENTS)) == [[2], [1]]
    assert index.insert(TABLE) == 4
    assert listed(index.match(EVENTS)) == [[2, 4], [1, 5]]
    assert listed(before) == [[0, 2], [1, 3]]


@pytest.mark.kernels
@pytest.mark.parametrize("name", UPDATABLE)
@pytest.mark.parametrize(("numbers", "wrong"), [([0, 2], 2), ([-1], -1), ([1, 1], 1), ([0, 4], 4)])
def test_what_is_not_there_cannot_be_deleted(name: str, numbers: list[int], wrong: int) -> None:
    build = UPDATABLE[name]
    index = build(TABLE)
    index.insert(TABLE)
    index.delete(2)
    index.delete([])
    with pytest.raises(MatchingError, match=f"cannot delete {wrong}: no such subscription"):
        index.delete(numbers)
    assert listed(index.match(EVENTS)) == [[0], [1, 3]]


@pytest.mark.parametrize("name", UPDATABLE)
def test_a_table_with_other_columns_is_not_inserted(name: str) -> None:
    build = UPDATABLE[name]
    index = build(TABLE)
    other = SubscriptionTable.from_intervals([0], [1], [0.0], [1.0], n_subscriptions=1, n_columns=2)
    with pytest.raises(MatchingError, match="must have 1 columns as the index has, not 2"):
        index.insert(other)


@pytest.mark.parametrize("package", ["streaming", "commands", "config", "offline", "bench"])
def test_only_the_registry_compares_the_names_of_algorithms(package: str) -> None:
    for module in (HOME / package).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Compare):
                sides = [side for side in ast.walk(node) if isinstance(side, ast.Constant)]
                names = [side.value for side in sides if side.value in ALGORITHMS]
                assert not names, f"{module.relative_to(HOME)}:{node.lineno} compares with {names}"
