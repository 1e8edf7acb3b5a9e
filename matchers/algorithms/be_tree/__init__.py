"""`be_tree`: subscriptions divided by attribute and by their range on it, until few are left together.

Source: Sadoghi and Jacobsen, "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions over
High-Dimensional Discrete Space", SIGMOD 2011; the paper on PCM measures it. Space is cut in two phases. *Partitioning*:
an l-node of more than max_cap subscriptions takes the attribute with the best score that was not used on the path,
moves the subscriptions with a predicate on it to a new p-node, and goes on until no more than max_cap are left.
*Clustering*: the c-directory of a p-node halves the domain of its attribute; of a bucket with more than max_cap, the
subscriptions whose predicate lies within a half move there, and the others are partitioned by other attributes. An
event visits the p-nodes of the attributes that it has, and the buckets in which its value lies; each l-node that it
visits is checked.

The score of an attribute is (1 - alpha) * gain - alpha * loss. The gain is its popularity: how many subscriptions of
the l-node have it. The loss is how many of these an event checks in vain. The paper learns losses from events; ours is
the sum, over the predicates, of the share of the domain that the deepest bucket around a predicate takes.

- It is fast where subscriptions name few of many attributes and events have few, since the rest is never visited; and
  where predicates are narrow, so that they lie deep. A wide predicate contains the border between wide buckets and
  stays above them, so nearly every event with the attribute visits it.
- The tree is built from a table at once. The paper inserts one by one; its rules, applied to the whole set from the
  top, give a tree that does not depend on the order of arrival. An l-node is above max_cap only where it cannot be
  divided: no attribute is left that min_size of its subscriptions have. That is the paper's widened capacity.
- The domain is that of doubles, not discrete. It reaches from the least to the greatest finite bound and is halved by
  value, not by quantiles: only buckets that overflow are halved, so the tree goes deep where the subscriptions are. A
  bucket is atomic when all its predicates are one value, or when no double lies between its ends. Halvings with nothing
  on one side make no node. An infinite bound lies beyond the outermost border, in the bucket at that end of the domain.
- A c-node has the hull of the predicates in its own l-node and p-directory, and an event beyond it passes. In the
  paper all events of the bucket come there, and wide predicates are in wide buckets.
- Up to 64 events walk the tree together, so that an l-node is read from memory once for all that visit it
  (kernels/places.py).
- The hull of several intervals decides the place, an array of values visits the buckets between its least and greatest,
  and the check of the l-node decides. Contradictory subscriptions have no place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.algorithms.be_tree.kernel import DivisionRules, Tree, be_tree, grow, shares
from matchers.algorithms.cells import domain
from matchers.algorithms.places import arrange, hulls_of, placed, possible
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import Matcher, list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.kernels.places import Places
from matchers.kernels.rows import Rows


@dataclass(frozen=True, eq=False)
class BeTree(Matcher):
    tree: Tree
    places: Places  # those of an l-node are contiguous
    rows: Rows  # the table, to check the matches by hulls
    n_columns: int

    def match(self, events: EventBatch) -> MatchBatch:
        places = placed(self.places)

        def step(first: int, out: Int32, counts: Int64) -> int:
            return be_tree(first, events.arrays, self.tree, places, self.rows, self.n_columns, out, counts)

        return list_matches(step, len(events), len(self.rows.several))


def build(table: SubscriptionTable, max_cap: int = 8, min_size: int = 1, alpha: float = 0.5) -> BeTree:
    """Raises MatchingError."""
    check_options(max_cap, min_size, alpha)
    predicates = Predicates.of(table)
    hulls = hulls_of(predicates, table.n_subscriptions)
    begin, end = domain(table)
    loss = np.empty(len(predicates))
    shares(hulls, begin, end, loss)
    ids = possible(table)
    tree = grow(ids, DivisionRules(hulls, (1.0 - alpha) - alpha * loss, begin, end, max_cap, min_size))
    return BeTree(tree, arrange(ids, hulls), predicates.rows(table), table.n_columns)


def check_options(max_cap: int, min_size: int, alpha: float) -> None:
    """Raises MatchingError."""
    for name, value in (("max_cap", max_cap), ("min_size", min_size)):
        if value < 1:
            raise MatchingError(f"{name} must be 1 or more, not {value}")
    if not 0.0 <= alpha <= 1.0:
        raise MatchingError(f"alpha must lie within 0 .. 1, not {alpha}")


STORED = (BeTree, Tree, Places, Rows)
