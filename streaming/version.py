"""The version of Sluice, and the commit that an image was built from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

VERSION = "0.1.0"
_REVISION = Path(__file__).with_name("revision")  # `make image` writes it


@cache
def revision() -> str:
    """The commit in hex digits; "" in a checkout, whose code may have changed since its commit."""
    return _REVISION.read_text().strip() if _REVISION.exists() else ""
