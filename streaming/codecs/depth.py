"""The limit on nesting in events."""

from __future__ import annotations

from typing import Any

from streaming.codecs.contract import Undecodable

MAX_DEPTH = 64  # objects and arrays within each other


def checked(event: dict[str, Any]) -> dict[str, Any]:
    """The same event, if it is shallow enough for recursive functions. Raises Undecodable."""
    level: list[Any] = [event]
    for _ in range(MAX_DEPTH):
        inner = [v for node in level for v in (node.values() if isinstance(node, dict) else node)]
        level = [v for v in inner if isinstance(v, dict | list)]
        if not level:
            return event
    raise Undecodable(f"nested deeper than {MAX_DEPTH}")
