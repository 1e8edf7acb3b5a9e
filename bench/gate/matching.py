"""Points of the matching library, in this process; every answer is compared with that of `scan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

from bench.gate.figure import PER_EVENT, Figure, PointFailed, Tell
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.workloads.documents import Documents
from bench.workloads.event_bus import EventBus
from bench.workloads.prepared import Prepared
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, Index, Matcher
from matchers.contract.matcher import AdaptiveMatcher

SETTLING_S = 5.0
CHECKING_S = 2.0  # in which `scan` answers; for the other events algorithms are compared with each other


@dataclass(frozen=True)
class Batches:
    """Match batches of all events of a workload."""

    workload: Workload
    rounds: int
    algorithms: tuple[str, ...] = ("auto", "tiles", "hem")

    def figures(self, tell: Tell) -> list[Figure]:
        effort = Effort(0.0, self.rounds, self.workload.events, SETTLING_S, CHECKING_S)
        measured = measure(self.workload, [MeasuredAlgorithm(name) for name in self.algorithms], effort)
        for measurement in measured:
            _check(measurement.checked, measurement.candidate.algorithm)
        return [Figure(m.candidate.algorithm, PER_EVENT, m.cpu_us_per_event) for m in measured]


@dataclass(frozen=True)
class Alone:
    """Match one event after the other, the way `Index.match` takes for few events."""

    workload: Workload
    rounds: int
    algorithms: tuple[str, ...] = ("auto", "tiles")

    def figures(self, tell: Tell) -> list[Figure]:
        small, prepared = self.workload.small().prepared(), self.workload.prepared()
        events = prepared.encoded(0, len(prepared))
        single = [events.part(at, at + 1) for at in range(len(events))]
        wanted = ALGORITHMS["scan"](prepared.table).match(events)
        found = []
        for name in self.algorithms:
            ALGORITHMS[name](small.table).alone()(single[0])  # compiles
            matcher = ALGORITHMS[name](prepared.table)
            _settle(matcher, prepared)
            match = matcher.alone()
            right = all(sorted(match(e).tolist()) == wanted.of(at).tolist() for at, e in enumerate(single))
            _check(right, name)

            def each(match: Callable[[Any], object] = match) -> None:
                for event in single:
                    match(event)

            found.append(Figure(name, PER_EVENT, 1e6 * _least_s(each, self.rounds) / len(single)))
        return found


@dataclass(frozen=True)
class Rules:
    """Match one JSON event after the other with rules, through `Index`."""

    scenario: EventBus
    rounds: int

    def figures(self, tell: Tell) -> list[Figure]:
        rules = _by_id(self.scenario)
        index, reference = Index.build(rules), Index.build(rules, algorithm="scan")
        events = _written(self.scenario.messages())
        _check([index.match([event])[0] for event in events] == reference.match(events), "Index.match")

        def each() -> None:
            for event in events:
                index.match([event])

        return [Figure("Index.match", PER_EVENT, 1e6 * _least_s(each, self.rounds) / len(events))]


@dataclass(frozen=True)
class Building:
    """Build indexes: of a table in memory, and from patterns through `Index.build`."""

    workload: Workload
    rules: EventBus
    rounds: int
    algorithms: tuple[str, ...] = ("auto", "tiles")

    def figures(self, tell: Tell) -> list[Figure]:
        small, table = self.workload.small().prepared().table, self.workload.prepared().table
        rules, events = _by_id(self.rules), _written(self.rules.messages())
        Index.build(_by_id(self.rules.small())).match(events)  # compiles
        found = []
        for name in self.algorithms:
            build = ALGORITHMS[name]
            build(small)  # compiles
            found.append(Figure(name, "CPU s", _least_s(partial(build, table), self.rounds)))
        indexes: list[Index] = []
        found.append(Figure("Index.build", "CPU s", _least_s(lambda: indexes.append(Index.build(rules)), self.rounds)))
        expected = Index.build(rules, algorithm="scan").match(events)
        _check(indexes[-1].match(events) == expected, "Index.build")
        return found


def _least_s(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the fastest of several rounds."""
    least = float("inf")
    for _ in range(rounds):
        began = process_time()
        work()
        least = min(least, process_time() - began)
    return least


def _settle(matcher: Matcher, prepared: Prepared) -> None:
    began = process_time()
    while isinstance(matcher, AdaptiveMatcher) and not matcher.settled and process_time() - began < SETTLING_S:
        matcher.match(prepared.training())


def _by_id(scenario: EventBus) -> Mapping[str, Any]:
    patterns = scenario.patterns()
    return {f"rule {number}": patterns.document(number) for number in range(len(patterns))}


def _written(documents: Documents) -> list[bytes]:
    spans = zip(documents.begins.tolist(), documents.ends.tolist(), strict=True)
    return [documents.text[begin:end].tobytes() for begin, end in spans]


def _check(right: bool, name: str) -> None:
    if not right:
        raise PointFailed(f"the answers of {name} are not those of scan", again=False)
