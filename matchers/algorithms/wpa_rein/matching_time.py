"""The time model of WPA-REIN, section 1.6: predicted matching time, and the best number of threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchers.contract.tables import Float64


@dataclass(frozen=True)
class UnitTimes:
    """Seconds, named as in Lemma 2; handover_s is ours."""

    beta_s: float  # compare a predicate in a bucket
    gamma_s: float  # mark a predicate in passing
    delta_s: float  # switch buckets
    epsilon_s: float  # check a bit
    handover_s: float = 0.0  # give a task to a thread and wait for it


def bucket_sizes(frequency: Float64, *, levels: int, buckets: int) -> Float64:
    """z_i = 2 L f_i / (b (L + 1)): predicates in a bucket of attribute i that is not empty (Lemma 1)."""
    return 2.0 * levels * frequency / (buckets * (levels + 1))


def marking_s(times: UnitTimes, frequency: Float64, *, levels: int, buckets: int) -> float:
    """sum of z_i (2 beta + b gamma) + m b delta over the m attributes that have predicates."""
    z = bucket_sizes(frequency, levels=levels, buckets=buckets)
    switching = float(np.count_nonzero(frequency)) * buckets * times.delta_s
    return float(z.sum()) * (2.0 * times.beta_s + buckets * times.gamma_s) + switching


def matching_s(times: UnitTimes, frequency: Float64, n: int, *, levels: int, buckets: int) -> float:
    """T = sum of z_i (2 beta + b gamma) + m b delta + n epsilon (Equation 1): one event, f_i predicates looked at.

    The lemma has all b buckets of both lists traversed: a bound, of which an event within the domain takes a part.
    """
    return marking_s(times, frequency, levels=levels, buckets=buckets) + n * times.epsilon_s


def best_threads(marking: float, checking: float, handover_s: float, most: int) -> int:
    """The fewest threads for which marking / t + t * (checking + handover_s) is least.

    Marking is divided. Each thread has a bit set of its own, whose n bits are gone over when they are united, and is
    handed its part; alone it is handed nothing.
    """

    def taken(t: int) -> float:
        return marking / t + t * checking + (t * handover_s if t > 1 else 0.0)

    return min(range(1, max(most, 1) + 1), key=taken)
