"""Growth is told from noise, from teeth of a saw, and from what is over after the first half."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.soak.growth import growth, of_samples

AT_S = [10.0 * n for n in range(720)]  # two hours
NOISE = np.random.default_rng(1).normal(size=720)
HOURS = np.array(AT_S) / 3600


@pytest.mark.parametrize(
    ("values", "per_hour"),
    [
        (300 + 0 * HOURS, None),
        (300 + 10 * NOISE, None),
        (300 + 100 * (np.arange(720) % 17) / 17, None),  # garbage is collected
        (np.minimum(300, 100 + 400 * HOURS), None),  # it grew, and then no more
        (300 + 3 * HOURS, None),  # 3 MB of 300 in an hour are not worth a word
        (300 + 20 * HOURS + 3 * NOISE, 20),
        (300 + 60 * HOURS + 100 * (np.arange(720) % 17) / 17, 60),
        (1_000 - 50 * HOURS + NOISE, -50),
        (np.where(np.arange(720) < 540, 40, 80) + 0.0, 54),  # a step, as of connections that are left open
        (np.where(np.arange(720) < 680, 40, 80) + NOISE, 41),  # in the last minutes
    ],
)
def test_growth_is_told_from_noise(values: Any, per_hour: float | None) -> None:
    found = growth("x", "y", AT_S, values.tolist())
    if per_hour is None:
        assert found.words() == "flat", found
    else:
        assert found.flat is False, found
        assert found.per_hour == pytest.approx(per_hour, rel=0.15)
        assert found.words().startswith("grows by" if per_hour > 0 else "falls by")


def test_of_a_few_samples_nothing_is_said() -> None:
    assert growth("x", "y", AT_S[:10], [float(n) for n in range(10)]).words() == "too short"
    assert growth("x", "y", [], []).flat is None


def test_gaps_do_not_matter() -> None:
    values = [float(n) if n % 3 else None for n in range(720)]
    assert growth("x", "y", AT_S, values).per_hour == pytest.approx(360, rel=0.01)


def sample(n: int) -> dict[str, Any]:
    processes = {"driver": {"processes": 1, "resident_mb": 300.0 + n, "threads": 20, "descriptors": 40}}
    if n % 2:
        processes["compaction"] = {"processes": n % 4 // 2, "resident_mb": 50.0, "threads": 2, "descriptors": 9}
    latency_ms = {"p50": 100.0, "p99": 200.0, "max": None}
    disk_mb = {"events": 10.0}
    return {"at_s": 10.0 * n, "processes": processes, "disk_mb": disk_mb, "latency_ms": latency_ms, "lag": 500}


def test_every_series_has_its_verdict() -> None:
    found = {f"{one.of} {one.figure}": one.words() for one in of_samples([sample(n) for n in range(200)])}
    assert found == {
        "driver resident_mb": "grows by 360/h",
        "driver threads": "flat",
        "driver descriptors": "flat",
        "compaction resident_mb": "flat",
        "compaction threads": "flat",
        "compaction descriptors": "flat",
        "disk events_mb": "flat",
        "latency p50_ms": "flat",
        "latency p99_ms": "flat",
        "latency max_ms": "too short",
        "lag events": "flat",
    }
