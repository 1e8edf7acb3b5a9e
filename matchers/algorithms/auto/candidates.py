"""The algorithms that `auto` can choose, and which of them are measured for a table.

No other exact algorithm is far ahead of all of these at any point of `bench choices` up to 10,000 subscriptions, and
each of these is the best at some. `ccm` needs a GPU.

Kernels that no process has compiled so far take up to a minute. So for a table of few subscriptions only those that
are compiled are measured; for a longer one others too, if they suit its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from matchers.algorithms import be_tree, counting, hem, ocm, scan, tama, tiles
from matchers.algorithms.auto.drawing import drawn, event_sizes, sampled
from matchers.algorithms.be_tree import kernel as be_tree_kernel
from matchers.algorithms.counting import kernel as counting_kernel
from matchers.algorithms.hem import kernel as hem_kernel
from matchers.algorithms.ocm import kernel as ocm_kernel
from matchers.algorithms.scan import kernel as scan_kernel
from matchers.algorithms.tama import batch as tama_batch
from matchers.algorithms.tama import kernel as tama_kernel
from matchers.algorithms.tiles.kernels import matching as tiles_kernel
from matchers.contract.matcher import Matcher
from matchers.contract.tables import SubscriptionTable
from matchers.kernels.jit import compiled

TINY = 64  # subscriptions, and intervals, for which nothing is measured
SHORT = 4  # intervals of a subscription in a column, on average: of TINY subscriptions there may be more
ABOUT_ONE = 1.5  # attributes that a subscription needs, on average
SEVERAL = 64  # events at once
FEW_SUBSCRIPTIONS, FEW_INTERVALS = 2_000, 200_000  # subscriptions and their intervals, for which nothing is compiled
LEVELS = 20  # of `tama`: columns of long lists have more ends than 13 levels have cells
LOOKED_AT = 500  # subscriptions, and events, that determine the kind of a table
LISTED = 8  # intervals of a subscription in a column, on average
MANY = 0.003  # of all subscriptions match an event
COLUMNS_PER_VALUE = 10  # attributes of a table for one of an event


@dataclass(frozen=True)
class Kind:
    """The properties of a table that are known before an index is built."""

    matched: float  # share of the subscriptions that an event satisfies, of as many attributes as there are
    sparse: float  # attributes that some subscription has, for one of each
    listed: float  # intervals that a subscription has in a column

    @classmethod
    def of(cls, table: SubscriptionTable) -> Kind:
        sizes = event_sizes(table)
        sample = sampled(table, LOOKED_AT)
        matches = CANDIDATES["scan"](sample).match(drawn(sample, sizes[-1]).part(0, LOOKED_AT))
        share = len(matches.subscription) / max(len(matches) * sample.n_subscriptions, 1)
        sparse = np.count_nonzero(np.bincount(table.column)) / sizes[0]
        return cls(share, sparse, len(table.column) / max(int(table.needed.sum()), 1))


@dataclass(frozen=True)
class Candidate:
    build: Callable[[SubscriptionTable], Matcher]
    kernel: Any  # of those that match, the one that takes longest to compile
    worth: Callable[[Kind], bool]  # whether it may be far ahead, so that compiling it pays
    of_many: Any = None  # the same, of those that match only long tables

    def is_compiled(self, few: bool) -> bool:
        return compiled(self.kernel) and (few or self.of_many is None or compiled(self.of_many))

    def __call__(self, table: SubscriptionTable) -> Matcher:
        return self.build(table).read_only()


def _tama(table: SubscriptionTable) -> Matcher:
    return tama.build(table, LEVELS)


CANDIDATES: dict[str, Candidate] = {
    "tiles": Candidate(tiles.build, tiles_kernel.match_batch, lambda _: True),
    "hem": Candidate(hem.build, hem_kernel.mark_mismatches, lambda kind: kind.matched > MANY),
    "be_tree": Candidate(be_tree.build, be_tree_kernel.be_tree, lambda kind: kind.sparse > COLUMNS_PER_VALUE),
    "ocm": Candidate(ocm.build, ocm_kernel.ocm_in_lanes, lambda kind: kind.sparse > COLUMNS_PER_VALUE),
    "counting": Candidate(counting.build, counting_kernel.counting_in_lanes, lambda _: False),
    "tama": Candidate(_tama, tama_kernel.tama, lambda kind: kind.listed > LISTED, tama_batch.match_batch),
    "scan": Candidate(scan.build, scan_kernel.scan, lambda _: True),
}


def is_tiny(table: SubscriptionTable) -> bool:
    intervals = len(table.column)
    return table.n_subscriptions <= TINY and (intervals <= TINY or intervals <= SHORT * int(table.needed.sum()))


def unmeasured(table: SubscriptionTable) -> dict[int, str]:
    """Return the algorithms for a tiny table, by the number of events at once that they suit."""
    of_one = len(table.needed) > 0 and float(table.needed.mean()) <= ABOUT_ONE
    return {1: "scan", SEVERAL: "tama"} if of_one and CANDIDATES["tama"].is_compiled(few=True) else {1: "scan"}


def is_few(table: SubscriptionTable) -> bool:
    return table.n_subscriptions <= FEW_SUBSCRIPTIONS and len(table.column) <= FEW_INTERVALS


def asked(table: SubscriptionTable) -> list[str]:
    """The names of those to measure for a table, the first of them likely the fastest."""
    few = is_few(table)
    known = [name for name, candidate in CANDIDATES.items() if name == "scan" or candidate.is_compiled(few)]
    if few:
        return known
    left = {name: c for name, c in CANDIDATES.items() if name not in known}
    kind = Kind.of(table) if left else None
    known += [name for name, c in left.items() if kind is not None and c.worth(kind)]
    return [
        name for name in CANDIDATES if name in known and (name != "scan" or table.n_subscriptions <= FEW_SUBSCRIPTIONS)
    ]
