"""Fixtures and hypothesis profiles: `quick` for every run, `long` for `make test-long`.

`brief` is for the lanes in which kernels run without compilation, a hundred times slower, and with bounds checked: what
they look for shows on few cases.

Where there is no GPU, what is written for one runs on numba's simulator.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("brief", deadline=None, max_examples=40)
settings.register_profile("quick", deadline=None, max_examples=150)
settings.register_profile("long", deadline=None, max_examples=5_000)
settings.load_profile("quick")

if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
