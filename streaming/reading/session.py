"""A fetch session: a broker stores the partitions and positions of a fetcher, and a request names only changes.

id 0, epoch 0      the broker may open a session; its answer has the id, or 0 if it opens none
id,   epoch 1 ...  changes since the last request; the answer leaves out partitions with nothing new
id,   epoch -1     the broker closes the session
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import errors

from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import Position
from streaming.reading.requests import FetchLimits, fetch

_CLOSED = -1
_NOT_FOUND: int = errors.FetchSessionIdNotFoundError.errno
ERRORS = (_NOT_FOUND, errors.InvalidFetchSessionEpochError.errno)
_LAST_EPOCH = (1 << 31) - 1


class FetchSession:
    """The session with one broker. At most one request is on its way."""

    def __init__(self, before: int = 0) -> None:
        """`before` is the id of a session that the first request closes."""
        self.id = before
        self.positions: dict[TopicPartition, Position] = {}  # those of the last request
        self.is_asked = False  # a request is on its way, or its answer was not looked at
        self.retry_at = 0.0  # monotonic s
        self._epoch = 0

    def request(self, wanted: Mapping[TopicPartition, Position], limits: FetchLimits, rack: str) -> Any:
        """Return the next Fetch request, for all wanted partitions in their order."""
        known = self.positions if self._epoch else {}
        changed = {at: position for at, position in wanted.items() if known.get(at) != position}
        forgotten = [at for at in known if at not in wanted]
        self.positions = dict(wanted)
        return fetch((self.id, self._epoch), changed, forgotten, limits, rack)

    def closing_request(self) -> Any:
        """The request that closes the session; None if there is none."""
        return fetch((self.id, _CLOSED), {}, (), FetchLimits(max_wait_ms=0), "") if self.id else None

    def answered(self, response: Any) -> bool:
        """Note the id of a response without an error. Returns whether it has to name each partition of the request."""
        is_full = self._epoch == 0
        self.id = response.session_id
        self._epoch = (self._epoch % _LAST_EPOCH) + 1 if self.id else 0
        return is_full

    def reopen(self, error: int = 0) -> None:
        """The next request names all partitions, opens a new session, and closes this one, which may still exist."""
        self._epoch = 0
        if error == _NOT_FOUND:
            self.id = 0
