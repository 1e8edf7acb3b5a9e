"""The options with which an algorithm lists exactly what matches."""

from __future__ import annotations

from typing import Any

from matchers.algorithms import ADAPTIVE, ALGORITHMS

EXACTLY: dict[str, dict[str, Any]] = {name: {"exact": True} if name in ADAPTIVE else {} for name in ALGORITHMS}
