"""The algorithms by name: those that jobs use and, where `matchers/papers` is there, the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from importlib.util import find_spec
from typing import Any

from matchers import algorithms
from matchers.contract.algorithm import Algorithm
from matchers.errors import MatchingError, known

# Those of `matchers/papers`, which is imported when one of them is looked at: no job needs it by default.
PAPERS = ("sff", "rein", "ada_rein", "opindex", "pem", "comat", "h_tree", "awb_tree", "ccm", "translator")
HAS_PAPERS = find_spec("matchers.papers") is not None

WITHOUT_PAPERS = (
    "this copy of Sluice is without matchers/papers, the algorithms that no job gets by default; `make package "
    "ALGORITHMS=<name>` and `make image PAPERS=1` put them in"
)


class Algorithms(MutableMapping[str, Algorithm]):
    """The algorithms by name. A published one is imported when it is first used."""

    def __init__(self) -> None:
        self._entries: dict[str, Algorithm | None] = {**algorithms.ALGORITHMS}  # None: not imported yet
        if HAS_PAPERS:
            self._entries |= dict.fromkeys(PAPERS)

    def __getitem__(self, name: str) -> Algorithm:
        algorithm = self._entries[name]
        if algorithm is None:
            from matchers import papers

            algorithm = self._entries[name] = papers.ALGORITHMS[name]
        return algorithm

    def __setitem__(self, name: str, algorithm: Algorithm) -> None:
        self._entries[name] = algorithm

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


ALGORITHMS = Algorithms()


def named(name: str) -> Algorithm:
    """Raises MatchingError if there is none of this name."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        hint = "" if HAS_PAPERS else f"; {WITHOUT_PAPERS}"
        raise MatchingError(f"unknown algorithm {name!r}; {known(str(name), ALGORITHMS)}{hint}")
    return ALGORITHMS[name]


def runnable() -> list[str]:
    """The names of the algorithms that this machine can run."""
    return [name for name, algorithm in ALGORITHMS.items() if algorithm.runnable()]


def stored(papers: bool) -> tuple[set[type], dict[str, Callable[..., Any]]]:
    """The classes of matchers and the functions that they hold; with `papers` those of published algorithms too."""
    entries, functions = [*algorithms.ALGORITHMS.values()], {**algorithms.FUNCTIONS}
    if papers and HAS_PAPERS:
        from matchers.papers import ALGORITHMS, FUNCTIONS

        entries, functions = [*entries, *ALGORITHMS.values()], functions | FUNCTIONS
    return {kind for algorithm in entries for kind in algorithm.stored}, functions
