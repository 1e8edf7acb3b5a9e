"""Move the split points of an ensemble after each window so that its algorithms take equally long.

    slices, ascending by matching probability:   0  1  2  3  4 | 5  6  7  8 | 9 10 11 12 13 14 15
    algorithm:                                        1      SP_1      2  SP_2         3              cuts 5 and 9

L algorithms have L - 1 split points, K slices, and algorithm i matches those between SP_(i - 1) and SP_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from matchers.contract.tables import Float64

Splits = tuple[float, ...]
Cuts = tuple[int, ...]


def elastic(sp: float, t_1: float, t_2: float, alpha: float) -> float:
    """Eq. 3 of PEM: SP_i = R_MAX - t_i * (R_MAX - R_MIN) / T, with R = SP_i * (1 -+ alpha) and T = t_i + t_(i + 1).

    Equal times leave SP as it is; a step is at most alpha of SP, and about alpha of the way to where times are equal.
    In the paper T is the sum for all L algorithms. With L = 2 that is the same; with more, equal times would raise each
    SP_i by alpha * (1 - 2 / L) of itself in every window. So ours balances neighbours.
    """
    least, most = sp * (1 - alpha), sp * (1 + alpha)
    return most - t_1 * (most - least) / (t_1 + t_2)


def cuts_of(splits: Splits, n_slices: int) -> Cuts:
    """The first slice of each algorithm but the first. No algorithm is ever without a slice, as its time would not be
    known; with fewer slices than algorithms the last ones are.
    """
    cuts: list[int] = []
    for left, sp in zip(range(len(splits), 0, -1), splits, strict=True):  # algorithms behind this split point
        least = cuts[-1] + 1 if cuts else 1
        cuts.append(min(max(min(round(sp * n_slices), n_slices - left), least), n_slices))
    return tuple(cuts)


def balanced(cuts: Cuts, times: Float64, works: Sequence[Float64]) -> Cuts:
    """The cuts at which the slowest of the algorithms would take least.

    times [K]: of the slices, each in its present algorithm; works, [K] for each algorithm: the expected times there, in
    any unit. A slice that leaves an algorithm takes its time with it; one that comes is expected to take a share of the
    time that the slices there took.

    Cost: O(K), and O(K^2) for each algorithm between the first and the last.
    """
    n = len(times)
    at = np.searchsorted(cuts, np.arange(n), side="right")
    until = []  # of each algorithm, [K + 1]: the time of the slices before
    for i, work in enumerate(works):
        here = at == i
        taken = np.where(here, times, work * (times[here].sum() / work[here].sum()))
        until.append(np.concatenate(([0.0], np.cumsum(taken))))
    slowest = until[0]  # [K + 1]: of the algorithms so far, if they share the slices before
    slowest[0] = np.inf
    begins = []  # where the last of the algorithms so far then begins
    for i in range(1, len(works)):
        ends = np.arange(n + 1) if i < len(works) - 1 else np.array([n])
        begin = np.arange(n + 1)[:, np.newaxis]
        takes = np.maximum(slowest[:, np.newaxis], until[i][ends] - until[i][begin])
        takes[begin >= ends] = np.inf
        begins.append(takes.argmin(axis=0))
        slowest = takes.min(axis=0)
    best: list[int] = []
    end = 0
    for begin in reversed(begins):
        end = int(begin[end])
        best.insert(0, end)
    return tuple(best)


def follow(splits: Splits, times: Float64, works: Sequence[Float64], alpha: float) -> Splits:
    """The next window's split points: by Eq. 3 while times differ by alpha at most, else where they would be equal.

    The steps of Eq. 3 move a slice to another algorithm only if that makes the slowest one faster.
    """
    n = len(times)
    cuts = cuts_of(splits, n)
    taken = [float(part.sum()) for part in np.split(times, cuts)]
    if sum(taken) <= 0.0:  # too short for the clock
        return splits
    best = balanced(cuts, times, works)
    if max(taken) > (1 + alpha) * min(taken):
        return tuple(cut / n for cut in best)
    moved = tuple(elastic(sp, *both, alpha) for sp, both in zip(splits, pairwise(taken), strict=True))
    steps = np.subtract(cuts_of(moved, n), cuts)
    helps = (steps == 0) | (np.sign(steps) == np.sign(np.subtract(best, cuts)))
    return apart(tuple(np.where(helps, moved, splits).tolist()), n)


def apart(splits: Splits, n_slices: int) -> Splits:
    """The split points, a slice at least from each other and from 0 and 1."""
    ascending = [0.0]
    for sp in splits:
        ascending.append(max(sp, ascending[-1] + 1 / n_slices))
    descending = [1.0]
    for sp in reversed(ascending[1:]):
        descending.append(min(sp, descending[-1] - 1 / n_slices))
    return tuple(reversed(descending[1:]))
