"""Documents that name their start, and when they are committed."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

from streaming.admin.deliveries import Delivery
from streaming.client.deliveries import Deliveries
from streaming.client.starts import MOST_AGE_MS, Starts, names_start
from tests.support.doubles.topic import Record
from tests.unit.streaming.client.test_deliveries import End, Scripted, given

DOCUMENT = {"subscriber": "alice", "pattern": {}}
STARTED = DOCUMENT | {"from": "oldest"}
NOW_MS = int(1_000 * time.time())


@pytest.mark.parametrize(
    ("value", "headers", "is_start"),
    [
        (STARTED, {}, True),
        (STARTED, {"other": "x"}, True),
        (STARTED, {"sluice_start": "{}"}, False),
        (DOCUMENT, {"sluice_start": "{}"}, False),
        (b'{"subscriber": "alice", "pattern": {}, "fr\\u006fm": "oldest"}', {}, True),
        (DOCUMENT, {"other": "x"}, False),
        (DOCUMENT | {"pattern": {"from": ["oldest"]}}, {}, False),
        (b'{"from"', {}, False),
        (b'["from"]', {}, False),
        (None, {"sluice_start": "{}"}, False),
    ],
)
def test_a_start_in_the_document_is_found_unless_a_command_wrote_another(
    value: Any, headers: dict[str, str], is_start: bool
) -> None:
    assert names_start(Delivery.of(Record("a", value, headers=headers))) is is_start


def test_ids_with_a_start_come_in_order_and_are_committed_with_all_before_them() -> None:
    script = (
        Record("a", STARTED, offset=0, time_ms=NOW_MS),
        Record("b", DOCUMENT, offset=1, time_ms=NOW_MS),
        Record("old", STARTED, offset=2, time_ms=NOW_MS - MOST_AGE_MS - 60_000),
        Record(None, STARTED | {"id": "c"}, offset=3, time_ms=NOW_MS),
        Record(None, STARTED, offset=4, time_ms=NOW_MS),  # it has no id; the job rejects it
        Record("d", DOCUMENT, offset=5, time_ms=NOW_MS),
    )
    consumer: Any = Scripted(given(0), *script, End())
    records = Deliveries(consumer, "subscriptions", None, "q.catch-up", False, Event())
    records._join((), dict)
    skipped: list[str] = []
    with Starts(records, skipped.append) as starts:
        assert next(starts) == "a"
        starts.commit()
        assert next(starts) == "c"
        assert skipped == ["old"]
        with pytest.raises(StopIteration):
            next(starts)
        starts.commit()
    assert consumer.commits == [{0: 1}, {0: 6}]
    assert consumer.closed == 1
