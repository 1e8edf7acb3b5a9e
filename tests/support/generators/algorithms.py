"""The algorithms as tests run them: compiled or not, and with the options that make their answers exact."""

from __future__ import annotations

from typing import Any

import numba

from matchers.registry import ALGORITHMS

UNCOMPILED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # numba sets it when it is imported
EXACTLY: dict[str, dict[str, Any]] = {
    **{name: dict(algorithm.exactly) for name, algorithm in ALGORITHMS.items()},
    "ccm": {"threads": 2, "blocks": 2},
}
