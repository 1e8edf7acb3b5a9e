"""Made-up series: which loads count as sustained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.system.sustained import Verdict, judge

Float64 = NDArray[np.float64]
SECONDS, RATE = 30.0, 1_000


def load(late_s: Callable[[Float64], Any], seconds: float = SECONDS, seed: int = 1) -> tuple[Float64, Float64]:
    """Events at a steady rate in batches of 0.4 s: each waits for the end of its batch, and a batch takes `late_s` by
    the time of its events, within a quarter of that."""
    written = np.arange(0, seconds, 1 / RATE)
    batch = (written / 0.4).astype(int)
    noise = np.random.default_rng(seed).uniform(0.75, 1.25, batch.max() + 1)
    return written, (batch + 1) * 0.4 - written + late_s(written) * noise[batch]


def verdict(late_s: Callable[[Float64], Any], seconds: float = SECONDS, processed: float = 1.0) -> Verdict:
    found = judge(*load(late_s, seconds), seconds, processed)
    assert found is not None
    return found


def steady(t: Float64) -> Float64:
    return np.full(len(t), 0.2)


SUSTAINED: dict[str, Callable[[Float64], Any]] = {
    "steady": steady,
    "steady at a latency of seconds": lambda t: np.full(len(t), 3.0),
    "slow at first, while the JVM compiles": lambda t: 0.2 + 4.0 * np.exp(-t / 3),
    "a pause of two seconds in the middle": lambda t: 0.2 + np.clip(16 - t, 0, 2) * (t > 14),
    "a pause in the last third that is caught up with": lambda t: 0.2 + np.clip(26 - t, 0, 3) * (t > 23),
}
BEHIND: dict[str, Callable[[Float64], Any]] = {
    "2 % too much": lambda t: 0.2 + 0.02 * t,
    "12 % too much": lambda t: 0.2 + 0.14 * t,
    "12 % too much, slow at first": lambda t: 0.2 + 4.0 * np.exp(-t / 3) + 0.14 * t,
    "too much from two thirds on": lambda t: 0.2 + 0.2 * np.maximum(0, t - 20),
    "a standstill of 20 s that begins before the end": lambda t: 0.2 + (48 - t) * (t > 28),
    "a latency that has doubled": lambda t: 0.5 + 0.5 * (t > 20),
}


@pytest.mark.parametrize("late_s", SUSTAINED.values(), ids=SUSTAINED)
def test_a_load_is_sustained_if_latency_stays(late_s: Callable[[Float64], Any]) -> None:
    found = verdict(late_s)
    assert found.sustained, found


@pytest.mark.parametrize("late_s", BEHIND.values(), ids=BEHIND)
def test_a_load_is_not_sustained_if_the_system_falls_behind(late_s: Callable[[Float64], Any]) -> None:
    found = verdict(late_s)
    assert not found.sustained, found


def test_what_was_done_is_the_share_of_the_rate() -> None:
    assert verdict(steady).done == pytest.approx(1.0, abs=0.01)
    assert verdict(BEHIND["12 % too much"]).done == pytest.approx(0.9, abs=0.02)
    assert verdict(steady, processed=0.5).done == pytest.approx(0.5, abs=0.01)
    assert not verdict(steady, processed=0.98).sustained


def test_a_generator_that_falls_behind_has_not_made_the_rate() -> None:
    written, late = load(steady)
    found = judge(written * 1.05, late, SECONDS)
    assert found is not None
    assert found.done == pytest.approx(0.95, abs=0.01)
    assert not found.sustained


@pytest.mark.parametrize("seed", range(20))
def test_noise_between_batches_is_no_growth(seed: int) -> None:
    found = judge(*load(steady, seed=seed), SECONDS)
    assert found is not None
    assert found.sustained, found


def test_a_load_that_is_too_short_has_no_verdict() -> None:
    assert judge(*load(steady, seconds=8.0), 8.0) is None
    written, late = load(steady)
    assert judge(written[::400], late[::400], SECONDS) is None  # 25 in each third
    assert judge(written[:0], late[:0], SECONDS) is None
    before = written < 20
    assert judge(written[before], late[before], SECONDS) is None  # nothing of the last third


def test_a_standstill_from_the_first_to_beyond_the_last_event_is_no_usual_latency() -> None:
    written, _ = load(steady)
    found = judge(written, 36 - written, SECONDS)
    assert found is not None
    assert not found.sustained, found
