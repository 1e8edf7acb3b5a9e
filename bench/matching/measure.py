"""Measure algorithms on one workload, turn by turn, and check every answer against `scan`.

    build all -> one event each, not counted -> round 1: A, B, C -> round 2: A, B, C -> ...

The first round finds out how many events fit in an algorithm's time; the others repeat just these. A neighbour on the
machine who disturbs a round disturbs all algorithms, and the least of the rounds is the one least disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from bench.matching.answers import Answer, compare, part
from bench.matching.candidates import Candidate
from bench.matching.profiling import Profiled
from bench.workloads.prepared import Prepared, Scenario
from matchers import MatchBatch, Matcher
from matchers.contract.tables import Float64

BASELINE = Candidate("scan")


@dataclass(frozen=True)
class Effort:
    """The time and batch size of a measurement. No algorithm stops before it has matched a batch in each round."""

    seconds: float = 10.0  # for each algorithm, of all rounds together
    rounds: int = 3
    batch: int = 100  # events at most that a matcher is given at once; fewer where so many would take too long


@dataclass(frozen=True, eq=False)
class Measurement:
    """The figures of one algorithm."""

    candidate: Candidate
    us_per_event: float  # least of the rounds
    us_per_event_median: float
    build_s: float
    compile_s: float | None  # from the patterns' bytes to the table, where there are patterns
    memory_bytes: int
    matches: int
    events_measured: int
    batch: int
    rounds: int
    answer: Answer
    us: Float64  # per event of each batch, in the least of the rounds
    matched: Float64  # likewise, matches
    us_of_step: Mapping[str, float]  # per event, in the least of the rounds
    profile: Mapping[str, float] | None  # counts per event; None where the matcher does not tell or was not asked

    @property
    def checked(self) -> bool:
        return self.answer.right(self.candidate.approximate)

    def as_data(self) -> dict[str, Any]:
        rate = {"false_positive_rate": self.answer.false_positive_rate} if self.candidate.approximate else {}
        steps = {name: round(us, 4) for name, us in self.us_of_step.items()}
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
            **({} if self.compile_s is None else {"compile_s": round(self.compile_s, 6)}),
            **({"us_of_step": steps} if len(steps) > 1 else {}),
            **({} if self.profile is None else {"profile": dict(self.profile)}),
        }


def measure(
    scenario: Scenario,
    candidates: Sequence[Candidate],
    effort: Effort,
    tell: Callable[[str], None] = lambda _: None,
    profiled: bool = False,
) -> list[Measurement]:
    """Measure the candidates in their order. `tell` is called with progress for the user. Raises BenchError."""
    tell("making the workload")
    small, workload = scenario.small().prepared(), scenario.prepared()  # in this order: the first compiles
    runs = []
    for candidate in candidates if BASELINE in candidates else [*candidates, BASELINE]:
        tell(f"building {candidate.algorithm}")
        _answer(small, candidate.build(small.table), 0, len(small))  # compiles
        begin = perf_counter()
        matcher = candidate.build(workload.table)
        runs.append(_Run(candidate, matcher, perf_counter() - begin, workload, effort))

    baseline = next(run for run in runs if run.candidate == BASELINE)
    tell("round 1: scan")
    reference = MatchBatch.joined([matches for _, matches in baseline.round()])
    for number in range(1, effort.rounds + 1):
        for run in runs:
            if run is not baseline or (number > 1 and BASELINE in candidates):
                tell(f"round {number}: {run.candidate.algorithm}")
                run.check(reference)
    return [run.result(profiled) for run in runs[: len(candidates)]]


def _answer(workload: Prepared, matcher: Matcher, begin: int, end: int) -> tuple[MatchBatch, list[float]]:
    """The answer for some events, and the seconds of each step."""
    batch = workload.part(begin, end)
    seconds = []
    for step in workload.steps(matcher).values():
        started = perf_counter()
        batch = step(batch)
        seconds.append(perf_counter() - started)
    return batch, seconds


class _Run:
    """The measurement of one algorithm, round by round."""

    def __init__(
        self, candidate: Candidate, matcher: Matcher, build_s: float, workload: Prepared, effort: Effort
    ) -> None:
        self.candidate, self.matcher, self.build_s, self.workload = candidate, matcher, build_s, workload
        self.budget_s = effort.seconds / effort.rounds
        self.batch = self._fitting(min(effort.batch, len(workload)))
        self.end = len(workload)  # of the events that it has the time for
        self.seconds: list[list[list[float]]] = []  # of each step of each batch of each round
        self.matched: list[int] = []  # in each batch of the first round
        self.answer = Answer()

    def _fitting(self, most: int) -> int:
        """The number of events that fit in a round. The cost of a single event says little about many, so the count
        grows step by step."""
        n = 1
        while True:
            _, seconds = _answer(self.workload, self.matcher, 0, n)
            fit = int(self.budget_s / max(sum(seconds), 1e-9) * n)
            if fit >= most:
                return most
            if fit < 8 * n:
                return max(1, fit)
            n = fit // 4

    def round(self) -> Iterator[tuple[int, MatchBatch]]:
        """The first event of each batch, and its matches."""
        spent: list[list[float]] = []
        begin = 0
        first = not self.seconds
        while begin < self.end:
            matches, seconds = _answer(self.workload, self.matcher, begin, min(begin + self.batch, self.end))
            spent.append(seconds)
            if first:
                self.matched.append(len(matches.subscription))
            yield begin, matches
            begin += len(matches)
            if first and sum(map(sum, spent)) >= self.budget_s:
                self.end = begin
        self.seconds.append(spent)

    def check(self, reference: MatchBatch) -> None:
        """Run a round whose answers are compared."""
        for begin, matches in self.round():
            if begin < len(reference):
                end = min(begin + len(matches), len(reference))
                self.answer += compare(matches, part(reference, begin, end))

    def result(self, profiled: bool) -> Measurement:
        spent = np.array(self.seconds) * 1e6  # [rounds, batches, steps]
        rounds = spent.sum(axis=(1, 2)) / self.end
        sizes = np.diff([*range(0, self.end, self.batch), self.end])
        of_step = (spent[rounds.argmin()].sum(axis=0) / self.end).tolist()
        profile = None
        if profiled and isinstance(self.matcher, Profiled):
            profile = self.matcher.profile(self.workload.encoded(0, self.batch))
        return Measurement(
            candidate=self.candidate,
            us_per_event=float(rounds.min()),
            us_per_event_median=float(np.median(rounds)),
            build_s=self.build_s,
            compile_s=self.workload.compile_s,
            memory_bytes=self.matcher.memory_bytes(),
            matches=sum(self.matched),
            events_measured=self.end,
            batch=self.batch,
            rounds=len(rounds),
            answer=self.answer,
            us=spent.sum(axis=2).min(axis=0) / sizes,
            matched=np.array(self.matched) / sizes,
            us_of_step=dict(zip(self.workload.steps(self.matcher), of_step, strict=True)),
            profile=profile,
        )
