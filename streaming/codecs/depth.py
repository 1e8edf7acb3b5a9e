"""Reject events that are nested too deeply for recursive functions."""

from __future__ import annotations

from typing import Any

from matchers.language.nesting import MAX_LEVELS, is_too_deep
from streaming.codecs.contract import Undecodable


def checked(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event if it is shallow enough. Raises Undecodable."""
    if is_too_deep(event):
        raise Undecodable(f"nested deeper than {MAX_LEVELS}")
    return event
