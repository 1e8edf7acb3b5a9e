"""Measure algorithms on one workload, turn by turn, and check every answer against `scan`.

    build all -> one event each, not counted -> round 1: A, B, C -> round 2: A, B, C -> ...

The first round finds out how many events fit in an algorithm's time; the others repeat just these. A neighbour on the
machine who disturbs a round disturbs all algorithms, and the least of the rounds is the one least disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bench.answers import Answer, compare, part
from bench.candidates import Candidate
from bench.workloads import Workload
from matchers import EventBatch, MatchBatch, Matcher
from matchers.tables import Float64

BASELINE = Candidate("scan")


@dataclass(frozen=True)
class Effort:
    """How long to measure. No algorithm stops before it has matched a batch in each round."""

    seconds: float = 10.0  # for each algorithm, of all rounds together
    rounds: int = 3
    batch: int = 100  # events at most that a matcher is given at once; fewer where so many would take too long


@dataclass(frozen=True, eq=False)
class Measurement:
    """Of one algorithm."""

    candidate: Candidate
    us_per_event: float  # least of the rounds
    us_per_event_median: float
    build_s: float
    memory_bytes: int
    matches: int
    events_measured: int
    batch: int
    rounds: int
    answer: Answer
    us: Float64  # per event of each batch, in the least of the rounds
    matched: Float64  # likewise, matches

    @property
    def checked(self) -> bool:
        return self.answer.right(self.candidate.adaptive)

    def as_data(self) -> dict[str, Any]:
        rate = {"false_positive_rate": self.answer.false_positive_rate} if self.candidate.adaptive else {}
        return {
            "algorithm": self.candidate.algorithm,
            "us_per_event": round(self.us_per_event, 4),
            "build_s": round(self.build_s, 6),
            "memory_bytes": self.memory_bytes,
            "matches": self.matches,
            "events_measured": self.events_measured,
            "batch": self.batch,
            "checked": self.checked,
            "us_per_event_median": round(self.us_per_event_median, 4),
            "rounds": self.rounds,
            "options": dict(self.candidate.options),
            **rate,
        }


def measure(
    workload: Workload, candidates: Sequence[Candidate], effort: Effort, tell: Callable[[str], None] = lambda _: None
) -> list[Measurement]:
    """In the order of the candidates. `tell` gets what is being done, for people. Raises BenchError."""
    tell("making the workload")
    table, events = workload.table(), workload.batch()
    small = replace(workload, subscriptions=min(workload.subscriptions, 64), events=min(workload.events, 2))
    small_table, small_events = small.table(), _part(small.batch(), 0, small.events)
    runs = []
    for candidate in candidates if BASELINE in candidates else [*candidates, BASELINE]:
        tell(f"building {candidate.algorithm}")
        candidate.build(small_table).match(small_events)  # compiles
        begin = perf_counter()
        matcher = candidate.build(table)
        runs.append(_Run(candidate, matcher, perf_counter() - begin, events, effort))

    baseline = next(run for run in runs if run.candidate == BASELINE)
    tell("round 1: scan")
    reference = MatchBatch.joined([matches for _, matches in baseline.round()])
    for number in range(1, effort.rounds + 1):
        for run in runs:
            if run is not baseline or (number > 1 and BASELINE in candidates):
                tell(f"round {number}: {run.candidate.algorithm}")
                run.check(reference)
    return [run.result() for run in runs[: len(candidates)]]


class _Run:
    """One algorithm on its way through the rounds."""

    def __init__(
        self, candidate: Candidate, matcher: Matcher, build_s: float, events: EventBatch, effort: Effort
    ) -> None:
        self.candidate, self.matcher, self.build_s, self.events = candidate, matcher, build_s, events
        self.budget_s = effort.seconds / effort.rounds
        begin = perf_counter()
        matcher.match(_part(events, 0, 1))
        fit = int(self.budget_s / max(perf_counter() - begin, 1e-9))
        self.batch = max(1, min(effort.batch, len(events), fit))
        self.end = len(events)  # of the events that it has the time for
        self.seconds: list[list[float]] = []  # of each batch of each round
        self.matched: list[int] = []  # in each batch of the first round
        self.answer = Answer()

    def round(self) -> Iterator[tuple[int, MatchBatch]]:
        """Each batch's first event and matches."""
        seconds: list[float] = []
        begin = 0
        first = not self.seconds
        while begin < self.end:
            events = _part(self.events, begin, min(begin + self.batch, self.end))
            started = perf_counter()
            matches = self.matcher.match(events)
            seconds.append(perf_counter() - started)
            if first:
                self.matched.append(len(matches.subscription))
            yield begin, matches
            begin += len(events)
            if first and sum(seconds) >= self.budget_s:
                self.end = begin
        self.seconds.append(seconds)

    def check(self, reference: MatchBatch) -> None:
        """A round whose answers are compared."""
        for begin, matches in self.round():
            if begin < len(reference):
                end = min(begin + len(matches), len(reference))
                self.answer += compare(matches, part(reference, begin, end))

    def result(self) -> Measurement:
        rounds = [sum(seconds) / self.end * 1e6 for seconds in self.seconds]
        sizes = np.diff([*range(0, self.end, self.batch), self.end])
        return Measurement(
            candidate=self.candidate,
            us_per_event=min(rounds),
            us_per_event_median=median(rounds),
            build_s=self.build_s,
            memory_bytes=self.matcher.memory_bytes(),
            matches=sum(self.matched),
            events_measured=self.end,
            batch=self.batch,
            rounds=len(rounds),
            answer=self.answer,
            us=np.min(self.seconds, axis=0) / sizes * 1e6,
            matched=np.array(self.matched) / sizes,
        )


def _part(events: EventBatch, begin: int, end: int) -> EventBatch:
    offsets = events.offsets[begin : end + 1]
    within = slice(offsets[0], offsets[-1])
    return EventBatch(offsets - offsets[0], events.column[within], events.value[within], events.n_columns)
