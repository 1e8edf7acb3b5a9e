"""Payload columns of a segment: the subscriber, the expiry, and the position of each subscription's document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int32, Int64
from matchers.index.segment import Note, Segment
from matchers.index.texts import Texts
from streaming.documents.subscriptions import Subscription

NEVER = np.iinfo(np.int64).max  # expires_at_ms of a subscription that does not expire


def notes(subscriptions: Sequence[Subscription], partition: Int32, offset: Int64) -> dict[str, Note]:
    """Payload columns of a segment. `partition` and `offset`, one per subscription, are the place of its record."""
    ends = [NEVER if s.expires_at_ms is None else s.expires_at_ms for s in subscriptions]
    return {
        "subscriber": Texts.of(s.subscriber for s in subscriptions),
        "expires_at_ms": np.array(ends, np.int64),
        "partition": np.asarray(partition, np.int32),
        "offset": np.asarray(offset, np.int64),
    }


def subscribers(segment: Segment) -> Texts:
    column = segment.notes["subscriber"]
    assert isinstance(column, Texts)
    return column


def numbers(segment: Segment, name: str) -> NDArray[Any]:
    """A payload column by name: expires_at_ms, partition or offset."""
    column = segment.notes[name]
    assert isinstance(column, np.ndarray)
    return column
