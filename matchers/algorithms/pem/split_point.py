"""Move the split point of an ensemble after each window so that its two algorithms take equally long.

Slices of subscriptions lie in the order of their matching probability; the first algorithm matches those below the
split point, the second the others. K slices, and `cut` of them below.
"""

from __future__ import annotations

import numpy as np

from matchers.contract.tables import Float64


def elastic(sp: float, t_1: float, t_2: float, alpha: float) -> float:
    """Eq. 3 of PEM for two algorithms: SP = R_MAX - t_1 * (R_MAX - R_MIN) / T, R = SP * (1 -+ alpha), T = t_1 + t_2.

    Equal times leave SP as it is; a step is at most alpha of SP, and about alpha of the way to where times are equal.
    """
    least, most = sp * (1 - alpha), sp * (1 + alpha)
    return most - t_1 * (most - least) / (t_1 + t_2)


def cut_of(sp: float, n_slices: int) -> int:
    """The number of slices below the split point. Neither side is ever empty, or its time could not be measured."""
    return min(max(round(sp * n_slices), 1), n_slices - 1)


def balanced(cut: int, times: Float64, first: Float64, second: Float64) -> int:
    """The cut at which the slower of both sides would take least.

    `times` are the times of the slices on their present sides; `first` and `second` are the expected times on either
    side, in any unit. A slice that leaves a side takes its time with it; one that comes is expected to take a share of
    the time that the slices there took.
    """
    below = np.arange(len(times)) < cut
    on_first = np.where(below, times, first * (times[below].sum() / first[below].sum()))
    on_second = np.where(below, second * (times[~below].sum() / second[~below].sum()), times)
    slower = np.maximum(np.cumsum(on_first)[:-1], on_second.sum() - np.cumsum(on_second)[:-1])
    return int(np.argmin(slower)) + 1


def follow(sp: float, times: Float64, first: Float64, second: Float64, alpha: float) -> float:
    """The next window's split point: by Eq. 3 while times differ by alpha at most, else where they would be equal.

    The steps of Eq. 3 move a slice to the other side only if that makes the slower side faster.
    """
    n = len(times)
    cut = cut_of(sp, n)
    t_1, t_2 = float(times[:cut].sum()), float(times[cut:].sum())
    if t_1 + t_2 <= 0.0:  # too short for the clock
        return sp
    best = balanced(cut, times, first, second)
    if max(t_1, t_2) > (1 + alpha) * min(t_1, t_2):
        return best / n
    moved = min(max(elastic(sp, t_1, t_2, alpha), 1 / n), 1 - 1 / n)
    return moved if cut_of(moved, n) == cut or best != cut else sp
