"""Measure algorithms in turns where the memory does not hold all their indexes together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.matching.measurement import Measurement
from bench.workloads.prepared import Scenario


def measure_in_turns(
    scenario: Scenario,
    candidates: Sequence[MeasuredAlgorithm],
    effort: Effort,
    tell: Callable[[str], None] = lambda _: None,
    profiled: bool = False,
    late: Callable[[MeasuredAlgorithm], None] = lambda _: None,
    turn: int = 1,
) -> list[tuple[Measurement | None, int]]:
    """Measure in one turn all that the memory holds together, in later turns the others.

    Rounds are interleaved within a turn only. Returns for each candidate its measurement, or None if the memory does
    not hold it alone or it is `late` (`measure`), and its turn. Raises BenchError.
    """
    too_late: list[MeasuredAlgorithm] = []
    try:
        found = measure(scenario, candidates, effort, tell, profiled, too_late.append)
    except MemoryError:
        found = []
    for candidate in too_late:
        late(candidate)
    measured = [next((m for m in found if m.candidate == candidate), None) for candidate in candidates]
    asked = zip(candidates, measured, strict=True)
    missing = [candidate for candidate, m in asked if m is None and candidate not in too_late]
    if not missing or len(candidates) == 1:
        return [(m, turn) for m in measured]
    parts = [missing] if found else [[candidate] for candidate in missing]
    later = iter(
        [
            result
            for number, part in enumerate(parts, turn + 1)
            for result in measure_in_turns(scenario, part, effort, tell, profiled, late, number)
        ]
    )
    return [
        next(later) if candidate in missing else (m, turn) for candidate, m in zip(candidates, measured, strict=True)
    ]
