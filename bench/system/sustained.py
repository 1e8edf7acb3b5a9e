"""Decide from latencies over time whether the system sustained a rate.

A system that does a share 1 / (1 + g) of the rate falls behind by g seconds per second, and so do its latencies. So a
rate is sustained if both hold:

- **done**: 99 % of the events were delivered by the end of the load plus the usual latency and a quarter of it.
  The usual latency is the lowest median of the three thirds of the load: the first is higher while a new JVM compiles,
  the last if the system falls behind. At most a sixth of the load is allowed: after a standstill no latency is usual.
- **steady**: the median of the last third is above that of another third by no more than 1 % of the time between them,
  which is what a system that does 99 % has, or by no more than a quarter. Medians, so that a pause that is over counts
  for nothing if it is shorter than half a third.

The quarter is for noise: thirds of a steady load on a shared machine differ by so much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

LEAST_DONE = 0.99
NOISE = 0.25  # of a median, by which thirds of a steady load may differ
LONGEST = 1 / 6  # of the load, that may pass after its end
LEAST_S = 9.0  # a shorter load says nothing about growth
LEAST_DELIVERIES = 30  # in each third

CRITERION = (
    "sustained: 99 % of the events were delivered by the end of the load plus the usual latency and a quarter of it "
    "(done/s counts these), and latency did not grow; short: the load was too short to tell; ≥: of the delivered "
    "events only, because the system was stopped"
)


@dataclass(frozen=True)
class Verdict:
    done: float  # share of the rate
    thirds_ms: tuple[float, float, float]  # median latency of the events of each third
    grows: bool

    @property
    def sustained(self) -> bool:
        return self.done >= LEAST_DONE and not self.grows


def judge(written_s: Float64, late_s: Float64, seconds: float, processed: float = 1.0) -> Verdict | None:
    """The verdict on a load of `seconds`; None if it was too short.

    `written_s` [D] is when the event of each delivery was written, since the load began, and `late_s` [D] how much
    later the delivery was read. `processed` is the share of events that the system processed at all.
    """
    third = np.minimum(written_s * 3 / seconds, 2).astype(int)
    if seconds < LEAST_S or np.bincount(third, minlength=3).min() < LEAST_DELIVERIES:
        return None
    first, middle, last = (float(np.median(late_s[third == number])) for number in range(3))
    end_s = max(seconds, float(written_s.max()))  # later if the generator itself falls behind
    allowed_s = min((1 + NOISE) * min(first, middle, last), LONGEST * seconds)
    in_time = float(np.mean(written_s + late_s <= end_s + allowed_s))
    grows = any(
        last - before > max((1 - LEAST_DONE) * apart * seconds, NOISE * before)
        for before, apart in ((first, 2 / 3), (middle, 1 / 3))
    )
    thirds_ms = round(first * 1000, 1), round(middle * 1000, 1), round(last * 1000, 1)
    return Verdict(processed * in_time * seconds / end_s, thirds_ms, grows)
