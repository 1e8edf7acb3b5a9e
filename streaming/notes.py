"""What a segment keeps of subscriptions besides their ids: who gets what they match, and until when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchers.segment import Note
from matchers.texts import Texts
from streaming.subscriptions import Subscription

NEVER = np.iinfo(np.int64).max  # expires_at_ms of what does not


def notes(subscriptions: Sequence[Subscription]) -> dict[str, Note]:
    ends = [NEVER if s.expires_at_ms is None else s.expires_at_ms for s in subscriptions]
    return {"subscriber": Texts.of(s.subscriber for s in subscriptions), "expires_at_ms": np.array(ends, np.int64)}
