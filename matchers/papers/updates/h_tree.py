"""Insert subscriptions into the buckets of an H-Tree and delete them from there.

Source: the paper on REIN (sec. V C and tables II and VII): a subscription is hashed by its cells on the
l indexed attributes, appended to the list of its bucket, and removed from that list; in the form measured there, it is
in each of the ceil(w * c)^l buckets that it touches. In ours it is in one, so both are a way down the tree and a
change of one bucket.

What ours does where the description leaves it open, or differs:

- A bucket that grows beyond `bucket` is divided as in a build. One that cannot be divided is tried again when it has
  doubled.
- A node keeps its attribute, where a fresh build might take one chained earlier that only new subscriptions have.
  Attributes, their order, deltas and cells are those of the last build.
- An empty bucket stays until all is built anew: the next subscription of its cell takes its places.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from matchers.algorithms.places import hulls_of, possible, with_more
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import list_matches
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.papers import h_tree
from matchers.papers.h_tree.kernel import HTreeNodes, chain
from matchers.papers.h_tree.kernel import h_tree as match_kernel
from matchers.papers.updates import h_tree_nodes
from matchers.papers.updates.growing_table import GrowingTable, nbytes
from matchers.papers.updates.h_tree_nodes import Chaining, GrowingHTree


class UpdatableHTree:
    """An H-Tree, whose arrays change in place."""

    _growing: GrowingHTree
    _chaining: Chaining  # with room

    def __init__(
        self,
        table: SubscriptionTable,
        c: int = 8,
        l: int | None = None,  # noqa: E741 - the paper's name
        delta: float | None = None,
        bucket: int = 16,
    ) -> None:
        """Options as for `h_tree.build`. Raises MatchingError."""
        h_tree.check_options(c, l, delta, bucket)
        self._c, self._l, self._delta, self._bucket = c, l, delta, bucket
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        growing, cells, rows = self._growing, self._chaining.order.cells, self._table.rows
        tree = HTreeNodes(growing.tree.nodes[: growing.n_nodes], growing.tree.label)

        def step(first: int, out: Int32, counts: Int64) -> int:
            return match_kernel(first, events.arrays, cells, tree, growing.places, rows, out, counts)

        return list_matches(step, len(events), self._table.n)

    def memory_bytes(self) -> int:
        growing, (hulls, order, _) = self._growing, self._chaining
        tree = nbytes(*growing.tree, *growing, *growing.places[:3])
        return self._table.memory_bytes() + tree + nbytes(*hulls, *order, *order.cells)

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        hulls = with_more(self._chaining.hulls, first, table)
        self._chaining = self._chaining._replace(hulls=hulls)
        places = self._growing.places._replace(column=hulls.column, low=hulls.low, high=hulls.high)
        growing = self._growing._replace(places=places)
        self._growing = GrowingHTree(*h_tree_nodes.insert(first, self._table.n, growing, self._chaining))
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        h_tree_nodes.delete(numbers, self._growing, self._chaining)

    def _build(self) -> None:
        table = self._table.compact()
        predicates = Predicates.of(table)
        hulls = hulls_of(predicates, table.n_subscriptions)
        order = h_tree.choose_order(table, predicates, self._c, self._l, self._delta)
        self._chaining = Chaining(hulls, order, self._bucket)
        ids = possible(table)
        ids = ids[~self._table.gone[ids]]
        tree = chain(ids, h_tree.entries_of(hulls, order), order.indexed, self._c, self._bucket)
        self._growing = h_tree_nodes.with_rooms(ids, HTreeNodes(*tree), hulls)
