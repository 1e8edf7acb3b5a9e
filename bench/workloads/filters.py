"""Filters behind interfaces, and events, as in PCM's experiments, determined by their settings.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", table 1. An event
goes to an interface if one of the filters behind it matches: these are the matches of this workload.

    interface 3    name 17 = 40, name 52 != 7, name 90 > 12    one filter of many         name 17: 40, name 52: 8,
    event                                                                                 name 88: 3, name 90: 60

What the paper leaves open: values are whole numbers, all of them equally likely, and texts as many. The names within a
filter, or an event, are distinct. A constraint is satisfied by an attribute that is there, with its type, != included:
PCM selects filters whose names are all among the event's. Texts are compared as numbers are, by their codes; the paper
has them satisfied less often, and does not say by which operators. Filters of all interfaces come mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import check
from bench.workloads.attributes import drawn, line
from bench.workloads.distributions import UNIFORM, Distribution
from bench.workloads.forwarding import Forwarding
from bench.workloads.prepared import SMALL, TRAINING
from matchers import EventBatch, Interfaces, SubscriptionTable
from matchers.contract.tables import Float64, Int32, Int64, offsets_of

OPERATORS = ("=", "!=", ">", "<")
EQUAL, UNEQUAL, GREATER, LESS = range(4)


@dataclass(frozen=True, eq=False)
class Constraints:
    """Filter f has the constraints at offsets[f] .. offsets[f + 1], ascending by name. S filters, C constraints."""

    offsets: Int64  # [S + 1]
    name: Int32  # [C]
    text: NDArray[np.bool_]  # [C] on a text, or on a number
    operator: Int64  # [C] a place in OPERATORS
    value: Float64  # [C] a whole number, or the code of a text

    def intervals(self) -> tuple[Int32, Int32, Float64, Float64]:
        """(filter, constraint, low, high): two for !=, one for the others. The next values are 1 below and above."""
        twice = self.operator == UNEQUAL
        of = np.repeat(np.arange(len(self.name), dtype=np.int32), 1 + twice)
        above_it = np.append(False, of[1:] == of[:-1])  # the second of two
        operator, value = self.operator[of], self.value[of]
        below = (operator == LESS) | ((operator == UNEQUAL) & ~above_it)
        above = (operator == GREATER) | above_it
        low, high = np.where(below, -np.inf, value + above), np.where(above, np.inf, value - below)
        filters = np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))
        return filters[of], of, low, high


@dataclass(frozen=True)
class Filters:
    """PCM's default scenario. Of two numbers, the least and the most; all in between are equally likely.

    A name is a column. Where texts are drawn too, it is two, 2 n for its numbers and 2 n + 1 for its texts.
    """

    events: int = 1_000
    attributes: tuple[int, int] = (3, 5)  # of an event
    interfaces: int = 10
    constraints: tuple[int, int] = (3, 5)  # of a filter
    filters: tuple[int, int] = (22_500, 27_500)  # behind an interface
    names: int = 100
    name_distribution: Distribution = UNIFORM  # of constraints and events
    numerical: float = 1.0  # share of constraints, and of an event's attributes, that are numbers; texts the others
    operators: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25)  # shares, in the order of OPERATORS
    values: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        for name, (least, most) in (("attributes", self.attributes), ("constraints", self.constraints)):
            ordered = 0 <= least <= most <= self.names
            check(ordered, name, f"{least}-{most}", f"within 0 .. {self.names}, the names")
        least, most = self.filters
        check(1 <= self.events < 2**31, "events", self.events, "from 1 to 2^31 - 1")
        check(self.interfaces >= 1, "interfaces", self.interfaces, "1 or more")
        limit = (2**31 - 1) // self.interfaces
        check(1 <= least <= most <= limit, "filters", f"{least}-{most}", f"within 1 .. {limit}, behind an interface")
        check(0 <= self.numerical <= 1, "numerical", self.numerical, "within 0 .. 1, the share of constraints")
        shares = ", ".join(f"{share:g}" for share in self.operators)
        whole = min(self.operators) >= 0 and isclose(sum(self.operators), 1)
        check(whole, "operators", shares, f"shares of {' '.join(OPERATORS)} that are 1 together")
        check(self.values >= 1, "values", self.values, "1 or more")

    @property
    def subscriptions(self) -> int:
        return int(self._sizes().sum())

    @property
    def average(self) -> int:
        """The mean number of subscriptions over all seeds."""
        return sum(self.filters) * self.interfaces // 2

    @property
    def listable(self) -> int:
        return self.interfaces

    def small(self) -> Filters:
        filters = max(1, SMALL // self.interfaces)
        least, most = self.filters
        return replace(self, filters=(min(least, filters), min(most, filters)), events=min(self.events, 2))

    def scaled(self, share: float) -> Filters:
        """Return the scenario with a share of the filters behind each interface, at least one."""
        least, most = (max(1, round(filters * share)) for filters in self.filters)
        return replace(self, filters=(least, most))

    def about(self, subscriptions: int) -> Filters:
        """Return the scenario with this number of filters in all, on average. Raises BenchError."""
        wanted = f"{self.interfaces} or more, one behind each interface"
        check(subscriptions >= self.interfaces, "subscriptions", subscriptions, wanted)
        return self.scaled(subscriptions / self.average)

    def prepared(self) -> Forwarding:
        """Raises BenchError."""
        training = replace(self, events=TRAINING, seed=self.seed + 1).batch
        return Forwarding(self.table(), self.batch(), training, interfaces=self.behind())

    def behind(self) -> Interfaces:
        """The interface of each filter."""
        of = np.repeat(np.arange(self.interfaces, dtype=np.int32), self._sizes())
        return Interfaces.from_ids(np.random.default_rng([self.seed, 1]).permutation(of), self.interfaces)

    def drawn(self) -> Constraints:
        """The constraints of all filters. Raises BenchError."""
        rng = np.random.default_rng([self.seed, 2])
        offsets, name = self._names(rng, self.constraints, self.subscriptions)
        text = self._texts(rng, len(name))
        operator = rng.choice(len(OPERATORS), size=len(name), p=self.operators)
        return Constraints(offsets, name, text, operator, self._values(rng, len(name)))

    def table(self) -> SubscriptionTable:
        """The table. Distinct and ascending names hold by construction. Raises BenchError."""
        drawn = self.drawn()
        filters, constraint, low, high = drawn.intervals()
        column = self._columns(drawn.name, drawn.text)[constraint]
        n = len(drawn.offsets) - 1
        return SubscriptionTable.of_sorted(filters, column, low, high, n_subscriptions=n, n_columns=self.columns)

    def batch(self) -> EventBatch:
        """Return the events. Raises BenchError."""
        rng = np.random.default_rng([self.seed, 3])
        offsets, name = self._names(rng, self.attributes, self.events)
        column = self._columns(name, self._texts(rng, len(name)))
        return EventBatch(offsets, column, self._values(rng, len(name)), self.columns)

    @property
    def columns(self) -> int:
        return self.names * (1 if self.numerical == 1 else 2)

    def as_data(self) -> dict[str, Any]:
        return {
            "subscriptions": self.subscriptions,
            "interfaces": self.interfaces,
            "filters": _range(self.filters),
            "constraints": _range(self.constraints),
            "attributes": _range(self.attributes),
            "names": self.names,
            "name_distribution": self.name_distribution,
            "numerical": self.numerical,
            "operators": " ".join(f"{share:g}" for share in self.operators),
            "values": self.values,
            "seed": self.seed,
        }

    def words(self) -> dict[str, str]:
        return {
            "interfaces": f"{self.interfaces} interfaces",
            "filters": f"{_range(self.filters)} filters behind each",
            "constraints": f"{_range(self.constraints)} constraints",
            "attributes": f"{_range(self.attributes)} attributes in an event",
            "names": f"{self.names:,} names",
            "name_distribution": "" if self.name_distribution == UNIFORM else str(self.name_distribution),
            "numerical": "" if self.numerical == 1 else f"{self.numerical:.0%} numbers",
            "values": f"{self.values:,} values",
        }

    def _sizes(self) -> Int64:
        """[interfaces]: the number of filters behind each."""
        return np.random.default_rng([self.seed, 0]).integers(*self.filters, self.interfaces, endpoint=True)

    def _names(self, rng: np.random.Generator, sizes: tuple[int, int], n: int) -> tuple[Int64, Int32]:
        """(offsets [n + 1], names): distinct within each of n rows, ascending."""
        offsets = offsets_of(rng.integers(*sizes, n, endpoint=True))
        return offsets, drawn(rng, offsets, line(self.name_distribution.weights(self.names)))

    def _texts(self, rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
        return rng.random(n) >= self.numerical

    def _values(self, rng: np.random.Generator, n: int) -> Float64:
        return rng.integers(self.values, size=n).astype(np.float64)

    def _columns(self, name: Int32, text: NDArray[np.bool_]) -> Int32:
        return name if self.numerical == 1 else 2 * name + text.astype(np.int32)


def _range(least_and_most: tuple[int, int]) -> str:
    return "-".join(map(str, dict.fromkeys(least_and_most)))
