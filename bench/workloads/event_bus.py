"""The rules and events of an event bus as JSON, determined by their settings.

    rule    {"source":["source-17"],"detail-type":["t-3","t-77"],
             "detail":{"n4":[{"numeric":[">=",12345,"<",112345]}],"name":[{"prefix":"ab"}]}}
    event   {"source":"source-17","detail-type":"t-77","detail":{"name":"abcdefghijklmn","n0":708212, ... "n9":4711}}

All draws are uniform. A rule wants one of 50 sources, one to three of 200 types, a tenth of the values of one of ten
numbers, and one in three rules a prefix of one to three letters besides. An event holds all 13 fields: its source, its
type, 14 letters, and ten whole numbers below 1,000,000; 190 to 200 bytes. A rule in 75,000 matches an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from bench.errors import BenchError
from bench.workloads.compiling import compiled
from bench.workloads.documents import Documents
from bench.workloads.prepared import SMALL, TRAINING
from bench.workloads.traffic import Traffic

SOURCES, TYPES, NUMBERS, LETTERS = 50, 200, 10, 14
DOMAIN, WIDTH = 1_000_000, 100_000


@dataclass(frozen=True)
class EventBus:
    subscriptions: int = 1_000_000
    events: int = 8_192
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in (("subscriptions", self.subscriptions), ("events", self.events)):
            if not 1 <= value < 2**31:
                raise BenchError(f"{name} cannot be {value}; it must be from 1 to 2^31 - 1")

    def small(self) -> EventBus:
        return replace(self, subscriptions=min(self.subscriptions, SMALL), events=min(self.events, 2))

    def prepared(self) -> Traffic:
        patterns = self.patterns()
        begin = perf_counter()
        segment = compiled(patterns)
        compile_s = perf_counter() - begin
        others = replace(self, events=TRAINING, seed=self.seed + 1).messages
        return Traffic(segment, self.messages(), compile_s, others)

    def patterns(self) -> Documents:
        return Documents.of(self._patterns())

    def messages(self) -> Documents:
        """The events."""
        return Documents.of(self._messages())

    def _patterns(self) -> Iterator[str]:
        rng, n = np.random.default_rng([self.seed, 0]), self.subscriptions
        source, number = rng.integers(SOURCES, size=n), rng.integers(NUMBERS, size=n)
        first, step = rng.integers(TYPES, size=n), rng.integers(1, TYPES // 2, size=n)
        types = (first[:, None] + step[:, None] * np.arange(3)) % TYPES  # [n, 3], distinct
        n_types = rng.integers(1, 3, size=n, endpoint=True)
        low = rng.integers(DOMAIN - WIDTH, size=n, endpoint=True)
        letters = np.where(rng.random(n) < 1 / 3, rng.integers(1, 3, size=n, endpoint=True), 0)
        drawn = zip(
            *(a.tolist() for a in (source, number, types, n_types, low, letters)), _texts(rng, n, 3), strict=True
        )
        for s, k, t, some, begin, length, text in drawn:
            wanted = ",".join(f'"t-{i}"' for i in t[:some])
            name = f',"name":[{{"prefix":"{text[:length]}"}}]' if length else ""
            detail = f'"n{k}":[{{"numeric":[">=",{begin},"<",{begin + WIDTH}]}}]{name}'
            yield f'{{"source":["source-{s}"],"detail-type":[{wanted}],"detail":{{{detail}}}}}'

    def _messages(self) -> Iterator[str]:
        rng, n = np.random.default_rng([self.seed, 1]), self.events
        source, kind = rng.integers(SOURCES, size=n), rng.integers(TYPES, size=n)
        numbers = rng.integers(DOMAIN, size=(n, NUMBERS))
        drawn = zip(*(a.tolist() for a in (source, kind, numbers)), _texts(rng, n, LETTERS), strict=True)
        for s, t, values, text in drawn:
            detail = ",".join(f'"n{k}":{value}' for k, value in enumerate(values))
            yield f'{{"source":"source-{s}","detail-type":"t-{t}","detail":{{"name":"{text}",{detail}}}}}'


def _texts(rng: np.random.Generator, n: int, length: int) -> list[str]:
    """[n] texts of `length` letters from a to z."""
    letters = rng.integers(ord("a"), ord("z"), size=(n, length), dtype=np.uint8, endpoint=True)
    return letters.view(f"S{length}").ravel().astype(str).tolist()
