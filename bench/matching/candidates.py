"""Parse the algorithms and options that a command line names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, isbuiltin, isfunction, signature
from typing import Any

from bench.errors import BenchError
from matchers import ALGORITHMS, Matcher, SubscriptionTable
from matchers.errors import known
from matchers.registry import named


@dataclass(frozen=True)
class MeasuredAlgorithm:
    """An algorithm and the options with which it is measured."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, table: SubscriptionTable) -> Matcher:
        return ALGORITHMS[self.algorithm](table, **self.options)

    @property
    def approximate(self) -> bool:
        """Whether it may list more than the matches."""
        return ALGORITHMS[self.algorithm].approximate and self.options.get("exact") is not True


def candidates(names: Iterable[str], assignments: Iterable[str]) -> list[MeasuredAlgorithm]:
    """Candidates from names and options such as `hem.g=32`. Raises BenchError and MatchingError."""
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name in options:
        named(name)
    for assignment in assignments:
        target, equals, text = assignment.partition("=")
        name, dot, option = target.partition(".")
        if not (equals and dot):
            raise BenchError(f"an option is algorithm.name=value, such as hem.g=32, not {assignment!r}")
        if name not in options:
            raise BenchError(f"option {target}: {name!r} is not measured; {known(name, options)}")
        if option not in options_of(name):
            takes = f"; {known(option, options_of(name))}" if options_of(name) else ": it takes none"
            raise BenchError(f"{name} has no option {option!r}{takes}")
        options[name][option] = _value(text)
    return [MeasuredAlgorithm(name, values) for name, values in options.items()]


def options_of(algorithm: str) -> list[str]:
    """The options of its `build`, without the table and without functions."""
    parameters = list(signature(ALGORITHMS[algorithm].build).parameters.values())[1:]
    named = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in named and not isfunction(p.default) and not isbuiltin(p.default)]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
