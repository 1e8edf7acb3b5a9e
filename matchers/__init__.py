"""Which subscriptions does an event satisfy? The matching library: numpy and numba, and nothing else."""

from matchers.algorithms import ALGORITHMS
from matchers.base import Matcher
from matchers.errors import MatchingError, PatternError, TableError
from matchers.index import Explanation, Index
from matchers.tables import EventBatch, MatchBatch, SubscriptionTable

__all__ = [
    "ALGORITHMS",
    "EventBatch",
    "Explanation",
    "Index",
    "MatchBatch",
    "Matcher",
    "MatchingError",
    "PatternError",
    "SubscriptionTable",
    "TableError",
]
