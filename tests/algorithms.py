"""The options with which an algorithm lists exactly what matches, and, on a simulated GPU, with few threads."""

from __future__ import annotations

from typing import Any

from matchers.algorithms import ADAPTIVE, ALGORITHMS

EXACTLY: dict[str, dict[str, Any]] = {
    **{name: {"exact": True} if name in ADAPTIVE else {} for name in ALGORITHMS},
    "ccm": {"threads": 2, "blocks": 1},
}
