"""`ada_rein`: REIN that skips predicates as long as false positives stay within a target.

Approximate: lists all that match, and with them some that do not; F = FP / (TP + FP) of them, TP being matches, FP not.
With `exact` these are checked and dropped.

Source: Ada-REIN (Qian et al., INFOCOM 2019), after what HEM (sec. 2 and 6) and EEM (sec. 1.5 and 2) say of it: given F
and the frequency f_i of attributes, the number of predicates on each, it decides which attributes not to mark, the
infrequent ones first; under load F rises, as matching is faster the more is skipped, and without load it is 0.

Ours differs. An attribute is too coarse a step: the first may already be too much (without skewed attributes, HEM sec.
6 and EEM sec. 2.1 see no gain over REIN). So predicates are in one order and the first `bar` of them are skipped: whole
columns and a part of one. Columns come by f_i, ascending. Within a column come first the predicates of subscriptions
whose other predicates are narrow: to skip one saves a mark whenever it misses, and is a false positive only if all the
others hit then, so marks saved to false positives made are as 1 to the product of the other widths, whatever its own.
With `whole` only whole attributes are skipped, as in the source: the bar is lowered to where an attribute ends, often
to 0.

And the bar is not derived from assumed distributions but counted on a sample, the first events. They are matched at a
bar that is too high for the target, the ceiling. The last missed predicate of each listed subscription shows at which
lower bars it is a false positive too, so one pass gives F at every bar, and the bar is the highest within the target.

Cost per event: that of `rein` for the predicates kept, n * psi_S * (1 - w) marks less those skipped; of the sample and
when exact also a check of each that passes. With a target near 1, `exact` marks by few columns and checks what they
leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.cells import Cells
from matchers.algorithms.predicates import Predicates
from matchers.contract.matcher import AdaptiveMatcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError
from matchers.papers.ada_rein.kernel import Ordered, Skipped, ada_rein, arrange, last_misses
from matchers.papers.rein import bucket_lists, lists_of
from matchers.papers.rein.kernel import BucketLists

# The sample is complete with enough events and enough false positives at the bar, or with enough pairs of an event and
# a subscription.
SAMPLE_EVENTS = 4_000
SAMPLE_FALSE_POSITIVES = 2_000
SAMPLE_PAIRS = 1 << 30
SAMPLE_STRIDE = 256  # events matched at one ceiling; of a new sample, whose ceiling is a guess, FIRST_STRIDE
FIRST_STRIDE = 16
CEILING_FALSE_POSITIVES = 100  # fewer tell too little to lower the ceiling: it would be raised again, for a new sample
FIRST_CEILING = 1 / 4096  # of all predicates
CEILING_GROWTH = 4
STEPS_BITS = 17  # bars are multiples of the power of two that leaves at most 2 ** 17 of them
_NARROWEST = 1e-6  # a width of 0 is that of one value among many


@dataclass(frozen=True, eq=False)
class SkipSequence:
    """The order of skipping predicates, and the table's intervals by (subscription, place in the order)."""

    columns: Int64  # [A], as they are skipped
    ends: Int64  # [A]: the predicates of columns[i] have places ends[i - 1] .. ends[i]
    start: Int64  # [S + 1]
    column: Int32  # [I]
    place: Int32  # [I], of the interval's predicate
    low: Float64  # [I]
    high: Float64  # [I]
    shift: int  # bars are multiples of 2 ** shift
    cost: Float64  # [steps + 1]: marks expected of an event at each bar, and the words to check, in marks

    def bar(self, step: int) -> int:
        return min(step << self.shift, int(self.ends[-1])) if len(self.ends) else 0

    def end_before(self, bar: int) -> int:
        """The highest bar, at most this one, that skips no attribute in part."""
        whole = int(np.searchsorted(self.ends, bar, side="right"))
        return int(self.ends[whole - 1]) if whole else 0

    @classmethod
    def of(cls, table: SubscriptionTable, predicates: Predicates, cells: Cells) -> SkipSequence:
        width = _width(table, predicates, cells)
        frequency = np.bincount(predicates.column, minlength=table.n_columns)
        total = np.bincount(predicates.column, weights=width, minlength=table.n_columns)
        columns = np.lexsort((-total / np.maximum(frequency, 1), frequency))
        rank = np.empty(table.n_columns, np.min_scalar_type(table.n_columns))  # short numbers sort in linear time
        rank[columns] = np.arange(table.n_columns)
        narrow = np.log(np.maximum(width, _NARROWEST))
        of_subscription = np.bincount(predicates.subscription, weights=narrow, minlength=table.n_subscriptions)
        others = of_subscription[predicates.subscription] - narrow
        least, greatest = (others.min(), others.max()) if len(others) else (0.0, 0.0)
        scale = 65_535 / (greatest - least) if greatest > least else 0.0
        order = np.argsort(((others - least) * scale).astype(np.uint16), kind="stable")
        order = order[np.argsort(rank[predicates.column[order]], kind="stable")]
        place = np.empty(len(predicates), np.int32)
        place[order] = np.arange(len(predicates), dtype=np.int32)
        arranged = np.arange(len(predicates))
        arrange(predicates.subscription, place, arranged)
        length = np.diff(predicates.first)[arranged]
        begins = np.cumsum(length) - length
        intervals = np.repeat(predicates.first[arranged] - begins, length) + np.arange(len(table.subscription))
        places = np.repeat(place[arranged], length)
        shift = max(0, len(predicates).bit_length() - STEPS_BITS)
        saved = np.concatenate(([0.0], np.cumsum(1.0 - width[order])))
        bars = np.minimum(np.arange((len(predicates) >> shift) + 2) << shift, len(predicates))
        return cls(
            columns,
            np.cumsum(frequency[columns]),
            table.start,
            table.column[intervals],
            places,
            table.low[intervals],
            table.high[intervals],
            shift,
            table.n_subscriptions / 8 + saved[-1] - saved[bars],
        )


@dataclass(frozen=True, eq=False)
class SkipPlan:
    """The columns skipped at one bar."""

    step: int  # the least for which step << shift is the bar or more
    bar: int
    skipped: NDArray[np.bool_]  # [A]: whether predicates of the column are skipped
    partial: BucketLists  # the predicates kept of the column skipped in part
    partial_column: int  # -1: there is none


@dataclass(eq=False)
class AdaptationState:
    """The state of a matcher that changes, under the lock; plans are replaced whole, so reading needs no lock."""

    passed: NDArray[Any]  # [steps + 1] int64: of the sample, matches; then the false positives that each step adds
    plan: SkipPlan
    ceiling: SkipPlan  # at which the sample is matched
    wanted: int  # steps, for the load
    limit: int = 0  # steps, at most, for the target
    events: int = 0  # of the sample
    complete: bool = False
    lock: Any = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())


@dataclass(frozen=True, eq=False)
class AdaRein(AdaptiveMatcher):
    lists: BucketLists  # of all predicates
    several: NDArray[np.bool_]  # [S]: whether the lists hold only the hull of a predicate
    any_several: bool
    order: SkipSequence
    false_positives: float  # the target
    exact: bool
    state: AdaptationState
    whole: bool = False  # only whole attributes are skipped

    def match(self, events: EventBatch) -> MatchBatch:
        if not self.settled:
            return self._sample(events)
        return self._list(events, self.state.plan, self.exact)

    @property
    def learnt(self) -> int:
        """The number of events in the sample."""
        return self.state.events

    @property
    def settled(self) -> bool:
        return self.state.complete or self.false_positives == 0

    def forget(self) -> None:
        """Begin a new sample with the next events, because they differ from those before."""
        with self.state.lock:
            self._begin(self.state.ceiling)

    def adapt(self, arriving: float, served: float) -> float:
        """Skip as much as the load requires, at most to the target; returns the F that is then expected.

        `arriving` events a second come, and `served` could be matched as it is done now. An event may therefore cost
        served / arriving of what it does; the bar is the lowest at which the marks left cost no more. So F rises to the
        target while events wait, and falls to 0 when they are few. Raises MatchingError.
        """
        if not (arriving >= 0 and served > 0):
            raise MatchingError(f"arriving must be 0 or more and served above 0, not {arriving} and {served}")
        state, cost = self.state, self.order.cost
        with state.lock:
            affordable = cost[state.plan.step] * served / arriving if arriving > 0 else np.inf
            state.wanted = min(int(np.searchsorted(-cost, -affordable)), len(cost) - 1)
            self._set_bar()
        return self.expected_false_positives

    @property
    def expected_false_positives(self) -> float:
        """F of the sample at the bar."""
        passed = self.state.passed[: 1 + self.state.plan.step]
        return float(passed[1:].sum() / max(1, passed.sum()))

    def memory_bytes(self) -> int:
        parts = (
            self.lists,
            self.state.plan.partial,
            tuple(vars(self.order).values()),
            (self.several, self.state.passed),
        )
        return sum(a.nbytes for part in parts for a in part if isinstance(a, np.ndarray))

    def _list(self, events: EventBatch, plan: SkipPlan, exact: bool) -> MatchBatch:
        skips = Skipped(plan.bar, np.flatnonzero(~plan.skipped), plan.partial, plan.partial_column)
        ordered = self._ordered()

        def step(first: int, out: Int32, counts: Int64) -> int:
            return ada_rein(first, events.arrays, self.lists, skips, exact, ordered, out, counts)

        return list_matches(step, len(events), len(self.several))

    def _ordered(self) -> Ordered:
        order = self.order
        return Ordered(*(order.start, order.column, order.place, order.low, order.high), self.several, self.any_several)

    def _sample(self, events: EventBatch) -> MatchBatch:
        """Match the events at the ceiling, set the bar by them and those before, and keep what passes it."""
        parts = []
        begin = 0
        while begin < len(events):
            ceiling = self.state.ceiling
            end = min(begin + (SAMPLE_STRIDE if self.state.events else FIRST_STRIDE), len(events))
            part = EventBatch(events.offsets[begin : end + 1], events.column, events.value, events.n_columns)
            found = self._list(part, ceiling, exact=False)
            missed = self._last_misses(part, found)
            with self.state.lock:
                # Another thread may have moved the ceiling since; then these do not count.
                if ceiling is not self.state.ceiling or self._take(missed, end - begin):
                    parts.append((found, missed))
                    begin = end
        bar = 0 if self.exact else self.state.plan.bar
        return MatchBatch.joined([_those(found, missed < bar) for found, missed in parts])

    def _last_misses(self, events: EventBatch, found: MatchBatch) -> Int32:
        missed = np.empty(len(found.subscription), np.int32)
        n_columns = len(self.order.columns)
        last_misses(events.arrays, n_columns, self._ordered(), found.offsets, found.subscription, missed)
        return missed

    def _take(self, missed: Int32, events: int) -> bool:
        """Add to the sample, unless the ceiling is within the target: then raise it and begin a new sample."""
        state, steps = self.state, len(self.order.cost) - 1
        state.passed += np.bincount((missed >> self.order.shift) + 1, minlength=steps + 1)
        state.events += events
        added = np.cumsum(state.passed[1:])
        allowed = self.false_positives / (1 - self.false_positives) * float(state.passed[0])  # FP <= F / (1 - F) * TP
        limit = int(np.searchsorted(added, allowed, side="right"))
        if limit >= state.ceiling.step < steps:
            self._begin(plan_of(self.order, self.lists, min(CEILING_GROWTH * state.ceiling.step, steps)))
            return False
        false_positives = int(added[limit - 1]) if limit else 0  # at the limit
        if false_positives >= CEILING_FALSE_POSITIVES and limit + limit // 2 < state.ceiling.step:  # lower counts stay
            state.ceiling = plan_of(self.order, self.lists, limit + limit // 4 + 1)
        state.limit = limit
        state.complete = state.events * len(self.several) >= SAMPLE_PAIRS or (
            state.events >= SAMPLE_EVENTS and false_positives >= SAMPLE_FALSE_POSITIVES
        )
        self._set_bar()
        return True

    def _begin(self, ceiling: SkipPlan) -> None:
        self.state.passed[:] = 0
        self.state.events = 0
        self.state.complete = False
        self.state.ceiling = ceiling

    def _set_bar(self) -> None:
        step = min(self.state.limit, self.state.wanted)
        bar = self.order.bar(step)
        if self.whole:
            bar = self.order.end_before(bar)
            step = -(-bar >> self.order.shift)
        if bar != self.state.plan.bar:
            self.state.plan = plan_at(self.order, self.lists, step, bar)


def _those(found: MatchBatch, keep: NDArray[np.bool_]) -> MatchBatch:
    kept = np.concatenate(([0], np.cumsum(keep)))
    return MatchBatch(kept[found.offsets].astype(np.int64), found.subscription[keep])


def plan_of(order: SkipSequence, lists: BucketLists, step: int) -> SkipPlan:
    return plan_at(order, lists, step, order.bar(step))


def plan_at(order: SkipSequence, lists: BucketLists, step: int, bar: int) -> SkipPlan:
    skipped = np.zeros(len(order.columns), bool)
    whole = int(np.searchsorted(order.ends, bar, side="right")) if bar else 0
    skipped[order.columns[:whole]] = True
    if whole == len(order.columns) or bar == (order.ends[whole - 1] if whole else 0):
        return SkipPlan(step, bar, skipped, _kept(order, lists, -1, bar), -1)
    column = int(order.columns[whole])
    skipped[column] = True
    return SkipPlan(step, bar, skipped, _kept(order, lists, column, bar), column)


def _kept(order: SkipSequence, lists: BucketLists, column: int, bar: int) -> BucketLists:
    """Lists of those predicates of the column that are not skipped, as of a table with no other column."""
    at = np.flatnonzero((order.column == column) & (order.place >= bar))
    n_subscriptions = len(order.start) - 1
    subscription = (np.searchsorted(order.start, at, side="right") - 1).astype(np.int32)
    kept = Predicates.of(
        SubscriptionTable(
            subscription, np.zeros(len(at), np.int32), order.low[at], order.high[at], n_subscriptions, n_columns=1
        )
    )
    begin, per_unit = (np.zeros(1), np.zeros(1)) if column < 0 else (lists.begin[[column]], lists.per_unit[[column]])
    cells = Cells(lists.n, begin, per_unit)
    return bucket_lists(kept.subscription, kept.column, kept.low, kept.high, cells, n_subscriptions, lists.block)


def _width(table: SubscriptionTable, predicates: Predicates, cells: Cells) -> Float64:
    """[P]: how much of its column's domain a predicate's intervals take up, 0 .. 1."""
    per_unit = cells.per_unit[table.column] / cells.n
    begin = cells.begin[table.column]
    with np.errstate(over="ignore", invalid="ignore"):
        ends = [np.clip(np.nan_to_num((bound - begin) * per_unit), 0.0, 1.0) for bound in (table.low, table.high)]
    width = np.where(table.low > table.high, 0.0, np.where(per_unit > 0, ends[1] - ends[0], 1.0))
    of = np.repeat(np.arange(len(predicates)), np.diff(predicates.first))
    return np.minimum(np.bincount(of, weights=width, minlength=len(predicates)), 1.0)


def build(
    table: SubscriptionTable,
    false_positives: float = 0.05,
    exact: bool = False,
    buckets: int | None = None,
    whole: bool = False,
    blocks: bool | None = None,
) -> AdaRein:
    """`false_positives` is the target of F, below 1; `exact` drops them; `buckets` and `blocks` as in `rein`.

    With `whole`, attributes are skipped whole or not at all, as in the source. Raises MatchingError.
    """
    if not 0 <= false_positives < 1:
        raise MatchingError(f"false_positives must be 0 or more and below 1, not {false_positives}")
    predicates = Predicates.of(table)
    lists = lists_of(table, predicates, buckets, blocks)
    order = SkipSequence.of(table, predicates, Cells(lists.n, lists.begin, lists.per_unit))
    several = predicates.several(table.n_subscriptions)
    steps = len(order.cost) - 1
    ceiling = plan_of(order, lists, max(1, int(steps * FIRST_CEILING)))
    state = AdaptationState(np.zeros(steps + 1, np.int64), plan_of(order, lists, 0), ceiling, wanted=steps)
    return AdaRein(lists, several, bool(several.any()), order, false_positives, exact, state, whole)


STORED = (AdaRein, SkipSequence, SkipPlan, AdaptationState, BucketLists)
