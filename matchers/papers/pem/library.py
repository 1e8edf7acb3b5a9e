"""The algorithm library of PEM (sec. III-B1): which algorithms an ensemble may consist of, and what each costs by p.

The paper's criteria: they behave differently with the matching probability of predicates, and are alike in speed.
Counting costs what an event hits, marking what it misses; `hem` ORs sets of all subscriptions, whatever it hits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from matchers.algorithms import hem, tama
from matchers.contract.matcher import Matcher
from matchers.contract.tables import Float64, SubscriptionTable
from matchers.errors import MatchingError, known
from matchers.papers import opindex, rein

Builder = Callable[[SubscriptionTable], Matcher]

TAMA: Builder = partial(tama.build, levels=17)  # sec. V A


@dataclass(frozen=True)
class LibraryAlgorithm:
    """An algorithm. `work` gives its expected time for each subscription [S], in any unit, from the numbers of its
    predicates that an event hits and misses.
    """

    build: Builder
    work: Callable[[Float64, Float64], Float64]


LIBRARY = {
    "tama": LibraryAlgorithm(TAMA, lambda hits, misses: 1 + hits),
    "opindex": LibraryAlgorithm(opindex.build, lambda hits, misses: 1 + hits),
    "hem": LibraryAlgorithm(hem.build, lambda hits, misses: 1 + hits + misses),
    "rein": LibraryAlgorithm(rein.build, lambda hits, misses: 1 + misses),
}
PAPER = ("tama", "rein")  # sec. IV


def check_algorithms(algorithms: Sequence[str], library: Collection[str]) -> tuple[str, ...]:
    """Raises MatchingError."""
    names = [*algorithms] if isinstance(algorithms, Sequence) and not isinstance(algorithms, str) else []
    if len(names) < 2 or any(name in names[:i] for i, name in enumerate(names)):
        raise MatchingError(
            f"algorithms must be a list of two or more different ones of {', '.join(library)}, not {algorithms!r}"
        )
    for name in names:
        if name not in library:
            raise MatchingError(f"algorithms: {name!r} cannot be one of these; {known(str(name), library)}")
    return tuple(names)
