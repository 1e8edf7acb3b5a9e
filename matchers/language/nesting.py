"""Limit the nesting of events, so that readers may be recursive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_LEVELS = 64  # objects and arrays within each other, the event included
TOO_DEEP = f"an event is nested deeper than {MAX_LEVELS} levels of objects and arrays"


def is_too_deep(event: Any) -> bool:
    """Whether an event has more than MAX_LEVELS levels."""
    level = [event]
    for _ in range(MAX_LEVELS):
        inner = [value for node in level for value in (node.values() if isinstance(node, Mapping) else node)]
        level = [value for value in inner if isinstance(value, Mapping | list | tuple)]
        if not level:
            return False
    return True
