"""Which subscriptions does an event satisfy? The matching library: numpy and numba, and nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from matchers.errors import MatchingError, PatternError, TableError
from matchers.explanation import Alternatives, Explanation

if TYPE_CHECKING:
    from matchers.algorithms import ADAPTIVE, ALGORITHMS
    from matchers.base import Matcher
    from matchers.index import Index
    from matchers.interfaces import Interfaces
    from matchers.tables import EventBatch, MatchBatch, SubscriptionTable

__all__ = [
    "ADAPTIVE",
    "ALGORITHMS",
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
    "ADAPTIVE": "algorithms",
    "ALGORITHMS": "algorithms",
    "EventBatch": "tables",
    "Index": "index",
    "Interfaces": "interfaces",
    "MatchBatch": "tables",
    "Matcher": "base",
    "SubscriptionTable": "tables",
}


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_COMPILED[name]}"), name)
