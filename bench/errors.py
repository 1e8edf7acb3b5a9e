"""Errors in the flags and files of a benchmark."""

from __future__ import annotations


class BenchError(ValueError):
    """A benchmark cannot run with these arguments. The text names the argument, the reason and what would work."""


def check(holds: bool, name: str, value: object, wanted: str) -> None:
    """Check a setting. Raises BenchError."""
    if not holds:
        raise BenchError(f"{name} cannot be {value}; it must be {wanted}")
