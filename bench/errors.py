"""Errors in the flags and files of a benchmark."""

from __future__ import annotations


class BenchError(ValueError):
    """It cannot be run as asked; the text names the thing, the reason and what would work."""


def check(holds: bool, name: str, value: object, wanted: str) -> None:
    """Of a setting. Raises BenchError."""
    if not holds:
        raise BenchError(f"{name} cannot be {value}; it must be {wanted}")
