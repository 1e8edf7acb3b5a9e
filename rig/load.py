"""The load: subscriptions, changes and events, determined by its settings.

    subscription  {"id":"s17","subscriber":"r3","pattern":{"symbol":["S421"],
                    "price":[{"numeric":[">=",1200,"<",32822]}],"volume":[{"numeric":[">=",500000,"<",531622]}]}}
    event         {"symbol":"S421","price":20123,"volume":510022,"bid":88,"ask":971553,"note":"qzd... 100 letters"}

All draws are uniform. Both ranges of a subscription are as wide as lets `matches` of all match an event on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

DOMAIN = 1_000_000  # of the numbers
LETTERS = 100  # of a note
AGAIN = 0.1  # of changes are of what was added or unsubscribed last
BLOCK = 4_096  # draws at once

ADD, REPLACE, UNSUBSCRIBE = range(3)
WARM_UP, LOAD = "warmed_up", "done"  # what the generator reports after each


class LoadError(ValueError):
    """No load has these settings. The text names the setting, the reason and what would work."""


class Tick(NamedTuple):
    at_s: float  # since the stretch began
    events: int  # that are due since the tick before
    changes: int


@dataclass(frozen=True)
class Stretch:
    """A time with these rates, or in which they rise from 0 to these."""

    name: str
    seconds: float
    events_per_second: float
    changes_per_second: float
    rises: bool = False

    def ticks(self, tick_s: float) -> Iterator[Tick]:
        """The ticks, of which the last is at the end."""
        events = changes = 0
        for number in range(1, ceil(self.seconds / tick_s) + 1):
            at_s = min(number * tick_s, self.seconds)
            of_full_rate_s = at_s * at_s / (2 * self.seconds) if self.rises else at_s
            due, due_changes = (
                int(of_full_rate_s * rate) for rate in (self.events_per_second, self.changes_per_second)
            )
            yield Tick(at_s, due - events, due_changes - changes)
            events, changes = due, due_changes


@dataclass(frozen=True)
class Load:
    subscriptions: int = 1_000_000
    events_per_second: float = 5_000.0
    changes_per_second: float = 500.0
    minutes: float = 10.0
    subscribers: int = 200
    symbols: int = 1_000
    matches: float = 1.0
    seed: int = 1
    warm_up_s: float = 0.0  # before the load, in which the rates rise from 0

    def __post_init__(self) -> None:
        for name in ("subscriptions", "subscribers", "symbols"):
            if not 1 <= getattr(self, name) < 2**31:
                raise LoadError(f"{name} cannot be {getattr(self, name)}; it must be from 1 to 2^31 - 1")
        for name in ("events_per_second", "minutes", "matches"):
            if not getattr(self, name) > 0:
                raise LoadError(f"{name} cannot be {getattr(self, name):g}; it must be more than 0")
        for name in ("changes_per_second", "warm_up_s"):
            if not getattr(self, name) >= 0:
                raise LoadError(f"{name} cannot be {getattr(self, name):g}; it must be at least 0")
        if self.matches * self.symbols > self.subscriptions:
            raise LoadError(
                f"{self.subscriptions:,} subscriptions to {self.symbols:,} symbols cannot make {self.matches:g} "
                f"matches of an event; at most {self.subscriptions / self.symbols:g}, or fewer symbols, would work"
            )

    @property
    def seconds(self) -> float:
        return 60 * self.minutes

    @property
    def width(self) -> int:
        """The width of a range."""
        return max(1, round(DOMAIN * sqrt(self.matches * self.symbols / self.subscriptions)))

    @property
    def ids(self) -> int:
        """The number of different ids."""
        return self.subscriptions + max(100, self.subscriptions // 10)

    def stretches(self) -> Iterator[Stretch]:
        """The warm-up, if there is one, and the load."""
        rates = self.events_per_second, self.changes_per_second
        if self.warm_up_s:
            yield Stretch(WARM_UP, self.warm_up_s, *rates, rises=True)
        yield Stretch(LOAD, self.seconds, *rates)

    def first(self) -> Iterator[tuple[bytes, bytes]]:
        """(id, document) of each subscription that exists before the job starts."""
        documents = self._documents(np.random.default_rng([self.seed, 0]))
        return (_written(number, next(documents)) for number in range(self.subscriptions))

    def changes(self) -> Iterator[tuple[bytes, bytes | None]]:
        """An endless sequence of additions, replacements and deletions in equal parts, with random ids.

        `ids` holds the ids in force before `alive`, and after it others, some of them unsubscribed.
        """
        rng = np.random.default_rng([self.seed, 1])
        documents = self._documents(rng)
        ids = np.arange(self.ids)
        alive = self.subscriptions
        while True:
            kinds, again = rng.integers(3, size=BLOCK).tolist(), (rng.random(BLOCK) < AGAIN).tolist()
            for kind, last, share in zip(kinds, again, rng.random(BLOCK).tolist(), strict=True):
                if (kind == ADD or not alive) and alive < len(ids):
                    chosen = alive if last else alive + int(share * (len(ids) - alive))
                    ids[alive], ids[chosen] = ids[chosen], ids[alive]
                    alive += 1
                    yield _written(int(ids[alive - 1]), next(documents))
                    continue
                chosen = alive - 1 if last else int(share * alive)
                if kind == UNSUBSCRIBE:
                    alive -= 1
                    ids[alive], ids[chosen] = ids[chosen], ids[alive]
                    yield b"s%d" % ids[alive], None
                else:
                    yield _written(int(ids[chosen]), next(documents))

    def events(self) -> Iterator[bytes]:
        """An endless sequence of events."""
        for _, _, values in self.event_blocks():
            yield from values

    def event_blocks(self) -> Iterator[tuple[Int64, Int64, Iterator[bytes]]]:
        """Yield the events by blocks: symbols [N], numbers [N, 4] (price, volume, bid, ask), and the events as
        bytes."""
        rng = np.random.default_rng([self.seed, 2])
        letters = rng.integers(ord("a"), ord("z"), size=BLOCK + LETTERS, dtype=np.uint8, endpoint=True).tobytes()
        while True:
            symbols, numbers = rng.integers(self.symbols, size=BLOCK), rng.integers(DOMAIN, size=(BLOCK, 4))
            yield symbols, numbers, _events(symbols, numbers, rng.integers(BLOCK, size=BLOCK), letters)

    def _documents(self, rng: np.random.Generator) -> Iterator[bytes]:
        """An endless sequence of documents without ids."""
        width = self.width
        while True:
            symbols, subscribers = (rng.integers(n, size=BLOCK) for n in (self.symbols, self.subscribers))
            lows = rng.integers(DOMAIN - width, size=(BLOCK, 2), endpoint=True)
            for symbol, subscriber, (price, volume) in zip(
                *(a.tolist() for a in (symbols, subscribers, lows)), strict=True
            ):
                yield (
                    b'"subscriber":"r%d","pattern":{"symbol":["S%d"],"price":[{"numeric":[">=",%d,"<",%d]}],'
                    b'"volume":[{"numeric":[">=",%d,"<",%d]}]}}'
                    % (subscriber, symbol, price, price + width, volume, volume + width)
                )


def _events(symbols: Int64, numbers: Int64, begins: Int64, letters: bytes) -> Iterator[bytes]:
    for symbol, (price, volume, bid, ask), at in zip(*(a.tolist() for a in (symbols, numbers, begins)), strict=True):
        note = letters[at : at + LETTERS]
        yield (
            b'{"symbol":"S%d","price":%d,"volume":%d,"bid":%d,"ask":%d,"note":"%b"}'
            % (symbol, price, volume, bid, ask, note)
        )


def _written(number: int, document: bytes) -> tuple[bytes, bytes]:
    id = b"s%d" % number
    return id, b'{"id":"%b",%b' % (id, document)
