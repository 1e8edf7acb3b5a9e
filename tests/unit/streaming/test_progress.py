"""Notes beside committed offsets give the counts of tasks that died."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.documents import records
from streaming.progress import Progress, note, noted
from streaming.publishing.ownership import is_starting, of_task
from streaming.rows import EVENTS, INPUT, SUBSCRIPTIONS, Published, ReadProgress, SourcePartition

MOST_OF_A_NOTE = 4096  # characters: offset.metadata.max.bytes, as brokers have it
JOB = 7
COUNTS = Published(events=3, matches=5, deliveries=4, commits=2, dead_letters=Counter(oversize=1), executor="driver")


def read(partition: int, offset: int) -> ReadProgress:
    return ReadProgress(EVENTS, partition, offset, records=3, size_bytes=30, timestamp_ms=None)


def test_a_note_says_what_was_read_and_published() -> None:
    text = note(JOB, 1, read(2, 9), COUNTS)
    assert noted([((EVENTS, 2), 10, text)], JOB) == [read(2, 9), COUNTS]
    assert noted([((EVENTS, 2), 10, text)], JOB + 1) == []


def test_counts_are_the_last_ones_of_each_slot() -> None:
    """The partitions that the last transaction wrote to have them; others have those of earlier ones."""
    early, late, other = (Published(deliveries=n, commits=n) for n in (1, 2, 5))
    notes = [((EVENTS, 0), 1, note(JOB, 0, read(0, 0), late)), ((EVENTS, 1), 1, note(JOB, 0, read(1, 0), early))]
    notes.append(((EVENTS, 2), 1, note(JOB, 1, read(2, 0), other)))
    assert noted(notes, JOB) == [read(0, 0), read(1, 0), read(2, 0), late, other]


def test_a_note_fits_beside_what_the_owner_writes() -> None:
    most = 2**63 - 1
    deliveries = records.OVERSIZE, records.MISSING_TOPIC, records.OVER_QUOTA, records.TOPIC_REJECTED
    largest = Published(dead_letters=Counter(dict.fromkeys((*records.OF_EVENTS, *deliveries), most)), executor="10000")
    for name, value in vars(largest).items():
        if isinstance(value, int):
            setattr(largest, name, most)
    text = note(most, 10_000, ReadProgress(EVENTS, 10_000, most, most, most, most), largest)
    beside = f"{'f' * 32} 10000 {text}"
    assert len(beside) < MOST_OF_A_NOTE // 4
    assert len(beside.split(" ")) == 3
    assert of_task(beside) == text
    assert not is_starting(beside)
    assert [of_task(text) for text in ("", "f 4", "f 4 starting")] == ["", "", ""]


@given(st.lists(st.tuples(st.sampled_from([EVENTS, SUBSCRIPTIONS]), st.integers(0, 2), st.integers(0, 9)), max_size=9))
def test_progress_is_the_same_in_whatever_order_partitions_come(places: list[Any]) -> None:
    """Rows added at once or one by one count the same; `copy` does not change when the other is added to."""
    rows = [
        {"source": source, "partition": p, "offset": n, "timestamp": 1_000 * ago, "key": b"k", "value": b"v" * n}
        for n, (source, p, ago) in enumerate(places)
    ]
    of: dict[SourcePartition, list[int]] = {}
    for n, (source, p, _) in enumerate(places):
        of.setdefault((source, p), []).append(n)
    whole, single = Progress(), Progress()
    whole.add(pa.RecordBatch.from_pylist(rows, schema=INPUT))
    for row in rows:
        before, known = single.copy(), dict(single.of)
        single.add(pa.RecordBatch.from_pylist([row], schema=INPUT))
        assert before.of == known
    assert whole.of == single.of
    assert {at: (one.offset, one.records) for at, one in whole.of.items()} == {
        at: (max(ns), len(ns)) for at, ns in of.items()
    }
    assert sum(one.size_bytes for one in whole.of.values()) == sum(range(len(rows))) + len(rows)
    assert np.all([row["kind"] is not None for row in whole.rows()])
