"""The protocol by which `bench matchers` and every sweep measure algorithms on one workload.

    compile -> build all -> settle each -> round 0, not counted -> round 1: A, B, C -> round 2: A, B, C -> ...

1. **Steady state.** Kernels are compiled on a small workload, before any clock runs. An algorithm that learns from
   events first matches others of the same kind, until it has settled. What that takes is its `Adaptation`, a row of its
   own. If it learns in a round all the same, the time of that batch is added to the adaptation, and the batch repeated.
2. **Equal batches.** A call has as many events as were asked for, the same for all algorithms.
3. **Interleaved rounds.** Round 0 warms the caches and finds out how many events an algorithm has the time for; the
   others repeat just these. A neighbour on the machine who disturbs a round disturbs all algorithms. Kept are the least
   and the median of the rounds, of wall time and of the processor time of all threads.
4. **Every answer is checked**, outside the clock: each event in each round. The answers to compare with are those of
   `scan`. Where these would take too long they are those of the fastest exact algorithm, if it agrees with `scan` on a
   sample of the events; `Measurement.checked_by` tells which.
5. **Bounded.** An algorithm that takes longer than `Effort.limit_s`, or would with its rounds, is left out. The clock
   is read after the build and after each call, so the longest of these may go beyond. `scan` is never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter, process_time

import numpy as np

from bench.matching.answers import Answer, compare, part
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measurement import Adaptation, Measurement
from bench.matching.profiling import Profiled
from bench.matching.undecided import undecided
from bench.workloads.prepared import Prepared, Scenario
from matchers import MatchBatch, Matcher
from matchers.algorithms.hem import Hem
from matchers.contract.matcher import AdaptiveMatcher

BASELINE = MeasuredAlgorithm("scan")
EVENTS_AT_ONCE = 16  # for an algorithm that is asked but not measured: with ten million subscriptions it takes seconds
LEARNING_BATCH = 256  # events in a call before an algorithm has settled


@dataclass(frozen=True)
class Effort:
    """The times and the batch of a measurement. In each round an algorithm matches one batch at least."""

    seconds: float = 10.0  # for each algorithm, of all counted rounds together
    rounds: int = 3
    batch: int = 100  # events that a matcher is given at once
    settling_s: float = 60.0  # most processor time for an algorithm to settle
    checking_s: float = 60.0  # most time for `scan` to answer what was timed
    limit_s: float = inf  # most wall time for an algorithm to be built, to settle and to match in all rounds


def measure(
    scenario: Scenario,
    candidates: Sequence[MeasuredAlgorithm],
    effort: Effort,
    tell: Callable[[str], None] = lambda _: None,
    profiled: bool = False,
    late: Callable[[MeasuredAlgorithm], None] = lambda _: None,
) -> list[Measurement]:
    """Measure the candidates in their order, without those whose index the memory does not hold beside the others.

    `tell` is called with progress for the user, `late` with each candidate that is left out because of `limit_s`.
    Raises BenchError, and MemoryError where not even `scan` fits.
    """

    def in_time(runs: list[_Run]) -> list[_Run]:
        for run in runs:
            if run.late:
                late(run.candidate)
        return [run for run in runs if not run.late]

    tell("making the workload")
    small, workload = scenario.small().prepared(), scenario.prepared()  # in this order: the first compiles
    runs = []
    for candidate in candidates if BASELINE in candidates else [*candidates, BASELINE]:
        tell(f"building {candidate.algorithm}")
        try:
            _answer(small, candidate.build(small.table), 0, len(small))  # compiles
            with undecided():
                begin = perf_counter()
                matcher = candidate.build(workload.table)
                build_s = perf_counter() - begin
        except MemoryError:
            if candidate == BASELINE:
                raise
            continue
        own = effort if candidate in candidates else replace(effort, batch=min(EVENTS_AT_ONCE, effort.batch))
        runs.append(_Run(candidate, matcher, build_s, workload, own))
    runs = in_time(runs)
    for run in runs:
        tell(f"settling {run.candidate.algorithm}")
        run.settle(effort.settling_s)
    runs = in_time(runs)
    for run in runs:
        tell(f"round 0: {run.candidate.algorithm}")
        run.try_out()
    runs = in_time(runs)
    tell("checking")
    reference = _Reference.of(runs, effort.checking_s)
    counted = [run for run in runs if run.candidate in candidates]
    for number in range(1, effort.rounds + 1):
        for run in counted:
            tell(f"round {number}: {run.candidate.algorithm}")
            run.round(reference)
    return [run.result(profiled, reference) for run in counted]


@dataclass(frozen=True)
class _Times:
    steps_s: list[float]  # wall time of each step
    cpu_s: float


def _answer(workload: Prepared, matcher: Matcher, begin: int, end: int) -> tuple[MatchBatch, _Times]:
    """The answer for some events."""
    batch, steps = workload.part(begin, end), list(workload.steps(matcher).values())
    steps_s = []
    cpu_s = process_time()
    for step in steps:
        started = perf_counter()
        batch = step(batch)
        steps_s.append(perf_counter() - started)
    return batch, _Times(steps_s, process_time() - cpu_s)


class _Run:
    """The measurement of one algorithm."""

    def __init__(
        self, candidate: MeasuredAlgorithm, matcher: Matcher, build_s: float, workload: Prepared, effort: Effort
    ) -> None:
        self.candidate, self.matcher, self.build_s, self.workload = candidate, matcher, build_s, workload
        self.adaptive = matcher if isinstance(matcher, AdaptiveMatcher) else None
        self.effort = effort
        self.budget_s = effort.seconds / effort.rounds
        self.batch = min(effort.batch, len(workload))
        self.end = 0  # of the events that are measured
        self.us = 0.0  # of an event in round 0
        self.round_s = 0.0  # round 0
        self.learning = _Learning()
        self.settled = True
        self.steps_s: list[list[list[float]]] = []  # of each step of each batch of each round
        self.cpu_s: list[list[float]] = []  # of each batch of each round
        self.matched: list[int] = []  # in each batch of the last round
        self.answer = Answer()

    @property
    def late(self) -> bool:
        """Whether it takes longer than it may, as far as is known."""
        seconds = self.build_s + self.learning.wall_s + (1 + self.effort.rounds) * self.round_s
        return self.candidate != BASELINE and seconds > self.effort.limit_s

    def settle(self, seconds: float) -> None:
        """Match events that are not measured until the algorithm has settled, or used `seconds` of a processor."""
        if self.adaptive is None or self.adaptive.settled:
            return
        events = self.workload.training()
        at = 0
        while not self.adaptive.settled and self.learning.cpu_s < seconds and not self.late:
            batch = events.part(at, at + LEARNING_BATCH)
            cpu_s, wall_s = process_time(), perf_counter()
            self.matcher.match(batch)
            self.learning.add(len(batch), perf_counter() - wall_s, process_time() - cpu_s)
            at = (at + len(batch)) % len(events)
        self.settled = self.adaptive.settled

    def try_out(self) -> None:
        """Round 0: match batch after batch as long as there is time for, and at least one."""
        while self.end < len(self.workload) and (not self.end or self.round_s < self.budget_s):
            end = min(self.end + self.batch, len(self.workload))
            self.round_s += sum(self._match(self.end, end)[1].steps_s)
            self.end = end
        self.us = self.round_s / self.end * 1e6

    def round(self, reference: _Reference) -> None:
        """Match all batches, and compare the answers."""
        self.steps_s.append([])
        self.cpu_s.append([])
        self.matched.clear()
        for begin, end in self.batches():
            matches, times = self._match(begin, end)
            self.steps_s[-1].append(times.steps_s)
            self.cpu_s[-1].append(times.cpu_s)
            self.matched.append(len(matches.subscription))
            self.answer += compare(matches, part(reference.matches, begin, end))

    def answers(self, begin: int, end: int) -> MatchBatch:
        """The answers for some events, in the batches that are measured."""
        return MatchBatch.joined([self._match(at, to)[0] for at, to in _batches(begin, end, self.batch)])

    def batches(self) -> Iterator[tuple[int, int]]:
        return _batches(0, self.end, self.batch)

    def _match(self, begin: int, end: int) -> tuple[MatchBatch, _Times]:
        """Match a batch; again, if the algorithm has learnt from it."""
        while True:
            learnt = self.adaptive.learnt if self.adaptive else 0
            matches, times = _answer(self.workload, self.matcher, begin, end)
            if not self.adaptive or not self.settled or self.adaptive.learnt == learnt:
                return matches, times
            self.learning.add(end - begin, sum(times.steps_s), times.cpu_s)

    def result(self, profiled: bool, reference: _Reference) -> Measurement:
        spent = np.array(self.steps_s) * 1e6  # [rounds, batches, steps]
        rounds = spent.sum(axis=(1, 2)) / self.end
        cpu = np.array(self.cpu_s).sum(axis=1) * 1e6 / self.end
        sizes = np.array([end - begin for begin, end in self.batches()])
        of_step = (spent[rounds.argmin()].sum(axis=0) / self.end).tolist()
        profile = None
        if profiled and isinstance(self.matcher, Profiled):
            profile = self.matcher.profile(self.workload.encoded(0, self.batch))
        return Measurement(
            candidate=self.candidate,
            us_per_event=float(rounds.min()),
            us_per_event_median=float(np.median(rounds)),
            cpu_us_per_event=float(cpu.min()),
            cpu_us_per_event_median=float(np.median(cpu)),
            build_s=self.build_s,
            compile_s=self.workload.compile_s,
            memory_bytes=self.matcher.memory_bytes(),
            matches=sum(self.matched),
            events_measured=self.end,
            batch=self.batch,
            rounds=len(rounds),
            answer=self.answer,
            checked_by=reference.checks(self),
            adaptation=self.learning.result(self.settled) if self.learning.events else None,
            us=spent.sum(axis=2).min(axis=0) / sizes,
            matched=np.array(self.matched) / sizes,
            us_of_step=dict(zip(self.workload.steps(self.matcher), of_step, strict=True)),
            profile=profile,
            groups=self.matcher.effective_g if isinstance(self.matcher, Hem) else None,
        )


@dataclass
class _Learning:
    """Sums up an `Adaptation`."""

    events: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, events: int, wall_s: float, cpu_s: float) -> None:
        self.events += events
        self.wall_s += wall_s
        self.cpu_s += cpu_s

    def result(self, settled: bool) -> Adaptation:
        return Adaptation(self.events, self.wall_s, self.cpu_s, settled)


@dataclass(frozen=True, eq=False)
class _Reference:
    """The answers that others are compared with: of `scan` for the first events, of `deputy` for those after."""

    matches: MatchBatch
    by_scan: int
    deputy: _Run | None

    @classmethod
    def of(cls, runs: Sequence[_Run], seconds: float) -> _Reference:
        """The answers for all events that any of the runs measures."""
        scan = next(run for run in runs if run.candidate == BASELINE)
        end = max(run.end for run in runs)
        sample = max(scan.end, min(end, int(seconds * 1e6 / max(scan.us, 1e-9))))
        matches = scan.answers(0, sample)
        if sample == end:
            return cls(matches, end, None)
        for run in sorted((run for run in runs if not run.candidate.approximate), key=lambda run: run.us):
            if run is not scan and compare(run.answers(0, sample), matches).same:
                return cls(MatchBatch.joined([matches, run.answers(sample, end)]), sample, run)
        return cls(MatchBatch.joined([matches, scan.answers(sample, end)]), end, None)

    def checks(self, run: _Run) -> str:
        """The algorithm whose answers a run was compared with."""
        if run.end <= self.by_scan or self.deputy is None:
            return BASELINE.algorithm
        if run is self.deputy:  # beyond the sample the others are compared with it
            return f"{BASELINE.algorithm} on {self.by_scan:,} events"
        return f"{BASELINE.algorithm} on {self.by_scan:,} events, {self.deputy.candidate.algorithm} on the others"


def _batches(begin: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    for at in range(begin, end, size):
        yield at, min(at + size, end)
