"""Let `auto` decide within a build, so that the time of the build includes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from matchers.algorithms import auto


@contextmanager
def undecided() -> Iterator[None]:
    """Let `auto` know no choice for any kind of table within the block, and the same ones as before after it."""
    known = dict(auto._chosen)
    auto._chosen.clear()
    try:
        yield
    finally:
        auto._chosen.clear()
        auto._chosen.update(known)
