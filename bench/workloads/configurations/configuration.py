"""The settings of a workload of any operators, distributions, duplicates and events."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bench.workloads.distributions import Distribution

OPERATORS = RANGE, HALF_OPEN, EQUAL, UNEQUAL, LIST = ("range", "half-open", "=", "!=", "list")
MIXED = "mixed"  # any of these for each predicate
UNIFORM, ZIPF, FIRST = POPULARITIES = ("uniform", "zipf", "first")  # FIRST: a subscription of k has the first k
# Values drawn as those of subscriptions; some within a subscription's own intervals; drawn from another distribution,
# between the codes; beyond all values of subscriptions; one event again and again, which satisfies a subscription.
ALIKE, HIT, ELSEWHERE, BEYOND, SAME = KINDS = ("alike", "hit", "elsewhere", "beyond", "same")


@dataclass(frozen=True)
class Configuration:
    """Values lie in [0, 1], and with `codes` are multiples of 1 / codes below 1."""

    seed: int
    number: int  # of those that are drawn with this seed
    subscriptions: int
    different: int  # of the subscriptions: subscription s is the same as subscription s mod `different`
    attributes: int
    predicates: tuple[int, int]  # the least and the most of a subscription
    popularity: str  # of attributes, one of POPULARITIES
    operator: str  # one of OPERATORS, or MIXED
    width: float  # of a range
    mixed_widths: bool  # whether widths are drawn between 0 and `width`
    list_length: int  # values of a list
    values: Distribution
    codes: int | None
    correlated: bool  # whether the values of a subscription, and of an event, are near one another
    event_kind: str  # one of KINDS
    event_size: int | None  # attributes of an event; None: all

    @property
    def name(self) -> str:
        return f"{self.seed}:{self.number}"

    @property
    def intervals(self) -> float:
        """The mean number of intervals of a subscription, about."""
        return sum(self.predicates) / 2 * intervals(self.operator, self.list_length)

    def as_data(self) -> dict[str, object]:
        return asdict(self) | {
            "predicates": "-".join(map(str, dict.fromkeys(self.predicates))),
            "values": str(self.values),
            "codes": self.codes or "",
            "event_size": self.event_size or self.attributes,
        }


def intervals(operator: str, list_length: int) -> float:
    """The mean number of intervals of a predicate."""
    several = {UNEQUAL: 2.0, LIST: float(list_length)}
    if operator == MIXED:
        return sum(several.get(name, 1.0) for name in OPERATORS) / len(OPERATORS)
    return several.get(operator, 1.0)
