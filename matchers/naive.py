"""The definition of matching: an event satisfies a subscription when every predicate holds.

Slow and obvious. Every algorithm answers to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from matchers.model import Event, Pattern

Id = TypeVar("Id")


def matches(pattern: Pattern, event: Event) -> bool:
    return all(predicate.holds(event) for predicate in pattern.predicates)


def match(patterns: Mapping[Id, Pattern], events: Iterable[Event]) -> list[list[Id]]:
    """For each event the ids of the patterns it satisfies, in the order of `patterns`."""
    return [[id for id, pattern in patterns.items() if matches(pattern, event)] for event in events]
