"""The algorithms by name: those that jobs use and, where `matchers/papers` is there, the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from matchers import algorithms
from matchers.contract.algorithm import Algorithm
from matchers.errors import MatchingError, known

ALGORITHMS: dict[str, Algorithm] = dict(algorithms.ALGORITHMS)
FUNCTIONS: dict[str, Callable[..., Any]] = dict(algorithms.FUNCTIONS)
if HAS_PAPERS := find_spec("matchers.papers") is not None:
    from matchers import papers

    ALGORITHMS |= papers.ALGORITHMS
    FUNCTIONS |= papers.FUNCTIONS
STORED = tuple(dict.fromkeys(kind for algorithm in ALGORITHMS.values() for kind in algorithm.stored))

WITHOUT_PAPERS = (
    "this copy of Sluice is without matchers/papers, the algorithms that no job gets by default; `make package "
    "ALGORITHMS=<name>` and `make image PAPERS=1` put them in"
)


def named(name: str) -> Algorithm:
    """Raises MatchingError if there is none of this name."""
    if name not in ALGORITHMS:
        hint = "" if HAS_PAPERS else f"; {WITHOUT_PAPERS}"
        raise MatchingError(f"unknown algorithm {name!r}; {known(name, ALGORITHMS)}{hint}")
    return ALGORITHMS[name]


def runnable() -> list[str]:
    """The names of the algorithms that this machine can run."""
    return [name for name, algorithm in ALGORITHMS.items() if algorithm.runnable()]


def need_papers(names: Iterable[str]) -> bool:
    """Whether one of the algorithms is in `matchers/papers`."""
    return not algorithms.ALGORITHMS.keys() >= set(names)
