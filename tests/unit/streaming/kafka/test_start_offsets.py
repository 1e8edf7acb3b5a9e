"""The offsets at which a job begins, given committed offsets and the topics."""

from __future__ import annotations

import logging

import pytest

from streaming.errors import OffsetsBeyondEnd
from streaming.kafka.start_offsets import Beginning, Bounds, with_a_batch
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition
from tests.support.logged import fields_of

E0, E1, S0 = (EVENTS, 0), (EVENTS, 1), (SUBSCRIPTIONS, 0)
BOUNDS: Bounds = {E0: (5, 20), E1: (0, 8), S0: (2, 9)}


def begin(committed: dict[SourcePartition, int], latest: bool = False) -> Beginning:
    return Beginning.of(BOUNDS, committed, {EVENTS: "events", SUBSCRIPTIONS: "subs"}, latest)


@pytest.mark.parametrize(
    ("committed", "latest", "positions", "deleted"),
    [
        ({}, False, {E0: 5, E1: 0, S0: 9}, {}),
        ({}, True, {E0: 20, E1: 8, S0: 9}, {}),
        ({E0: 7, E1: 8, S0: 9}, False, {E0: 7, E1: 8, S0: 9}, {}),
        ({E0: 7, S0: 9}, True, {E0: 7, E1: 0, S0: 9}, {}),  # a partition that was added
        ({E0: 3, E1: 1, S0: 1}, False, {E0: 5, E1: 1, S0: 1}, {E0: (3, 5)}),  # compaction deletes changes, and may
        ({E1: 1, S0: 9}, False, {E0: 5, E1: 1, S0: 9}, {E0: (0, 5)}),
    ],
)
def test_a_job_begins_where_the_last_one_ended_or_at_what_is_left(
    committed: dict[SourcePartition, int],
    latest: bool,
    positions: dict[SourcePartition, int],
    deleted: dict[SourcePartition, tuple[int, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = begin(committed, latest)
    assert (found.positions, found.deleted, found.first_start) == (positions, deleted, not committed)
    assert not caplog.records


@pytest.mark.parametrize(("at", "what"), [(E1, "events, partition 1: .* 9 .* beyond the end, 8"), (S0, "subs, .* 10 ")])
def test_offsets_beyond_the_end_are_not_of_this_topic(at: SourcePartition, what: str) -> None:
    with pytest.raises(OffsetsBeyondEnd, match=what):
        begin({E0: 7, E1: 8, S0: 9} | {at: {E1: 9, S0: 10}[at]})


@pytest.mark.parametrize(("committed", "topic"), [({S0: 9}, "events"), ({E0: 7, E1: 8}, "subs")])
def test_a_topic_without_any_committed_offset_was_made_again(
    committed: dict[SourcePartition, int], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("sluice").propagate = True
    begin(committed)
    assert [(record.message, fields_of(record)["topic"]) for record in caplog.records] == [
        ("topic_offsets_missing", topic)
    ]


def test_without_an_offset_of_changes_they_are_all_taken_into_account_before_the_first_event() -> None:
    found = begin({E0: 7, E1: 8})
    assert (found.positions, found.first_start) == ({E0: 7, E1: 8, S0: 9}, True)


def test_one_of_two_topics_of_subscriptions_without_offsets_is_read_from_its_first_record() -> None:
    tenant = SUBSCRIPTIONS + 1, 0
    names = {EVENTS: "events", SUBSCRIPTIONS: "subs", SUBSCRIPTIONS + 1: "tenant"}
    found = Beginning.of({**BOUNDS, tenant: (0, 6)}, {E0: 7, E1: 8, S0: 9}, names, latest=False)
    assert (found.positions, found.first_start) == ({E0: 7, E1: 8, S0: 9, tenant: 0}, False)


def test_a_topic_that_was_added_is_read_from_its_first_record_and_has_lost_nothing() -> None:
    added = EVENTS + 1, 0
    names = {EVENTS: "events", EVENTS + 1: "added", SUBSCRIPTIONS: "subs"}
    found = Beginning.of({**BOUNDS, added: (4, 6)}, {E0: 7, E1: 8, S0: 9}, names, latest=True)
    assert (found.positions, found.deleted) == ({E0: 7, E1: 8, S0: 9, added: 4}, {})


@pytest.mark.parametrize(
    ("positions", "begins"),
    [
        ((5, 9), (4, 9)),  # all is read: the last record once more
        ((4, 9), (4, 9)),  # there is a batch anyhow
        ((5, 8), (5, 8)),
    ],
)
def test_spark_has_a_first_batch_if_there_is_any_record(positions: tuple[int, int], begins: tuple[int, int]) -> None:
    bounds = {(EVENTS, 0): (0, 0), (EVENTS, 1): (2, 5), (SUBSCRIPTIONS, 0): (0, 9)}
    at = [(EVENTS, 1), (SUBSCRIPTIONS, 0)]
    found = with_a_batch({(EVENTS, 0): 0} | dict(zip(at, positions, strict=True)), bounds)
    assert found == {(EVENTS, 0): 0} | dict(zip(at, begins, strict=True))


def test_without_any_record_there_is_no_first_batch() -> None:
    empty = {(EVENTS, 0): 3, (SUBSCRIPTIONS, 0): 0}
    assert with_a_batch(empty, {(EVENTS, 0): (3, 3), (SUBSCRIPTIONS, 0): (0, 0)}) == empty
