"""The matching library: which subscriptions an event satisfies. It needs numpy and numba, and nothing else.

    library      Index, the front door: patterns in, ids out
    index        vocabularies, segments and snapshots, made of patterns and of the bytes of events
    papers       published methods that a job gets only if its configuration names one
    algorithms   a package each: how it decides, its kernels, and what only it needs
    contract     what an algorithm takes and returns
    language     what a pattern means
    kernels      compiled loops that several share

A package sees only packages below it in this list, and not all of these: tests/unit/test_architecture.py has the table.

For: match events with subscriptions, in a process of anybody's. May enter: patterns, events, tables. Must not know:
Spark, Kafka, settings, and files but saved indexes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from matchers.errors import MatchingError, PatternError, TableError
from matchers.language.explanation import Alternatives, Explanation

if TYPE_CHECKING:
    from matchers.contract.algorithm import Algorithm
    from matchers.contract.interfaces import Interfaces
    from matchers.contract.matcher import Matcher
    from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable
    from matchers.library import Index
    from matchers.registry import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Alternatives",
    "EventBatch",
    "Explanation",
    "Index",
    "Interfaces",
    "MatchBatch",
    "Matcher",
    "MatchingError",
    "PatternError",
    "SubscriptionTable",
    "TableError",
]

# Where numba is needed: its import takes a second, which who only reads subscriptions should not wait for.
_COMPILED = {
    "ALGORITHMS": "registry",
    "Algorithm": "contract.algorithm",
    "EventBatch": "contract.tables",
    "Index": "library",
    "Interfaces": "contract.interfaces",
    "MatchBatch": "contract.tables",
    "Matcher": "contract.matcher",
    "SubscriptionTable": "contract.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_COMPILED[name]}"), name)
