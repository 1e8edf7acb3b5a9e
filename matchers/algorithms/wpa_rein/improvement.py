"""The improvement R of matching time by skipping Y predicates: Theorem 1 and Eq. 2 of EEM's technical report.

    n subscriptions, m attributes with predicates, k predicates of a subscription on average, so k n are all predicates
    b buckets, L levels, f_i predicates on attribute i, z_i = 2 L f_i / (b (L + 1)) in a bucket of it (Lemma 1)
    beta, gamma, delta, epsilon: times of Lemma 2 (`matching_time.UnitTimes`), which each machine has to measure
    Y predicates are skipped, A_s are the attributes of which all predicates are

    z = 2 L k n / (m b (L + 1)), the average bucket size of each attribute; Y / z skipped buckets

         sum over A_s of 4 L k n beta / (m z_j (L + 1)) + b m Y (L + 1) / (2 L k n delta) + gamma Y
    R =  ------------------------------------------------------------------------------------------     (Eq. 2)
                     sum over i of z_i (2 beta + b gamma + b h) + m b delta + n epsilon

What the report leaves open:

- *h* occurs here only, without a definition. It is 0 if not given: then the denominator is T, Eq. 1.
- *delta* divides the skipped buckets, so that their term is one over a time, and R depends on the unit of time; the
  proof speaks of "the sum of these reduced costs". Ours takes the unit as an argument, and nanoseconds without.
- *The first term* is 2 b beta z / z_j: the smaller the buckets of a skipped attribute, the more it would save. By
  Lemma 2 it saves 2 beta z_j.
- *k* with a bar has no definition; *A_s and Y* come from "Algorithm 1", which is in the main paper. Ours are those of
  `precision`.
- *gamma Y* counts a skipped predicate once. Lemma 2 traverses b buckets of z_i predicates, 2 L / (L + 1) times f_i,
  because z_i is the size of buckets that are not empty.

`by_lemma_2` is the proof's sentence with the costs of Lemma 2: Y predicates less to traverse, Y / z buckets less to
switch to, 2 z_j predicates of each attribute of A_s less to compare, over T.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.wpa_rein.matching_time import UnitTimes, bucket_sizes, matching_s
from matchers.contract.tables import Float64
from matchers.errors import MatchingError

NANOSECOND = 1e-9


def equation_2(
    times: UnitTimes,
    frequency: Float64,
    skipped: NDArray[np.bool_],
    y: int,
    n: int,
    *,
    levels: int,
    buckets: int,
    h_s: float = 0.0,
    unit_s: float = NANOSECOND,
) -> float:
    """R as it stands. frequency [A]: f_i; skipped [A]: whether in A_s; `unit_s`: the unit of time in seconds.

    Raises MatchingError if delta is 0.
    """
    if y == 0:
        return 0.0
    if times.delta_s <= 0.0:
        raise MatchingError(
            "delta_s must be above 0, because Eq. 2 divides by it; measure it again while the machine is less busy"
        )
    m, k_n = np.count_nonzero(frequency), float(frequency.sum())
    z = bucket_sizes(frequency, levels=levels, buckets=buckets)
    beta, gamma, delta = (t / unit_s for t in (times.beta_s, times.gamma_s, times.delta_s))
    comparing = float((4 * levels * k_n * beta / (m * z[skipped] * (levels + 1))).sum())
    switching = buckets * m * y * (levels + 1) / (2 * levels * k_n * delta)
    matching = (
        matching_s(times, frequency, n, levels=levels, buckets=buckets) + float(z.sum()) * buckets * h_s
    ) / unit_s
    return (comparing + switching + gamma * y) / matching


def by_lemma_2(
    times: UnitTimes, frequency: Float64, skipped: NDArray[np.bool_], y: int, n: int, *, levels: int, buckets: int
) -> float:
    """The share of T that the skipped predicates take by Lemma 2; arguments as above, any unit of time."""
    if y == 0:
        return 0.0
    z = bucket_sizes(frequency, levels=levels, buckets=buckets)
    mean = float(z.sum()) / np.count_nonzero(frequency)
    saved_s = 2 * times.beta_s * float(z[skipped].sum()) + times.delta_s * y / mean + times.gamma_s * y
    return saved_s / matching_s(times, frequency, n, levels=levels, buckets=buckets)
