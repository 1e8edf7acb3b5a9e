"""The figures of one algorithm on one workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.matching.answers import Answer
from bench.matching.candidates import MeasuredAlgorithm
from matchers.contract.tables import Float64


@dataclass(frozen=True)
class Adaptation:
    """The cost of learning from events, which no other figure includes: sampling, calibration, indexes built late."""

    events: int  # matched while it learnt
    wall_s: float
    cpu_s: float
    settled: bool  # False: it learns in the timed rounds too, because it was given too little time before

    @property
    def us_per_event(self) -> float:
        return self.wall_s / max(self.events, 1) * 1e6

    @property
    def cpu_us_per_event(self) -> float:
        return self.cpu_s / max(self.events, 1) * 1e6

    def as_data(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "wall_s": round(self.wall_s, 6),
            "cpu_s": round(self.cpu_s, 6),
            "settled": self.settled,
        }


@dataclass(frozen=True, eq=False)
class Measurement:
    """Times are of an event, wall times in the least of the rounds unless a name says otherwise."""

    candidate: MeasuredAlgorithm
    us_per_event: float
    us_per_event_median: float
    cpu_us_per_event: float  # of all threads, in the least of the rounds
    cpu_us_per_event_median: float
    build_s: float
    compile_s: float | None  # from the patterns' bytes to the table, where there are patterns
    memory_bytes: int
    matches: int
    events_measured: int
    batch: int
    rounds: int
    answer: Answer
    checked_by: str  # whose answers they were compared with
    adaptation: Adaptation | None  # None: it learns nothing from events
    us: Float64  # of each batch
    matched: Float64  # likewise, matches
    us_of_step: Mapping[str, float]
    profile: Mapping[str, float] | None  # counts per event; None where the matcher does not tell or was not asked
    groups: float | None = None  # of an attribute in the index of HEM, which has fewer where there are few predicates

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
            "checked_by": self.checked_by,
            "us_per_event_median": round(self.us_per_event_median, 4),
            "cpu_us_per_event": round(self.cpu_us_per_event, 4),
            "cpu_us_per_event_median": round(self.cpu_us_per_event_median, 4),
            "rounds": self.rounds,
            "options": dict(self.candidate.options),
            **rate,
            **({} if self.adaptation is None else {"adaptation": self.adaptation.as_data()}),
            **({} if self.compile_s is None else {"compile_s": round(self.compile_s, 6)}),
            **({"us_of_step": steps} if len(steps) > 1 else {}),
            **({} if self.profile is None else {"profile": dict(self.profile)}),
        }
