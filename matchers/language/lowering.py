"""Lower a pattern to alternatives, each a conjunction of regions of (field, facet) columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import cast

from matchers.errors import PatternError
from matchers.language import facets
from matchers.language.facets import NUMBER, TOKEN
from matchers.language.lookup import count_single, count_within
from matchers.language.model import (
    Compared,
    Constraint,
    Contains,
    OneOf,
    Operator,
    Path,
    Pattern,
    Predicate,
    Region,
)
from matchers.language.operators import Equals, Not

MAX_ALTERNATIVES = 1_000
MAX_RANGES = 100_000  # of all alternatives together; a column without one and each value in a residual count as one
MAX_SINGLE = 100  # conditions on one field, in one alternative, that are checked one by one on the event itself
MAX_GROWTH = 10  # times what is written; patterns that expand to no more than FEW_RANGES may grow as they like
FEW_RANGES = 10_000

Column = tuple[Path, str]  # a field's place on one facet
Alternative = Sequence[tuple[Path, Constraint | Contains | Compared]]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A conjunction: in each column, a value of the event lies in the region, and the conditions without a facet hold.

    All conditions on one field are about the same value, and those on fields within one array about the same element.
    """

    regions: dict[Column, Region]
    residual: tuple[tuple[Path, Operator | Contains | Compared], ...] = ()


def lower(pattern: Pattern) -> list[Conjunction]:
    """The alternatives of a pattern: an event satisfies the pattern when it satisfies one. Raises PatternError if there
    are too many."""
    return [_conjunction(alternative) for alternative in _all(pattern)[0]]


def _all(pattern: Pattern) -> tuple[list[Alternative], int, int]:
    """Return every choice of one alternative per part, their number of ranges, and the number of ranges written."""
    choices: list[list[Alternative]] = []
    alternatives, ranges, written = 1, 0, 0
    for part in pattern.parts:
        if isinstance(part, OneOf):
            choice, added, within = _one_of(part)
        else:
            choice = _terms(part) if isinstance(part, Predicate) else [[(part.path, part)]]
            added = within = _ranges(choice)
        written += within
        choices.append(choice)
        ranges = ranges * len(choice) + added * alternatives
        alternatives *= len(choice)
        _check(part.path, alternatives, ranges)
        _check_growth(part.path, ranges, written)
    return [list(chain.from_iterable(chosen)) for chosen in product(*choices)], ranges, written


def _one_of(part: OneOf) -> tuple[list[Alternative], int, int]:
    lowered: list[Alternative] = []
    ranges = written = 0
    for pattern in part.patterns:
        alternatives, added, within = _all(pattern)
        lowered += alternatives
        ranges += added
        written += within
        _check(part.path, len(lowered), ranges)
    return lowered, ranges, written


def _terms(predicate: Predicate) -> list[Alternative]:
    """The operators as alternatives. Operators that need the same single facet become one region of it."""
    regions: dict[str, list[object]] = {}
    constraints: list[Alternative] = []
    for operator in predicate.operators:
        constraint = operator.constraint()
        if constraint.residual or len(constraint.regions) > 1:
            constraints.append([(predicate.path, constraint)])
            continue
        for facet, region in constraint.regions.items():
            regions.setdefault(facet, []).extend(region)
    if TOKEN in regions and NUMBER in regions:
        regions[TOKEN] += facets.as_tokens(regions.pop(NUMBER))  # type: ignore[arg-type]
    return [*([(predicate.path, Constraint({facet: region}))] for facet, region in regions.items()), *constraints]  # type: ignore[dict-item]


def _conjunction(alternative: Alternative) -> Conjunction:
    _check_single(alternative)
    choices = _Choices(alternative)
    of_path: dict[Path, list[Constraint]] = {}
    for field, condition in alternative:
        for path, constraint in _constraints(field, condition, choices):
            of_path.setdefault(path, []).append(constraint)
    constraints = {path: facets.conjoined(some) for path, some in of_path.items()}
    return Conjunction(
        {(path, facet): region for path, whole in constraints.items() for facet, region in whole.regions.items()},
        tuple((path, operator) for path, constraint in constraints.items() for operator in constraint.residual),
    )


class _Choices:
    """Count the conditions of an alternative that choose a value, or an object on the way to one."""

    def __init__(self, alternative: Alternative) -> None:
        self._chosen: Counter[Path] = Counter()  # by each beginning of the path of the value
        self._compared: Counter[Path] = Counter()  # by each beginning of the path that another is compared with
        self._without: Counter[Path] = Counter()  # conditions that none of the values meets, by the array's path
        for path, condition in alternative:
            self._chosen.update(_beginnings(path))
            if isinstance(condition, Compared):
                self._compared.update(_beginnings(condition.other))
            elif isinstance(condition, Contains) and not condition.is_wanted:
                self._without[path] += 1

    def leave_free(self, compared: Compared) -> bool:
        """Whether no other condition chooses the value of the other field, or an object on the way to it."""
        way = compared.other[: compared.common + 1]
        return self._chosen[way] == 0 and self._compared[way] == 1

    def leave_one(self, contains: Contains) -> bool:
        """Whether a value of the array may be chosen for this condition: no other one needs a choice."""
        return self._chosen[contains.path] - self._without[contains.path] == 1


def _beginnings(path: Path) -> list[Path]:
    return [path[:length] for length in range(1, len(path) + 1)]


def _constraints(
    path: Path, condition: Constraint | Contains | Compared, choices: _Choices
) -> Iterator[tuple[Path, Constraint]]:
    if isinstance(condition, Constraint):
        yield path, condition
    elif isinstance(condition, Contains):
        yield path, Constraint(_necessary(condition, choices), (condition,))
    else:
        of_value, of_other = condition.relation.constraints() if condition.is_wanted else (Constraint({}),) * 2
        yield path, Constraint(of_value.regions, (condition,))
        if choices.leave_free(condition):
            yield condition.other, of_other


def _necessary(contains: Contains, choices: _Choices) -> Mapping[str, Region]:
    """The regions of the chosen value of the array.

    If no value of the array meets the operators, the chosen does not, or there is none. If some value does, that can be
    chosen, unless the choice matters for another condition; of several operators that each need a value, for one.
    """
    operators = contains.operators
    if contains.each and len(operators) > 1:
        if not contains.is_wanted:
            return {}
        operators = (next((operator for operator in operators if isinstance(operator, Equals)), operators[0]),)
    if not contains.is_wanted:
        outside = facets.on_tokens(Not(operators).constraint().regions)
        absent = facets.exactly(facets.ABSENT_TOKEN)
        return {facet: facets.union([*ranges, absent]) for facet, ranges in outside.items()}
    terms = _terms(Predicate(contains.path, operators))
    return _regions(terms[0]) if len(terms) == 1 and choices.leave_one(contains) else {}


def _regions(alternative: Alternative) -> Mapping[str, Region]:
    ((_, constraint),) = alternative
    return constraint.regions if isinstance(constraint, Constraint) else {}


def _ranges(alternatives: Sequence[Alternative]) -> int:
    return sum(_weight(constraint) for alternative in alternatives for _, constraint in alternative)


def _weight(constraint: Constraint | Contains | Compared) -> int:
    if isinstance(constraint, Compared):
        return 3  # a range of each field, and the comparison
    if isinstance(constraint, Contains):
        each = [(operator,) for operator in constraint.operators] if constraint.each else [constraint.operators]
        return sum(
            1 + max(_ranges(_terms(Predicate(constraint.path, operators))), sum(map(_size, operators)))
            for operators in each
        )
    residuals = cast("tuple[Operator, ...]", constraint.residual)
    return sum(max(1, len(region)) for region in constraint.regions.values()) + sum(map(_size, residuals))


def _size(operator: Operator) -> int:
    """The number of values and conditions in an operator. Its ranges may be fewer, and say nothing of its cost."""
    return max(1, sum(map(_size, cast("tuple[Operator, ...]", getattr(operator, "operators", ())))))


def _check_single(alternative: Alternative) -> None:
    counts: Counter[Path] = Counter()
    for path, condition in alternative:
        counts[path] += _single(condition)
        if counts[path] > MAX_SINGLE:
            raise PatternError(
                path,
                f"has more than {MAX_SINGLE} conditions that are checked one by one on each value: wildcards, regexes, "
                "compare-field, contains-all and its like, and anything within these that is not one value or range; "
                "use fewer, or several subscriptions",
            )


def _single(condition: Constraint | Contains | Compared) -> int:
    """The number of conditions that are checked one by one on the event itself."""
    if isinstance(condition, Compared):
        return 1
    if isinstance(condition, Contains):
        return 1 + count_single(condition.operators, condition.each)
    return sum(map(count_within, cast("tuple[Operator, ...]", condition.residual)))


def _check_growth(path: Path, ranges: int, written: int) -> None:
    """Check the growth by the parts up to this one. Later parts cannot repair it: there are more than MAX_GROWTH
    alternatives then, so each of their ranges adds more than it allows."""
    if ranges > max(FEW_RANGES, MAX_GROWTH * written):
        raise PatternError(
            path,
            f"the pattern expands to more than {FEW_RANGES} values and ranges, and to more than {MAX_GROWTH} times "
            "those that it names; use fewer $or, $not of several fields and mixed lists, or several subscriptions",
        )


def _check(path: Path, alternatives: int, ranges: int) -> None:
    if alternatives > MAX_ALTERNATIVES:
        raise PatternError(
            path,
            f"the pattern expands to more than {MAX_ALTERNATIVES} alternatives. Each wildcard in a list is one, as is "
            "each condition on a whole array or another field, each pattern of an $or, each field of a $not, and each "
            "kind in a list that mixes values or numbers with suffix, cidr or equals-ignore-case; several such fields "
            "multiply. Use fewer, or several subscriptions",
        )
    if ranges > MAX_RANGES:
        raise PatternError(path, f"the pattern expands to more than {MAX_RANGES} values and ranges; list fewer")
