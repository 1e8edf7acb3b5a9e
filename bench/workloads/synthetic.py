"""Subscriptions and events as in the papers' experiments, determined by their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.errors import BenchError, check
from bench.workloads import dataset
from bench.workloads.attributes import drawn, line
from bench.workloads.distributions import UNIFORM, Distribution
from bench.workloads.intervals import Intervals
from bench.workloads.prepared import SMALL, TRAINING
from matchers.contract.tables import EventBatch, Float64, Int64, SubscriptionTable, offsets_of

ROWS = 1 << 16  # generated at a time, so that little is held besides the result


@dataclass(frozen=True)
class Workload:
    """A predicate is an interval of [0, 1] as wide as `width`, up to `width_spread` more, on an attribute of its own.

    Where the narrowest could lie, there its position is drawn from `values`. With a dataset its centre is the
    attribute's value in a random row, moved inwards if it would reach out of [0, 1], and events are rows. With `codes`
    all values and positions are multiples of 1 / codes below 1, as texts are that have so many codes.
    """

    subscriptions: int = 1_000_000
    attributes: int = 20
    predicates: tuple[int, int] = (10, 10)  # the least and the most of a subscription
    width: float = 0.3
    width_spread: float = 0.0
    codes: int | None = None  # values there are; None: any number
    equal: float = 0.0  # share of predicates that want one value, whatever the width
    events: int = 200
    event_size: int | None = None  # attributes of an event; None: all
    attribute_distribution: Distribution = UNIFORM
    values: Distribution = UNIFORM  # of predicates
    event_values: Distribution = UNIFORM
    dataset: Path | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        least, most = self.predicates
        size = self.attributes if self.event_size is None else self.event_size
        check(1 <= self.subscriptions < 2**31, "subscriptions", self.subscriptions, "from 1 to 2^31 - 1")
        check(self.events >= 1, "events", self.events, "1 or more")
        check(self.attributes >= 1, "attributes", self.attributes, "1 or more")
        check(0 <= least <= most <= self.attributes, "predicates", f"{least}-{most}", f"within 0 .. {self.attributes}")
        check(0 <= size <= self.attributes, "event size", size, f"within 0 .. {self.attributes}, the attributes")
        check(0 <= self.width <= 1, "width", self.width, "within 0 .. 1, the values")
        room = 1 - self.width
        check(self.codes is None or self.codes >= 1, "codes", self.codes, "1 or more")
        check(0 <= self.equal <= 1, "equal", self.equal, "within 0 .. 1, the share of predicates")
        check(0 <= self.width_spread <= room + 1e-9, "width spread", self.width_spread, f"within 0 .. {room:g}")

    @property
    def listable(self) -> int:
        return self.subscriptions

    def small(self) -> Workload:
        return replace(self, subscriptions=min(self.subscriptions, SMALL), events=min(self.events, 2))

    def scaled(self, share: float) -> Workload:
        return replace(self, subscriptions=max(1, round(self.subscriptions * share)))

    def prepared(self) -> Intervals:
        """Raises BenchError."""
        return Intervals(self.table(), self.batch(), replace(self, events=TRAINING, seed=self.seed + 1).batch)

    def table(self) -> SubscriptionTable:
        """The table. Distinct and ascending attributes hold by construction. Raises BenchError."""
        rng = np.random.default_rng([self.seed, 0])
        least, most = self.predicates
        sizes = rng.integers(least, most, self.subscriptions, endpoint=True, dtype=np.int64)
        offsets = offsets_of(sizes)
        column, low, high = np.empty(offsets[-1], np.int32), np.empty(offsets[-1]), np.empty(offsets[-1])
        rows, start = self._rows(), self._start()
        for part in _parts(offsets):
            begin, end = part[0], part[-1]
            columns = drawn(rng, part, start)
            width = self.width + self.width_spread * rng.random(end - begin) if self.width_spread else self.width
            if self.equal:
                width = np.where(rng.random(end - begin) < self.equal, 0.0, width)
            if rows is None:
                lows = self.values.values(rng, end - begin) * (1 - width)
            else:
                centres = rows[rng.integers(len(rows), size=end - begin), columns]
                lows = np.clip(centres - width / 2, 0, 1 - width)
            lows = self._coded(lows)
            column[begin:end], low[begin:end], high[begin:end] = columns, lows, np.minimum(lows + width, 1.0)
        subscription = np.repeat(np.arange(self.subscriptions, dtype=np.int32), sizes)
        for array in (subscription, column, low, high):
            array.flags.writeable = False
        return SubscriptionTable(subscription, column, low, high, self.subscriptions, self.attributes)

    def batch(self) -> EventBatch:
        """Return the events. Raises BenchError."""
        rng = np.random.default_rng([self.seed, 1])
        size = self.attributes if self.event_size is None else self.event_size
        offsets = np.arange(self.events + 1, dtype=np.int64) * size
        rows, start = self._rows(), self._start()
        columns = [drawn(rng, part, start) for part in _parts(offsets)]
        column = np.concatenate(columns)
        if rows is None:
            value = self.event_values.values(rng, len(column))
        else:
            order = np.resize(rng.permutation(len(rows)), self.events)
            value = rows[np.repeat(order, size), column]
        return EventBatch(offsets, column, self._coded(value), self.attributes)

    def as_data(self) -> dict[str, Any]:
        return {
            "subscriptions": self.subscriptions,
            "attributes": self.attributes,
            "predicates": "-".join(map(str, dict.fromkeys(self.predicates))),
            "width": self.width,
            "width_spread": self.width_spread,
            "codes": self.codes or "",
            "equal": self.equal,
            "event_size": self.attributes if self.event_size is None else self.event_size,
            "attribute_distribution": self.attribute_distribution,
            "value_distribution": self.values,
            "event_value_distribution": self.event_values,
            "dataset": self.dataset.name if self.dataset else "",
            "seed": self.seed,
        }

    def words(self) -> dict[str, str]:
        least, most = self.predicates
        spread = f" to {self.width + self.width_spread:g}" if self.width_spread else ""
        return {
            "subscriptions": f"{self.subscriptions:,} subscriptions",
            "attributes": f"{self.attributes} attributes",
            "predicates": f"{least} predicates" if least == most else f"{least} to {most} predicates",
            "width": f"width {self.width:g}{spread}",
            "codes": f"{self.codes:,} values" if self.codes else "",
            "equal": f"{self.equal:.0%} want one" if self.equal else "",
            "event_size": f"{self.event_size} in an event" if self.event_size is not None else "",
            "dataset": self.dataset.name if self.dataset else "",
        }

    def _coded(self, values: Float64) -> Float64:
        """Round down to a multiple of 1 / codes."""
        if self.codes is None:
            return values
        return np.minimum(np.floor(values * self.codes), self.codes - 1) / self.codes

    def _rows(self) -> Float64 | None:
        if self.dataset is None:
            return None
        rows = dataset.read(self.dataset)
        if rows.shape[1] < self.attributes:
            raise BenchError(
                f"{self.dataset}: has {rows.shape[1]} columns, fewer than the {self.attributes} attributes"
            )
        return rows

    def _start(self) -> Float64:
        return line(self.attribute_distribution.weights(self.attributes))


def _parts(offsets: Int64) -> Iterator[Int64]:
    """The ends of up to ROWS rows at a time."""
    for first in range(0, len(offsets) - 1, ROWS):
        yield offsets[first : first + ROWS + 1]
