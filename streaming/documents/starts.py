"""Parse the start of a subscription, at which its past events begin.

"oldest"                  the first event of each partition
"2026-01-01T00:00:00Z"    the first event at or after a time
{"events": {"0": 120}}    an offset of each partition; those that are left out have no past events
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from streaming.documents import instants

OLDEST: Literal["oldest"] = "oldest"
MOST_OFFSET = (1 << 63) - 1
PARTITION = "(0|[1-9][0-9]{0,8})"  # a regular expression
FORMS = f'"{OLDEST}", a time with its zone, or offsets such as {{"events": {{"0": 120}}}}'

Offsets = Mapping[tuple[str, int], int]  # by topic and partition of events
Start = Literal["oldest"] | int | Offsets  # a time is in milliseconds since the epoch

_PARTITION = re.compile(PARTITION)


def parsed_start(value: Any) -> Start:
    """Parse a start as JSON gives it. Raises ValueError with the forms it may have."""
    if value == OLDEST:
        return OLDEST
    if isinstance(value, dict):
        return parsed_offsets(value)
    if not isinstance(value, str):
        raise ValueError(FORMS)
    try:
        return max(0, instants.milliseconds(value))  # a time below zero is a command to Kafka
    except ValueError as error:
        raise ValueError(f'"{OLDEST}", offsets, or {error}') from None


def parsed_offsets(value: Any) -> Offsets:
    """Parse offsets by topic and partition as JSON gives them. Raises ValueError."""
    try:
        places = [(topic, *place) for topic, offsets in value.items() for place in offsets.items()]
    except AttributeError:
        raise ValueError(FORMS) from None
    for topic, partition, offset in places:
        is_offset = type(offset) is int and 0 <= offset <= MOST_OFFSET
        if not (topic and _PARTITION.fullmatch(partition) and is_offset):
            raise ValueError(FORMS)
    return {(topic, int(partition)): offset for topic, partition, offset in places}


def as_json(start: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as `parsed_offsets` takes them."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(start.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic
