"""Choose the predicates to skip for a false-positive rate F, by a model of precision corrected by a sample.

The technical report of EEM takes the skipped predicates from a model in the main paper. Ours is derived here.

Model. An event matches predicate i of attribute a with probability p_i and has the attribute with probability q_a, both
shares of the sample. Predicates on different attributes taken as independent, subscription s stays unmarked with

    u_s = product over kept predicates of p_i * product over skipped ones of q_a          F = FP / (TP + FP)
    TP  = sum of u_s with nothing skipped          FP = sum of u_s - TP

so skipping predicate i multiplies one u_s by q_a / p_i. Skipped is in one order, one (attribute, width level) after the
other, what saves most marks for a false positive first, and the widest predicates of each first. A rate is a place in
that order: the same index serves all of them, and the last level skipped is skipped in part.

Correction. The sample is matched once, and each false positive counted at the place where it begins to be one: that is
FP at every place, without assuming independence, but with the noise of a count. Counts are believed the more the larger
they are: c of them with weight c / (c + 100), and the model for the rest. At 400 the noise of a count is 5 %.

F is that of the marks. Where survivors are verified afterwards, it is how many of them are verified in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.algorithms.wpa_rein.kernel import Lists, SkipOrder, measure_skips, order_skips
from matchers.contract.tables import EventBatch, Float64, Int64

BELIEVED_BY_HALF = 100  # false positives, or matches, counted in the sample
COMPARED_PER_GROUP = 2.0  # predicates: what skipping a whole group saves besides its marks
PREDICATES_MARKED = 1 << 29  # events times predicates that one calibration may take: below a second
WORST = 0.9  # the rate, by the model, up to which is measured; more is never skipped
EVENTS = (64, 10_000)  # in a sample, least and most


@dataclass(frozen=True, eq=False)
class Precision:
    """The cost of skipping. G groups of predicates, P predicates."""

    size: Int64  # [G] predicates
    skip_begin: Int64  # [G] how many predicates are skipped before the group's first
    rate: Float64  # [P + 1] F by the number of predicates skipped; ascending

    def kept(self, false_positives: float) -> Int64:
        """[G]: how many of each group, the narrowest, must be looked at so that F stays within `false_positives`."""
        skipped = int(np.searchsorted(self.rate, false_positives, side="right")) - 1
        return _kept(self.size, self.skip_begin, skipped)


def sample_size(lists: Lists) -> int:
    return int(np.clip(PREDICATES_MARKED // max(len(lists.of_low), 1), *EVENTS))


def calibrate(lists: Lists, sample: EventBatch) -> Precision:
    matching, present = _probabilities(lists, sample)
    n, n_predicates, n_events = lists.n_subscriptions, len(lists.of_low), max(len(sample), 1)
    zeros = np.bincount(lists.of_width[matching == 0], minlength=n)
    chance = np.ones(n)
    np.multiply.at(chance, lists.of_width, np.where(matching > 0, matching, 1.0))
    true_expected = chance[zeros == 0].sum() * n_events

    size = np.diff(lists.begin)
    skip_begin = np.zeros(len(size), np.int64)
    expected = np.zeros(n_predicates + 1)
    order_skips(lists, matching, present, COMPARED_PER_GROUP, chance, zeros, skip_begin, expected)
    expected *= n_events

    most = int(np.searchsorted(expected, true_expected * WORST / (1.0 - WORST), side="right")) - 1
    counted = np.zeros(n_predicates + 1, np.int64)
    true_counted = measure_skips(
        sample.arrays,
        lists,
        np.flatnonzero(size),
        _kept(size, skip_begin, most),
        _skip_order(lists, skip_begin),
        counted,
    )
    wrong = np.maximum.accumulate(_believed(np.cumsum(counted), expected))
    right = float(_believed(np.array([true_counted]), np.array([true_expected]))[0])
    rate = np.divide(wrong, right + wrong, out=np.zeros(len(wrong)), where=wrong > 0)
    rate[most + 1 :] = 1.0
    return Precision(size, skip_begin, rate)


def _kept(size: Int64, skip_begin: Int64, skipped: int) -> Int64:
    return size - np.clip(skipped - skip_begin, 0, size)


def _skip_order(lists: Lists, skip_begin: Int64) -> SkipOrder:
    group = np.repeat(np.arange(len(skip_begin)), np.diff(lists.begin))
    place = skip_begin[group] + lists.begin[group + 1] - 1 - np.arange(len(group))
    order = np.argsort(lists.of_width, kind="stable")
    start = np.searchsorted(lists.of_width[order], np.arange(lists.n_subscriptions + 1)).astype(np.int64)
    return SkipOrder(start, _attribute(lists)[order], lists.width_low[order], lists.width_high[order], place[order])


def _believed(counted: Int64, expected: Float64) -> Float64:
    weight = counted / (counted + BELIEVED_BY_HALF)
    return weight * counted + (1.0 - weight) * expected


def _attribute(lists: Lists) -> Int64:
    """[P], in the order of the lists."""
    return np.repeat(np.arange(len(lists.begin) - 1), np.diff(lists.begin)) // lists.levels


def _probabilities(lists: Lists, sample: EventBatch) -> tuple[Float64, Float64]:
    """(p_i [P], q_a [A]): shares of the sample's events."""
    n_attributes = len(lists.cell_begin)
    n_events = max(len(sample), 1)
    known = sample.column < n_attributes
    column, value = sample.column[known], sample.value[known]
    order = np.lexsort((value, column))
    column, value = column[order], value[order]
    begin = np.searchsorted(column, np.arange(n_attributes + 1))
    matching = np.zeros(len(lists.of_width))
    bounds = lists.begin[:: lists.levels]
    for a in np.flatnonzero(np.diff(begin)):
        own, values = slice(bounds[a], bounds[a + 1]), value[begin[a] : begin[a + 1]]
        above = np.searchsorted(values, lists.width_high[own], side="right")
        matching[own] = np.maximum(above - np.searchsorted(values, lists.width_low[own], side="left"), 0)
    # An event with several values in a column counts there once, and on several predicates: no share exceeds q_a.
    event = np.repeat(np.arange(len(sample)), np.diff(sample.offsets))[known][order]
    present = np.bincount(np.unique(np.stack((column, event)), axis=1)[0], minlength=n_attributes) / n_events
    return np.minimum(matching / n_events, present[_attribute(lists)]), present
