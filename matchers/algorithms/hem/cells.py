"""Cells of unequal width: where bounds crowd, a cell of HEM is divided again (sec. 7: "multi levels").

    level 1    |   0   |   1   |   2   |   3   |      cell 2 holds far more bounds than its share of a quarter,
    level 2                    |2|3|4|5|              so it is a node of four cells over the bounds in it
    leaves     |   0   |   1   |2|3|4|5|   6   |      number the attribute's cells in the order of values

All other code uses leaves only. They ascend with the value, so a leaf below that of a value holds smaller bounds only.
A cell with all bounds in one place stays as it is.
"""

from __future__ import annotations

import numpy as np

from matchers.algorithms.cells import Cells
from matchers.algorithms.hem.kernel import Domain, cells_in_node
from matchers.algorithms.predicates import Predicates
from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable

HOT = 8  # times its share of the bounds: with more, a cell is divided


def divided(table: SubscriptionTable, hulls: Predicates, c: int, levels: int) -> Domain:
    """c cells of equal width for each attribute. Down to so many levels, a cell with more than HOT times 1 / c of the
    attribute's bounds is divided into as many cells as would share them out."""
    nodes = _Nodes(Cells.of(table, c))
    if levels > 1:
        for a, bounds in enumerate(_bounds(hulls, table.n_columns)):
            nodes.divide(a, bounds, levels, max(len(bounds) / c, 1.0))
    return nodes.domain()


def _bounds(hulls: Predicates, d: int) -> list[Float64]:
    """The finite bounds on each attribute, ascending."""
    bound, column = np.concatenate((hulls.low, hulls.high)), np.concatenate((hulls.column, hulls.column))
    finite = np.isfinite(bound)
    bound, column = bound[finite], column[finite]
    order = np.lexsort((bound, column))
    return np.split(bound[order], np.searchsorted(column[order], np.arange(1, d)))


class _Nodes:
    """Nodes that are being made, those of the attributes first."""

    def __init__(self, top: Cells) -> None:
        self.d = len(top.begin)
        self.begin, self.per_unit, self.cells = top.begin.tolist(), top.per_unit.tolist(), [top.n] * self.d
        self.divided: dict[int, dict[int, int]] = {}  # the hot cells of a node, and their nodes

    def divide(self, node: int, bounds: Float64, levels: int, share: float) -> None:
        """Divide the hot cells of a node. `bounds` lie in it, ascending; a cell should hold `share` of them."""
        cell = cells_in_node(bounds, self.begin[node], self.per_unit[node], self.cells[node])
        ends = np.searchsorted(cell, np.arange(self.cells[node] + 1))
        for hot in np.flatnonzero(np.diff(ends) > HOT * share).tolist():
            inside = bounds[ends[hot] : ends[hot + 1]]
            cells = int(len(inside) / share)
            with np.errstate(over="ignore", divide="ignore"):
                per_unit = float(cells / (inside[-1] - inside[0]))
            if 0.0 < per_unit < np.inf:
                into = len(self.begin)
                self.divided.setdefault(node, {})[hot] = into
                self.begin.append(float(inside[0]))
                self.per_unit.append(per_unit)
                self.cells.append(cells)
                if levels > 2:
                    self.divide(into, inside, levels - 1, share)

    def domain(self) -> Domain:
        leaf, first = np.zeros(len(self.begin), np.int32), np.full(len(self.begin), -1, np.int64)
        child: list[int] = []
        c = [self._number(a, 0, leaf, first, child) for a in range(self.d)]
        numbers = (np.array(self.begin), np.array(self.per_unit), np.array(self.cells, np.int32))
        return Domain(np.array(c, np.int32), *numbers, leaf, first, np.array(child, np.int32))

    def _number(self, node: int, begin: int, leaf: Int32, first: Int64, child: list[int]) -> int:
        """Number the leaves of a node from `begin` on; returns the next."""
        leaf[node] = begin
        hot = self.divided.get(node, {})
        if not hot:
            return begin + self.cells[node]
        first[node] = at = len(child)
        child.extend([0] * self.cells[node])
        for cell in range(self.cells[node]):
            child[at + cell] = hot.get(cell, -1 - begin)
            begin = self._number(hot[cell], begin, leaf, first, child) if cell in hot else begin + 1
        return begin
