"""Options with which an algorithm lists exactly the matches, and, on a simulated GPU, uses few threads."""

from __future__ import annotations

from typing import Any

from matchers.algorithms import ALGORITHMS

EXACTLY: dict[str, dict[str, Any]] = {
    **{name: dict(algorithm.exactly) for name, algorithm in ALGORITHMS.items()},
    "ccm": {"threads": 2, "blocks": 1},
}
