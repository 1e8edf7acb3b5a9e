"""The start in a record, and the offsets between a start and live deliveries."""

from __future__ import annotations

from typing import Any

import pytest

from config.model import Settings
from streaming.admin.start_position import header_of, live_from, oldest_first, paused_first, start_of, until_live
from streaming.admin.subscription_topic import StoredSubscription, last_written
from streaming.documents.change_order import Decisions
from streaming.errors import JobError
from tests.support.doubles.topic import Record

DOCUMENT = {"subscriber": "alice", "pattern": {"x": [1]}}
AT = ("events", 0)


def word(**headers: str) -> StoredSubscription:
    return last_written([Record("a", DOCUMENT, headers=headers)], ["a"], Decisions())["a"]


def test_a_record_keeps_its_start() -> None:
    start = {("events", 10): 7, ("events", 2): 0, ("quotes", 0): 1 << 40}
    assert start_of(word(**{name: value.decode() for name, value in header_of(start).items()})) == start  # type: ignore[union-attr]
    assert start_of(word(other="x")) is None


@pytest.mark.parametrize(
    "header", ["", "{", "[]", "5", '{"events": 5}', '{"events": {"x": 5}}', '{"events": {"0": []}}']
)
def test_a_start_that_others_wrote_is_named(header: str) -> None:
    with pytest.raises(JobError, match="the header sluice_start of the subscription 'a'"):
        start_of(word(sluice_start=header))


@pytest.mark.parametrize(
    ("bounds", "start", "live", "span"),
    [
        ((0, 9), {AT: 2}, {AT: 7}, (2, 7)),
        ((0, 9), {AT: 7}, {AT: 7}, (7, 7)),
        ((0, 9), {AT: 8}, {AT: 7}, (7, 7)),  # it begins after live deliveries have begun
        ((4, 9), {AT: 2}, {AT: 7}, (4, 7)),  # retention took the first
        ((8, 9), {AT: 2}, {AT: 7}, (8, 8)),  # it took all
        ((0, 9), {}, {AT: 7}, (0, 7)),  # the partition was added after the start was written
        ((0, 9), {AT: 2}, {}, (0, 0)),  # and after the status: the job matches it from its first event on
        ((3, 9), {}, {}, (3, 3)),
        ((0, 5), {AT: 2}, {AT: 7}, (2, 7)),  # it is shorter than it was, which the replay reports
    ],
)
def test_a_replay_ends_where_live_deliveries_begin(bounds: Any, start: Any, live: Any, span: Any) -> None:
    assert until_live({AT: bounds}, start, live) == {AT: span}


@pytest.mark.parametrize(
    ("statuses", "first"),
    [
        (["paused"], 0),
        (["accepted", "paused"], 1),
        (["paused", "accepted", "paused", "paused", "paused"], 2),
        (["paused", "unsubscribed", "paused"], 2),
    ],
)
def test_a_pause_begins_with_the_first_paused_document_since_the_last_that_was_not(
    statuses: list[str], first: int
) -> None:
    assert paused_first([{"status": status, "n": n} for n, status in enumerate(statuses)])["n"] == first


def test_statuses_keep_their_order_after_a_tenant_was_left_out() -> None:
    statuses = [(0, {"version": 9, "read_up_to": {"0": 5}}), (2, {"version": 7, "read_up_to": {"0": 6, "1": 1}})]
    assert oldest_first(statuses) == oldest_first(statuses[::-1]) == [status for _, status in statuses]


@pytest.mark.parametrize(
    ("statuses", "versions"),
    [
        ([(0, 5), (0, 7), (0, 3)], [5, 7, 3]),  # in one partition they come in order
        ([(0, 5), (0, 7), (2, 6)], [5, 6, 7]),  # partitions were added
        ([], []),
    ],
)
def test_statuses_come_in_the_order_in_which_the_job_wrote_them(
    statuses: list[tuple[int, int]], versions: list[int]
) -> None:
    found = oldest_first([(partition, {"version": version}) for partition, version in statuses])
    assert [status["version"] for status in found] == versions


def test_a_status_names_offsets_of_one_topic_or_of_each() -> None:
    one, two = Settings(), Settings.model_validate({"events": {"topics": ["events", "quotes"]}})
    by_partition = {"id": "a", "in_force_from": {"0": 5, "11": 9}}
    by_topic = {"id": "a", "in_force_from": {"events": {"0": 5}, "quotes": {"3": 2}}}
    assert live_from(one, by_partition) == {("events", 0): 5, ("events", 11): 9}
    assert live_from(two, by_topic) == live_from(one, by_topic) == {("events", 0): 5, ("quotes", 3): 2}
    assert live_from(two, {"id": "a", "in_force_from": {}}) == {}
    with pytest.raises(JobError, match="the status of 'a' names no topic"):
        live_from(two, by_partition)
