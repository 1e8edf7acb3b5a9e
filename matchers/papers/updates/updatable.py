"""The contract of an index that changes in place, beside that of a `Matcher`, which never changes."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from matchers.contract.tables import EventBatch, MatchBatch, SubscriptionTable


class Updatable(Protocol):
    """An index of subscriptions that come and go. Nothing may run beside `insert` and `delete`, not even `match`.

    Numbers: the subscriptions of the first table are 0 .. S - 1, and each inserted one gets the next number. A number
    stays with its subscription and is never given again, so numbers ascend with the time of insertion.

    Meaning: `match` lists exactly the numbers whose subscriptions a fresh build of the same algorithm would list.
    Tables that are passed in are read, never changed. The batches that `match` returned stay as they are.

    Cost: an update touches the lists that the subscription is in. Arrays that are full grow to twice their length. When
    the intervals have doubled, or half of them are deleted, the whole index is built anew, with a new domain and new
    cells; that is O(1) per interval inserted or deleted, on average. Deleted numbers keep some bytes each, and a bit
    that every event reads: if most numbers are deleted, build a new index from what is left.
    """

    def match(self, events: EventBatch) -> MatchBatch: ...

    def insert(self, table: SubscriptionTable) -> int:
        """Add the subscriptions of a table; returns the number of the first, the others follow.

        The table has as many columns as the first one. Raises MatchingError.
        """

    def delete(self, subscriptions: ArrayLike) -> None:
        """Remove subscriptions by their numbers. Raises MatchingError, and then removes none."""

    def memory_bytes(self) -> int:
        """The size of all arrays, free places included."""
