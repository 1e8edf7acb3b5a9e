"""Measure the library as a program calls it: documents or JSON in, ids out, with the rules and events of an event bus.

Times of `match` are CPU time per event, the least of some rounds in which all ways take turns. The percentiles are of
the wall-clock times of single calls in all rounds but the first, so whatever else the machine does is in them; it is
hardly in the percentile of events, each with its least time. Each way's answers are compared with those of `scan`,
which has no index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter, perf_counter_ns, process_time
from typing import Any

import numpy as np

from bench.matching.measure import BASELINE
from bench.workloads.event_bus import EventBus
from matchers import Index
from matchers.contract.tables import Float64

FEW = 200  # updates

Call = Callable[[], object]


@dataclass(frozen=True)
class LibraryTimes:
    """The times of an index of so many rules; of an event, if nothing else is said."""

    rules: int
    algorithm: str
    build_s: float
    json_us: float  # alone
    json_p50_us: float
    json_p99_us: float
    json_p99_of_events_us: float  # each with its least time
    dict_us: float  # alone
    json_together_us: float  # all events in one call
    dict_together_us: float
    add_ms: float  # of an update with one rule, on average, if nothing is matched in between
    add_and_match_ms: float  # of an update with one rule and the first match after it
    checked: bool

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def measure(rules: int, events: int, algorithm: str, rounds: int, seed: int) -> LibraryTimes:
    """The times in so many rounds, two or more. Raises BenchError, and MatchingError for an algorithm that cannot be
    built."""
    bus = EventBus(rules + 2 * FEW, events, seed)
    written, messages = bus.patterns(), bus.messages()
    drawn = [(f"r{n}", written.document(n)) for n in range(len(written))]
    patterns, spare = dict(drawn[:rules]), drawn[rules:]
    texts = [messages.written(n) for n in range(events)]
    documents = [messages.document(n) for n in range(events)]

    Index.build(dict(drawn[:FEW]), algorithm).match(texts[:FEW])  # loads kernels, and compiles what is not compiled
    began = perf_counter()
    index = Index.build(patterns, algorithm)
    build_s = perf_counter() - began
    expected = Index.build(patterns, BASELINE.algorithm).match(texts)
    checked = all(
        found == expected
        for given in (texts, documents)
        for found in (index.match(given), [index.match([event])[0] for event in given])
    )

    ways: list[Call] = [
        lambda: _alone(index, texts),
        lambda: _alone(index, documents),
        lambda: index.match(texts),
        lambda: index.match(documents),
    ]
    us = [np.inf] * len(ways)
    calls = []
    for number in range(rounds):
        us = [min(least, _cpu_us(way) / events) for least, way in zip(us, ways, strict=True)]
        if number:
            calls.append(_calls_us(index, texts))
    p50, p99 = np.percentile(calls, (50, 99)).tolist()
    add_ms, add_and_match_ms = _updates_ms(index, spare, texts)
    return LibraryTimes(
        rules,
        algorithm,
        build_s,
        json_us=us[0],
        json_p50_us=p50,
        json_p99_us=p99,
        json_p99_of_events_us=float(np.percentile(np.min(calls, axis=0), 99)),
        dict_us=us[1],
        json_together_us=us[2],
        dict_together_us=us[3],
        add_ms=add_ms,
        add_and_match_ms=add_and_match_ms,
        checked=checked,
    )


def _alone(index: Index, events: Sequence[Any]) -> None:
    for event in events:
        index.match([event])


def _cpu_us(call: Call) -> float:
    began = process_time()
    call()
    return (process_time() - began) * 1e6


def _calls_us(index: Index, events: Sequence[bytes]) -> Float64:
    """[N] float64: the wall-clock time of each event."""
    times = np.empty(len(events) + 1, np.int64)
    times[0] = perf_counter_ns()
    for n, event in enumerate(events, 1):
        index.match([event])
        times[n] = perf_counter_ns()
    return np.diff(times) / 1e3


def _updates_ms(index: Index, spare: Sequence[tuple[str, Any]], texts: Sequence[bytes]) -> tuple[float, float]:
    """The average time of an update, and of an update with the first match after it."""

    def add(rules: Sequence[tuple[str, Any]], and_match: bool) -> None:
        nonlocal index
        for id, pattern in rules:
            index = index.update(add={id: pattern})
            if and_match:
                index.match(texts[:1])
        index.match(texts[:1])

    n = len(spare) // 2
    return _cpu_us(lambda: add(spare[:n], False)) / n / 1e3, _cpu_us(lambda: add(spare[n:], True)) / n / 1e3
