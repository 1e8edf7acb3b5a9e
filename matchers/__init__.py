"""Which subscriptions does an event satisfy? The matching library: numpy and numba, and nothing else."""

from matchers.algorithms import ADAPTIVE, ALGORITHMS
from matchers.base import Matcher
from matchers.errors import MatchingError, PatternError, TableError
from matchers.explanation import Alternatives, Explanation
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
