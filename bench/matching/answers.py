"""Compare the matches of an algorithm with those of the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.errors import BenchError
from matchers.contract.tables import MatchBatch


@dataclass(frozen=True)
class Answer:
    """The comparison of two answers for the same events."""

    listed: int = 0
    missed: int = 0  # matches that are not listed
    extra: int = 0  # listed, and no match
    same: bool = True  # the same ids in the same order

    def __add__(self, other: Answer) -> Answer:
        return Answer(
            self.listed + other.listed,
            self.missed + other.missed,
            self.extra + other.extra,
            self.same and other.same,
        )

    def right(self, approximate: bool) -> bool:
        """Exact algorithms list the matches and nothing else; approximate ones miss none."""
        return not self.missed if approximate else self.same

    @property
    def false_positive_rate(self) -> float:
        return self.extra / self.listed if self.listed else 0.0


def compare(answer: MatchBatch, reference: MatchBatch) -> Answer:
    """Compare two answers for the same events. Raises BenchError if one has fewer events, or if there are none."""
    if len(answer) != len(reference) or not len(answer):
        raise BenchError(f"the algorithm answered {len(answer):,} events, and scan {len(reference):,}")
    if np.array_equal(answer.offsets, reference.offsets) and np.array_equal(
        answer.subscription, reference.subscription
    ):
        return Answer(len(answer.subscription))
    ours, theirs = _pairs(answer), _pairs(reference)
    return Answer(len(ours), len(np.setdiff1d(theirs, ours)), len(np.setdiff1d(ours, theirs)), same=False)


def part(matches: MatchBatch, begin: int, end: int) -> MatchBatch:
    offsets = matches.offsets[begin : end + 1]
    return MatchBatch(offsets - offsets[0], matches.subscription[offsets[0] : offsets[-1]])


def _pairs(matches: MatchBatch) -> np.ndarray:
    """Each match as one number: its event, then its subscription."""
    event = np.repeat(np.arange(len(matches), dtype=np.int64), np.diff(matches.offsets))
    return (event << 32) | matches.subscription
