"""Fixtures and hypothesis profiles: `quick` for every run, `few` for the inner loop, `long` for `make test-long`.

`few` is also for the lanes in which kernels run without compilation, a hundred times slower, and with bounds checked:
what they look for shows on few cases. `quick` and `few` draw the same cases each time, so that a run which fails can be
repeated and one that passed passes again; `long` draws new ones.

Where there is no GPU, what is written for one runs on numba's simulator.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for name, examples in {"few": 15, "quick": 150, "long": 5_000}.items():
    # A machine on which other tests run may be slow at drawing; that is not a fault of the strategies.
    slow, same = [HealthCheck.too_slow], name != "long"
    settings.register_profile(name, deadline=None, max_examples=examples, suppress_health_check=slow, derandomize=same)
settings.load_profile("quick")

if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of running jobs first: they take longest, and none of them is then left to the end alone."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in ("integration", "soak", "faults"))
