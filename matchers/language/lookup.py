"""Look values up among many operators without evaluating each operator.

An operator is mostly one region of one facet, and the regions of many are sorted ranges there:

    one of them holds:    [a------b)   [c---d)     united, so that a value is found by bisection

    each of them holds    [a------b)               of nested ranges the innermost, so that both ends ascend; then no
    for some value:           [c------d)           value lies in some range if, for two values next to each other,
                                   [e----f)        the first range that begins after one ends before the other

Operators that are not just a region, such as wildcards, are evaluated one by one; `lowering` limits their number.
Cost: O(N log N) for N operators, then O(M (log N + log M)) for M values, and M for each operator evaluated by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import cast

from matchers.language import facets
from matchers.language.facets import PLACE
from matchers.language.model import Absent, Constraint, Contains, Interval, Operator, Range, Scalar
from matchers.language.operators import AnythingBut, Not

Test = Callable[[Scalar], bool]


def value_test(operators: Iterable[Operator]) -> Test:
    """The test whether one of the operators holds for a value."""
    regions: dict[str, list[Range]] = {}
    others: list[Test] = []
    for operator in operators:
        region = _region(operator)
        if region is None:
            others.append(_conjunction_test(operator))
        else:
            facet, ranges = region
            regions.setdefault(facet, []).extend(ranges)
    return _any_of([*(_ranges_test(facet, ranges) for facet, ranges in regions.items()), *others])


def residual_test(operator: Operator) -> Test:
    """The test of an operator that no facet has. The operators within one may have facets."""
    if isinstance(operator, Not | AnythingBut):
        excluded = value_test(operator.operators)
        if isinstance(operator, Not):
            return lambda value: not excluded(value)
        return lambda value: not isinstance(value, Absent) and not excluded(value)
    return operator.holds


def array_test(contains: Contains) -> Callable[[Sequence[Scalar]], bool]:
    """The test of an array's values; it answers as `contains.accepts`."""
    wanted = contains.is_wanted
    if contains.each:
        each_met = _each_met(contains.operators)
        return lambda values: each_met(values) is wanted
    test = value_test(contains.operators)
    return lambda values: any(map(test, values)) is wanted


def met(operators: Sequence[Operator], values: Sequence[Scalar]) -> list[bool]:
    """Return for each operator whether it holds for some value."""
    places: dict[str, list[bytes]] = {}
    answers = []
    for operator in operators:
        region = _region(operator)
        if region is None:
            answers.append(any(map(_conjunction_test(operator), values)))
            continue
        facet, ranges = region
        if facet not in places:
            places[facet] = _places(facet, values)
        answers.append(any(_has_one(places[facet], low, high) for low, high in ranges))
    return answers


def closed_test(intervals: Iterable[Interval]) -> Callable[[float], bool]:
    """The test whether a number lies in one of these closed intervals."""
    lows: list[float] = []
    highs: list[float] = []
    for low, high in sorted(intervals):
        if low > high:
            continue
        if lows and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)

    def test(number: float) -> bool:
        at = bisect_right(lows, number) - 1
        return at >= 0 and number <= highs[at]

    return test


def count_single(operators: Iterable[Operator], each: bool = False) -> int:
    """The number of operators that the tests evaluate one by one, nested operators included."""
    return sum(_count(operator, each) for operator in operators)


def count_within(residual: Operator) -> int:
    """The number of operators that the test of an operator without a facet evaluates one by one, itself included."""
    return max(1, count_single(residual.operators)) if isinstance(residual, Not | AnythingBut) else 1


def _count(operator: Operator, each: bool) -> int:
    constraint = operator.constraint()
    region = _region_of(constraint)
    if region is not None and (not each or len(region[1]) <= 1):
        return 0
    residuals = cast("tuple[Operator, ...]", constraint.residual)
    return max(1, sum(map(count_within, residuals)))


def _region(operator: Operator) -> tuple[str, list[Range]] | None:
    """The facet and the disjoint ranges on it that are equivalent to the operator; None if there are none."""
    return _region_of(operator.constraint())


def _region_of(constraint: Constraint) -> tuple[str, list[Range]] | None:
    if constraint.residual or len(constraint.regions) != 1:
        return None
    ((facet, ranges),) = facets.on_tokens(constraint.regions).items()
    return facet, facets.union((low, high) for low, high in ranges if low < high)


def _conjunction_test(operator: Operator) -> Test:
    constraint = operator.constraint()
    regions = facets.on_tokens(constraint.regions)
    residuals = cast("tuple[Operator, ...]", constraint.residual)
    return _all_of([*(_ranges_test(*region) for region in regions.items()), *map(residual_test, residuals)])


def _ranges_test(facet: str, ranges: Iterable[Range]) -> Test:
    place = PLACE[facet]
    disjoint = facets.union((low, high) for low, high in ranges if low < high)
    lows, highs = [low for low, _ in disjoint], [high for _, high in disjoint]

    def test(value: Scalar) -> bool:
        key = place(value)
        at = bisect_right(lows, key) - 1
        return at >= 0 and key < highs[at]

    return test


def _any_of(tests: Sequence[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)


def _all_of(tests: Sequence[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _each_met(operators: Sequence[Operator]) -> Callable[[Sequence[Scalar]], bool]:
    """The test whether each operator holds for some of the values."""
    single: dict[str, list[Range]] = {}
    others: list[Test] = []
    for operator in operators:
        region = _region(operator)
        if region is None or len(region[1]) > 1:
            others.append(_conjunction_test(operator))
        elif region[1]:
            single.setdefault(region[0], []).extend(region[1])
        else:  # it holds for no value
            return lambda values: False
    lines = [(facet, *_innermost(ranges)) for facet, ranges in single.items()]

    def test(values: Sequence[Scalar]) -> bool:
        return all(_each_has_one(lows, highs, _places(facet, values)) for facet, lows, highs in lines) and all(
            any(map(other, values)) for other in others
        )

    return test


def _innermost(ranges: list[Range]) -> tuple[list[bytes], list[bytes]]:
    """The ranges that contain no other, as their ascending lower and their ascending upper ends."""
    inner: list[Range] = []
    for low, high in sorted(sorted(ranges, key=lambda r: r[1]), key=lambda r: r[0], reverse=True):
        if not inner or high < inner[-1][1]:
            inner.append((low, high))
    inner.reverse()
    return [low for low, _ in inner], [high for _, high in inner]


def _each_has_one(lows: list[bytes], highs: list[bytes], places: list[bytes]) -> bool:
    """Whether each range contains a place. The ends of the ranges and the places ascend."""
    if len(lows) <= len(places):
        return all(_has_one(places, low, high) for low, high in zip(lows, highs, strict=True))
    if not places or highs[0] <= places[0] or lows[-1] > places[-1]:
        return False
    return not any(
        (after := bisect_right(lows, place)) < len(lows) and highs[after] <= following
        for place, following in pairwise(places)
    )


def _has_one(places: list[bytes], low: bytes, high: bytes) -> bool:
    at = bisect_left(places, low)
    return at < len(places) and places[at] < high


def _places(facet: str, values: Sequence[Scalar]) -> list[bytes]:
    return sorted({PLACE[facet](value) for value in values})
