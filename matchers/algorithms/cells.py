"""Divide the value domain of each attribute into cells of equal width, as REIN (sec. IV) and its successors do.

    domain of attribute a: begin[a] .. begin[a] + c / per_unit[a]         cell of v: floor((v - begin[a]) * per_unit[a])

The domain is from the least to the greatest finite bound that subscriptions use. Values beyond it and infinite bounds
fall into the first or the last cell, where values are compared: no match depends on the choice of the domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.contract.tables import Float64, SubscriptionTable


def domain(table: SubscriptionTable) -> tuple[Float64, Float64]:
    """The least and the greatest finite bound of each column; 0 and 0 where there is none."""
    begin = np.full(table.n_columns, np.inf)
    end = np.full(table.n_columns, -np.inf)
    for bound in (table.low, table.high):
        finite = np.isfinite(bound)
        np.minimum.at(begin, table.column[finite], bound[finite])
        np.maximum.at(end, table.column[finite], bound[finite])
    nowhere = begin > end
    begin[nowhere] = end[nowhere] = 0.0
    return begin, end


@dataclass(frozen=True, eq=False)
class Cells:
    n: int  # c, of each attribute
    begin: Float64  # [A]
    per_unit: Float64  # [A] cells in a unit of the attribute's values

    @classmethod
    def of(cls, table: SubscriptionTable, n: int) -> Cells:
        begin, end = domain(table)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            per_unit = n / (end - begin)
        per_unit[~np.isfinite(per_unit)] = 0.0
        return cls(n, begin, per_unit)
