"""Describe an algorithm in the registry: how to build its matcher, and its properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from matchers.contract.matcher import Matcher
from matchers.contract.tables import SubscriptionTable
from matchers.errors import MatchingError


@dataclass(frozen=True)
class Algorithm:
    """An entry of the registry; called like its `build`: `ALGORITHMS["tiles"](table, **options)`."""

    build: Callable[..., Matcher]  # (table, **options); raises MatchingError
    stored: tuple[type, ...] = ()  # the classes that its matchers consist of: `index.stored` makes no others
    approximate: bool = False  # may list more than what matches, never less; `build` then has the option `exact`
    rated: bool = False  # `build` returns a `RatedMatcher`
    chooses: tuple[str, ...] = ()  # the others of which `build` builds some
    weighs: tuple[str, ...] = ()  # options of `build` that describe the average event
    definition: bool = False  # defines what is right, slowly: to compare with, not to measure
    runnable: Callable[[], bool] = lambda: True  # whether this machine has what it needs

    def __call__(self, table: SubscriptionTable, **options: Any) -> Matcher:
        if options:
            self._check_whole(options)
        return self.build(table, **options).read_only()

    def _check_whole(self, options: Mapping[str, Any]) -> None:
        """Raises MatchingError for a float where `build` takes an int: many such fail later, in a match."""
        for name, parameter in signature(self.build).parameters.items():
            kinds = str(parameter.annotation).split(" | ")
            if isinstance(options.get(name), float | np.floating) and "int" in kinds and "float" not in kinds:
                raise MatchingError(f"{name} must be an integer, not {options[name]!r}")

    @property
    def exactly(self) -> Mapping[str, Any]:
        """Return the options of `build` with which it lists exactly the matches."""
        return {"exact": True} if self.approximate else {}
