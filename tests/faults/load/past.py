"""Subscribe with a start in the past and replay, again and again, with commands that are killed and repeated."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from rig.load import DOMAIN
from tests.faults.commands import complete

Offsets = Mapping[tuple[str, int], int]  # by (topic, partition)

IDS, SUBSCRIBERS = 2_000_000, 1_500_000  # the first of each, beyond those of all others
RATE = 20_000  # events/s, so that the past of some minutes takes seconds
KILLS = (0, 1, 2)
PAUSE_S = (1.0, 6.0)
PATIENCE_S = 300.0  # without the broker, or without an answer of the job


@dataclass(frozen=True)
class Began:
    """A subscription with a start: its number, its topic, and all events of a symbol from `start` on."""

    number: int
    topic: str
    symbol: int
    start: Offsets | None  # None: the oldest
    is_delivered: bool = False
    replayed: Offsets | None = field(default=None)  # an end of a finished replay of everything is at or after these

    @property
    def id(self) -> int:
        return IDS + self.number

    @property
    def subscriber(self) -> int:
        return SUBSCRIBERS + self.number

    @property
    def replay(self) -> str:
        """The name of the replay of everything."""
        return f"again{self.number}"


class Past:
    """`with Past(...)` begins subscriptions from then on, one after the other; `finish` completes the last one.
    `settings` are flags of the commands, `topics` the flags for each topic of subscriptions, and `committed` tells how
    far the job has read."""

    def __init__(
        self,
        settings: Sequence[str],
        topics: Mapping[str, Sequence[str]],
        symbols: int,
        by_topic: bool,
        committed: Callable[[], Offsets],
        seed: int,
    ) -> None:
        self._settings, self._topics, self._symbols, self._by_topic = settings, topics, symbols, by_topic
        self._committed = committed
        self._random = Random(seed)
        self._turn = threading.Lock()  # held while a command runs
        self._last, self._stop = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._began: dict[int, Began] = {}

    def __enter__(self) -> Past:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._last.set()
        self._thread.join()

    def began(self) -> list[Began]:
        """Return all subscriptions so far, with how far they have come. Raises what ended this."""
        if self._failure is not None:
            raise self._failure
        return [*self._began.values()]

    def counts(self) -> dict[str, int]:
        """Return how many starts in the past and how many replays are done."""
        began = [*self._began.values()]
        return {
            "starts": sum(one.is_delivered for one in began),
            "replays": sum(one.replayed is not None for one in began),
        }

    def finish(self) -> None:
        self._last.set()
        self._thread.join()
        self.began()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No command runs meanwhile."""
        with self._turn:
            yield

    def _run(self) -> None:
        try:
            while not self._last.wait(self._random.uniform(*PAUSE_S)):
                with self._turn:
                    self._begin(len(self._began))
        except BaseException as error:
            self._failure = error

    def _begin(self, number: int) -> None:
        r, reached = self._random, self._committed()
        start = None if r.random() < 0.5 else {at: r.randint(0, offset) for at, offset in reached.items()}
        began = Began(number, r.choice([*self._topics]), number % self._symbols, start)
        self._began[number] = began
        everything = [{"numeric": [">=", 0, "<", DOMAIN]}]
        pattern = {"symbol": [f"S{began.symbol}"], "price": everything, "volume": everything}
        names = ["--id", f"s{began.id}", "--subscriber", f"r{began.subscriber}", "--pattern", json.dumps(pattern)]
        if not self._complete(began, "subscribe", *names, "--from", self._text(start)):
            return
        self._began[number] = replace(began, is_delivered=True)
        reached = self._committed()
        if self._complete(began, "replay", f"s{began.id}", "--from", "1d", "--name", began.replay):
            self._began[number] = replace(began, is_delivered=True, replayed=reached)

    def _complete(self, began: Began, *command: str) -> bool:
        flags = ["--rate", f"{RATE}", *self._topics[began.topic], *self._settings]
        kills = self._random.choice(KILLS)
        return complete([*command, *flags], self._random, kills, self._stop, PATIENCE_S)

    def _text(self, start: Offsets | None) -> str:
        if start is None:
            return "oldest"
        return ",".join(f"{f'{topic}/' if self._by_topic else ''}{p}:{o}" for (topic, p), o in start.items())
