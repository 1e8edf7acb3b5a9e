"""A task's counts of subscribers and subscriptions equal its deliveries and dead letters."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.rows import CountedSubscribers, Row
from streaming.subscriber_counts import NEVER_MS, SubscriberCounts
from streaming.worker import subscriber_counter
from streaming.worker.subscriber_counter import _distinct
from tests.support.doubles.stage import (
    PUBLICATION,
    SETTINGS,
    ListSink,
    Slots,
    apply,
    change,
    event,
    headers_of,
    published,
    state,
    work,
)

pytestmark = pytest.mark.kernels

COUNTING = replace(SETTINGS, counts_subscribers=True, counts_subscriptions=True)
NOW_MS = int(time.time() * 1000)
ABSENT = "eve"  # has no topic

subscriptions = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cid", ABSENT]), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
    max_size=8,
)
events = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from([0, 1, 2_000]),  # bytes; the last is too many
        st.sampled_from([NOW_MS, NOW_MS - 5_000, -1, 1_000]),  # two are not credible
    ),
    max_size=12,
)


def counts(rows: list[Row]) -> list[SubscriberCounts]:
    return [SubscriberCounts.from_bytes(row.value) for row in rows if isinstance(row, CountedSubscribers)]


@given(old=subscriptions, new=subscriptions, batches=st.lists(events, max_size=3), at_once=st.sampled_from([1, 1_000]))
def test_the_sums_are_those_of_the_records(
    old: list[Any], new: list[Any], batches: list[list[Any]], at_once: int
) -> None:
    subscribed = state()
    for begin, some in ((0, old), (len(old), new)):  # in two parts
        documents = [{"subscriber": name, "pattern": {"x": values}} for name, values in some]
        apply(subscribed, [change(begin + i, f"s{begin + i}", one) for i, one in enumerate(documents)])
    sink, offset = ListSink(), iter(range(100))
    rows = [
        [event(next(offset), {"x": x, "note": "." * size}, timestamp=ms) for x, size, ms in some] for some in batches
    ]
    slots = Slots(sink, {f"to.{ABSENT}"}, publication=replace(PUBLICATION, absent=frozenset({f"to.{ABSENT}"})))
    with patch.object(subscriber_counter, "MOST_MATCHES", at_once):
        found = counts(work(subscribed, *filter(None, rows), settings=COUNTING, slots=slots))
    records: dict[str, Counter[Any]] = {column: Counter() for column in ("deliveries", "size_bytes", "matches")}
    letters, by_id = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for record in published(sink):
        headers = headers_of(record)
        is_letter = record.topic == "dead"
        name = headers["sluice_subscriber"].decode() if is_letter else record.topic.removeprefix("to.")
        ids = json.loads(headers["sluice_subscriptionids" if is_letter else "ce_subscriptionids"])
        if is_letter:
            letters[name, headers["sluice_reason"].decode()] += 1
        else:
            records["deliveries"][name] += 1
            records["size_bytes"][name] += record.size()
        records["matches"][name] += len(ids)
        by_id.update((name, id) for id in ids)
    for column, of_records in records.items():
        assert +_sum(found, column) == of_records
    counted_letters = Counter[tuple[str, str]]()
    for name, of_name in (pair for one in found for pair in one.dead_letters.items()):
        counted_letters.update({(name, reason): n for reason, n in of_name.items()})
    assert counted_letters == letters
    counted_ids = Counter[tuple[str, str]]()
    latest = dict[str, int]()
    for one in found:
        names = list(one.names)
        for id, owner, n in zip(one.ids, one.owner.tolist(), one.id_matches.tolist(), strict=True):
            counted_ids[names[owner], id] += n
        for name, ms in zip(names, one.last_event_ms.tolist(), strict=True):
            latest[name] = max(latest.get(name, NEVER_MS), ms)
    assert counted_ids == by_id
    matched = [(name, ms) for name, values in (*old, *new) for some in batches for x, _, ms in some if x in values]
    assert latest == {
        name: max(ms if ms > 1_000 else NEVER_MS for to, ms in matched if to == name) for name, _ in matched
    }


def _sum(found: list[SubscriberCounts], column: str) -> Counter[str]:
    total = Counter[str]()
    for one in found:
        for name, n in zip(one.names, getattr(one, column).tolist(), strict=True):
            total[name] += n
    return total


def test_nothing_is_counted_unless_it_is_wanted() -> None:
    subscribed = state()
    apply(subscribed, [change(0, "a", {"subscriber": "ann", "pattern": {"x": [1]}})])
    assert counts(work(subscribed, [event(0, {"x": 1})])) == []
    (one,) = counts(work(subscribed, [event(1, {"x": 1})], settings=replace(COUNTING, counts_subscriptions=False)))
    assert (list(one.names), list(one.ids)) == (["ann"], [])


def test_an_aborted_attempt_counts_nothing() -> None:
    subscribed = state()
    apply(subscribed, [change(0, "a", {"subscriber": "ann", "pattern": {"x": [1]}})])
    (one,) = counts(work(subscribed, [event(0, {"x": 1})], settings=COUNTING, slots=Slots(ListSink(aborts=2))))
    assert one.deliveries.tolist() == [1]


@given(st.lists(st.integers(0, 99), max_size=40), st.sampled_from([100, 1_000]))
def test_distinct_numbers_are_found_in_both_ways(numbers: list[int], n: int) -> None:
    array = np.array(numbers, np.int64)
    distinct, of = _distinct(array, n)
    assert distinct.tolist() == sorted(set(numbers))
    assert distinct[of].tolist() == numbers
