"""Insert subscriptions into a BE-tree and delete them from it (SIGMOD 2011).

The tree is dynamic in its source: a subscription goes down from the root, in each c-directory to the smallest bucket
that contains its predicate, in each p-directory to the attribute of the best score among its own, and stays in the
l-node where no attribute of its own has a p-node. An l-node above max_cap is partitioned or clustered. A deletion takes
a subscription out of its l-node, and empty nodes out of the tree.

What ours does where the description leaves it open, or differs:

- The score of a p-node is the sum of the scores of the predicates below it, counted along. Partitions are not reformed
  when scores change, until all is built anew.
- An l-node that cannot be divided has its capacity widened to twice its size, so that it is tried again when it has
  doubled.
- Where a build made no node, because all lay on one side, the child takes what comes on that side, beyond its bucket
  too. Buckets deeper down are halves of what is left. The domain is that of the last build, and nothing beyond it is
  halved.
- A c-node with at most half of max_cap below it becomes a leaf again. Half, so that one insertion does not divide it.
- The hull of a c-node grows with insertions and does not shrink with deletions, until it becomes a leaf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from matchers.algorithms import be_tree
from matchers.algorithms.be_tree.kernel import DivisionRules, Tree, sapling, shares
from matchers.algorithms.be_tree.kernel import be_tree as match_kernel
from matchers.algorithms.cells import domain
from matchers.algorithms.places import hulls_of, possible, with_more
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.kernels.growing import with_room
from matchers.kernels.places import Hulls
from matchers.papers.updates import be_tree_nodes
from matchers.papers.updates.be_tree_nodes import GrowingTree
from matchers.papers.updates.growing_table import GrowingTable, nbytes


class UpdatableBeTree:
    """A BE-tree, whose arrays change in place."""

    _growing: GrowingTree
    _rules: DivisionRules  # of all subscriptions, with room

    def __init__(self, table: SubscriptionTable, max_cap: int = 8, min_size: int = 1, alpha: float = 0.5) -> None:
        """Options as for `be_tree.build`. Raises MatchingError."""
        be_tree.check_options(max_cap, min_size, alpha)
        self._max_cap, self._min_size, self._alpha = max_cap, min_size, alpha
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        growing, rows = self._growing, self._table.rows
        nodes, p_column, p_root = growing.tree
        tree = Tree(nodes[: growing.n_nodes], p_column, p_root)

        def step(first: int, out: Int32, counts: Int64) -> int:
            columns = self._table.n_columns
            return match_kernel(first, events.arrays, tree, growing.places, rows, columns, out, counts)

        return list_matches(step, len(events), self._table.n)

    def memory_bytes(self) -> int:
        growing = self._growing
        tree = nbytes(*growing.tree, *growing, *growing.places[:3])
        return self._table.memory_bytes() + tree + nbytes(*self._rules.hulls, *self._rules)

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        n = self._table.n
        self._add_predicates(first, table)
        hulls, growing = self._rules.hulls, self._growing
        places = growing.places._replace(column=hulls.column, low=hulls.low, high=hulls.high)
        growing = growing._replace(places=places, node_of=with_room(growing.node_of, n))
        self._growing = GrowingTree(*be_tree_nodes.insert(first, n, growing, self._rules))
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        self._growing = GrowingTree(*be_tree_nodes.delete(numbers, self._growing, self._rules))

    def _build(self) -> None:
        table = self._table.compact()
        predicates = Predicates.of(table)
        hulls = hulls_of(predicates, table.n_subscriptions)
        begin, end = domain(table)
        score = self._scores(hulls, begin, end)
        self._rules = DivisionRules(hulls, score, begin, end, self._max_cap, self._min_size)
        there = possible(table)
        there = there[~self._table.gone[there]]
        self._growing = be_tree_nodes.plant(there, self._table.n, self._rules, *sapling(len(there)))

    def _scores(self, hulls: Hulls, begin: Float64, end: Float64) -> Float64:
        loss = np.empty(len(hulls.column))
        shares(hulls, begin, end, loss)
        return (1.0 - self._alpha) - self._alpha * loss

    def _add_predicates(self, first: int, table: SubscriptionTable) -> None:
        """Append the predicates of new subscriptions to those of the others."""
        hulls = with_more(self._rules.hulls, first, table)
        begin, end = hulls.start[first], hulls.start[first + table.n_subscriptions]
        new = Hulls(hulls.start, hulls.column[begin:end], hulls.low[begin:end], hulls.high[begin:end])
        score = with_room(self._rules.score, end)
        score[begin:end] = self._scores(new, self._rules.begin, self._rules.end)
        self._rules = self._rules._replace(hulls=hulls, score=score)
