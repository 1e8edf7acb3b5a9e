"""The matching stage of a worker and the driver's state, without Spark and without a broker."""

from __future__ import annotations

import json
import logging
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from matchers.index.snapshot import Snapshot
from streaming.documents import records
from streaming.documents.subscriptions import Rejected, read_change
from streaming.driver.limits.load_shedding import LoadShedder
from streaming.errors import Unsettled
from streaming.publishing.contract import LEAST_ATTEMPTS, Aborted
from streaming.rows import EVENTS, SUBSCRIPTIONS, MisreadTimes, Published, ReadProgress, RejectedChange, SlotReport
from streaming.state.event_averages import EventAverages
from streaming.worker import matching, transaction
from tests.support.doubles import broker_logs
from tests.support.doubles.stage import (
    ALICE,
    BOB,
    SETTINGS,
    ListSink,
    Reports,
    Slots,
    apply,
    change,
    delivered,
    event,
    headers_of,
    pipeline,
    published,
    sink_of,
    slots_of,
    state,
    step,
    work,
)
from tests.support.logged import fields_of

pytestmark = pytest.mark.kernels


def test_subscriptions_of_one_subscriber_make_one_delivery() -> None:
    s = state()
    apply(s, [change(0, "b", ALICE), change(1, "a", ALICE), change(2, "c", BOB)])
    found = delivered(s, event(0, {"x": 1}), event(1, {"x": 2}), event(2, {}))
    assert found == {0: {"alice": ["a", "b"], "bob": ["c"]}, 1: {"bob": ["c"]}}


def test_the_last_word_on_an_id_counts_within_a_batch_and_across_batches() -> None:
    s = state()
    apply(
        s,
        [change(0, "a", ALICE), change(1, "b", ALICE), change(2, "a", None)],
        [change(3, "a", BOB), change(4, "b", None), change(5, "c", ALICE), change(6, "c", BOB)],
    )
    assert len(s.snapshot) == 2
    assert delivered(s, event(0, {"x": 1})) == {0: {"bob": ["a", "c"]}}
    apply(s, [change(7, "a", ALICE)])
    assert delivered(s, event(0, {"x": 1})) == {0: {"alice": ["a"], "bob": ["c"]}}
    apply(s, [change(8, "a", None), change(9, "c", None), change(10, "nobody", None)])
    assert len(s.snapshot) == 0
    assert s.version == 11


def test_a_part_is_broadcast_once_and_destroyed_when_no_batch_can_use_it() -> None:
    s = state()
    apply(s, [change(0, "a", ALICE)])
    first = s.work(SETTINGS)[0].parts[0][0].broadcast
    assert s.work(SETTINGS)[0].parts[0][0].broadcast is first
    apply(s, [change(1, "a", BOB)])
    s.work(SETTINGS)
    assert first.destroyed
    assert not s.work(SETTINGS)[0].parts[0][0].broadcast.destroyed


def test_rows_that_were_committed_before_are_dropped() -> None:
    s = state({(EVENTS, 0): 5, (SUBSCRIPTIONS, 0): 2})
    sink = ListSink()
    rows = work(s, [event(4, {"x": 1}), event(5, b"{"), change(1, "a", ALICE)], slots=Slots(sink))
    (letter,) = published(sink)
    assert dict(letter.headers)["sluice_origin_offset"] == b"5"
    assert [type(row) for row in rows] == [ReadProgress, Published, SlotReport]
    assert [(row.offset, row.records) for row in rows if isinstance(row, ReadProgress)] == [(5, 1)]


@pytest.mark.parametrize("shards", [1, 2])
def test_the_driver_learns_what_events_are_like(shards: int) -> None:
    """The driver counts the values of events in the columns of the longest part, and the events that are matched at
    once."""
    p = pipeline(ListSink())
    p.state.snapshot = replace(p.state.snapshot, shards=shards, most=2)
    both = {"subscriber": "alice", "pattern": {"x": [{"numeric": [">", 0]}], "y": ["a", "b"]}}
    step(p, event(99, {"x": 1}, partition=1))  # there is nothing yet that it could meet
    step(p, change(0, "a", both), change(1, "b", both))
    step(p, change(2, "c", {"subscriber": "bob", "pattern": {"z": [1]}}))
    assert p.state.seen == EventAverages()
    step(p, event(0, {"x": 1, "y": "a", "z": 1}), event(1, {"x": 1}), event(2, b"no event"), change(3, "d", both))
    assert p.state.seen == EventAverages(2, 3, 2 * 3)
    step(p, *(event(3 + i, {"y": ["a", "b"], "z": 1}) for i in range(4)), most=2)
    assert p.state.seen == EventAverages(6, 3 + 8, 2 * 3 + 2 * 2 * 2)


def test_a_subscription_ends_when_it_expires() -> None:
    s = state()
    apply(s, [change(0, "a", ALICE | {"expires_at": "1970-01-01T00:00:02Z"})])
    assert delivered(s, event(0, {"x": 1}, timestamp=1_999), event(1, {"x": 1}, timestamp=2_000)) == {
        0: {"alice": ["a"]}
    }


def test_what_never_expires_matches_at_the_last_moment_there_is() -> None:
    s = state()
    apply(s, [change(0, "a", ALICE), change(1, "b", BOB | {"expires_at": "9999-12-31T00:00:00Z"})])
    assert delivered(s, event(0, {"x": 1}, timestamp=2**63 - 1)) == {0: {"alice": ["a"]}}


def test_a_paused_subscription_stays_and_matches_nothing_until_it_is_resumed() -> None:
    s = state()
    apply(s, [change(0, "a", ALICE), change(1, "b", BOB)])
    apply(s, [change(2, "a", ALICE | {"paused": True})])
    assert len(s.snapshot) == 2
    assert "a" in s.snapshot
    assert delivered(s, event(0, {"x": 1})) == {0: {"bob": ["b"]}}
    apply(s, [change(3, "a", ALICE | {"paused": True}), change(4, "b", BOB | {"paused": True})])
    assert len(s.snapshot) == 2
    assert delivered(s, event(0, {"x": 1})) == {}
    apply(s, [change(5, "a", ALICE), change(6, "b", BOB | {"paused": False})])
    assert delivered(s, event(0, {"x": 1})) == {0: {"alice": ["a"], "bob": ["b"]}}


def test_many_of_one_shape_that_are_paused_match_nothing() -> None:
    s = state()
    apply(s, [change(i, f"p{i}", ALICE | {"paused": True}) for i in range(20)] + [change(20, "a", ALICE)])
    assert len(s.snapshot) == 21
    assert delivered(s, event(0, {"x": 1})) == {0: {"alice": ["a"]}}


def test_the_starts_of_many_of_one_shape_are_checked() -> None:
    s = state()
    starts = ["oldest"] * 20 + ["newest"] * 20
    apply(s, [change(i, f"s{i}", ALICE | {"from": start}) for i, start in enumerate(starts)])
    assert len(s.snapshot) == 20


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the record has no value"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"x": NaN}', "not JSON"),
        (b'{"x": "\\ud800"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object but an array"),
        (b"5", "not a JSON object but a number"),
        (b"null", "not a JSON object but null"),
        (b"true", "not a JSON object but a boolean"),
    ],
)
def test_what_is_no_event_is_a_dead_letter_and_the_rest_goes_on(value: bytes | None, reason: str) -> None:
    p = pipeline(ListSink())
    step(p, change(0, "c", BOB))
    letter, delivery = step(p, event(0, value), event(1, {"x": 1}))
    headers = headers_of(letter)
    assert (letter.topic, letter.value, headers["sluice_reason"]) == ("dead", value, b"undecodable_event")
    assert headers["sluice_detail"].decode().startswith(reason)
    assert (delivery.topic, dict(delivery.headers)["ce_id"]) == ("to.bob", b"events-0-1")


@pytest.mark.parametrize("pattern", [{"$not": {"x": [{"wildcard": "a*b*c"}]}}, {"x": [{"contains-none": [1]}]}])
def test_a_condition_that_an_empty_event_meets_is_not_checked_on_what_is_no_event(pattern: dict[str, Any]) -> None:
    p = pipeline(ListSink())
    step(p, change(0, "c", {"subscriber": "bob", "pattern": pattern}))
    letter, delivery = step(p, event(0, b"{"), event(1, {}))
    assert (letter.topic, delivery.topic) == ("dead", "to.bob")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "a deletion (no value) needs the subscription's id as its key"),
        (b"\xff", b"{}", "the record's key is not UTF-8"),
        (b"a", b"{", "not JSON"),
        (b"a", b"[]", "not a JSON object; a subscription is"),
        (b"a", b'{"subscriber": "s", "patern": {}}', "unknown key 'patern'; did you mean 'pattern'?"),
        (b"a", b'{"id": "b", "subscriber": "s", "pattern": {}}', "key is 'a' but the document's id 'b'"),
        (None, b'{"subscriber": "s", "pattern": {}}', "id must be a string of 1 to 200 characters"),
        (None, b'{"id": 5, "subscriber": "s", "pattern": {}}', "id must be a string"),
        (b"a", b'{"pattern": {}}', "subscriber must be 1 to 200 letters"),
        (b"a", b'{"subscriber": "../etc", "pattern": {}}', "not '../etc'"),
        (b"a", b'{"subscriber": "a\\n", "pattern": {}}', "subscriber must be"),
        (b"a", b'{"subscriber": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", "not a deeply nested value"),
        (b"a", b'{"subscriber": "s"}', "pattern is missing"),
        (b"a", b'{"subscriber": "s", "pattern": {"x": [{"prefx": 1}]}}', "field x: unknown operator 'prefx'"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "expires_at": "2030-01-01"}', "a time with its zone"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "expires_at": 5}', "a time with its zone"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "paused": 1}', "paused must be true or false, not 1"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "paused": null}', "paused must be true or false, not None"),
        (b"a", b'{"subscriber": "s", "pattern": {"x": 5}, "paused": true}', "field x: needs a list"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "from": "newest"}', 'from must be "oldest", offsets, or a time'),
        (b"a", b'{"subscriber": "s", "pattern": {}, "from": "2026-02-30T00:00:00Z"}', "and on the calendar"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "from": null}', "offsets such as"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "from": {"events": 5}}', "not {'events': 5}"),
        (b"a", b'{"subscriber": "s", "pattern": {}, "from": "oldest", "paused": true}', "cannot have from"),
    ],
)
def test_what_is_no_subscription_is_rejected_with_a_reason(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        read_change(key, value)
    assert reason in str(rejected.value)


def test_many_changes_of_one_shape_may_all_be_wrong() -> None:
    s = state()
    wrong = [change(i, f"s{i}", {"subscriber": "not a name", "pattern": {"x": ["a"]}}) for i in range(20)]
    rejected = [r for r in work(s, wrong) if isinstance(r, RejectedChange)]
    assert len(rejected) == 20


def test_an_id_may_stand_in_the_key_alone_or_in_the_document_alone() -> None:
    assert read_change(b"a", b'{"subscriber": "s", "pattern": {}}').subscription.id == "a"
    assert read_change(None, b'{"id": "a", "subscriber": "s", "pattern": {}}').subscription.id == "a"


def test_records_and_offsets_are_one_transaction() -> None:
    sink = ListSink()
    p = pipeline(sink)
    accepted, rejected, letter = step(p, change(0, "a", ALICE), change(1, "b", {"subscriber": "?", "pattern": {}}))
    assert json.loads(accepted.value or b"") == {
        "id": "a",
        "status": "accepted",
        "subscriber": "alice",
        "version": 2,
        "in_force_from": {"0": 0},
        "query": "",
        "topic_id": "",
        "read_up_to": {"0": 2},
        "change": {"partition": 0, "offset": 0},
    }
    message = json.loads(rejected.value or b"")
    assert "letters, digits, dots, underscores or hyphens" in message.pop("reason")
    assert message == {
        "id": "b",
        "status": "rejected",
        "version": 2,
        "in_force_from": {"0": 0},
        "query": "",
        "topic_id": "",
        "read_up_to": {"0": 2},
        "in_force": None,
        "change": {"partition": 0, "offset": 1},
    }
    assert dict(letter.headers)["sluice_reason"] == records.REJECTED_SUBSCRIPTION.encode()
    assert sink.transactions[-1][1] == {("subs", 0): 2}
    (delivery,) = step(p, event(0, {"x": 1}, key=b"k", headers=[{"key": "trace", "value": b"t"}]))
    assert (delivery.topic, delivery.key, delivery.value) == ("to.alice", b"k", b'{"x": 1}')
    assert delivery.headers == [
        ("trace", b"t"),
        ("ce_specversion", b"1.0"),
        ("ce_id", b"events-0-0"),
        ("ce_source", b"kafka:events"),
        ("ce_type", b"sluice.event"),
        ("ce_time", b"1970-01-01T00:00:01.000Z"),
        ("ce_matchversion", b"2"),
        ("ce_subscriptionids", b'["a"]'),
    ]
    (paused,) = step(p, change(2, "a", ALICE | {"paused": True}))
    assert json.loads(paused.value or b"") == json.loads(accepted.value or b"") | {
        "status": "paused",
        "version": 3,
        "in_force_from": {"0": 1},
        "read_up_to": {"0": 3},
        "change": {"partition": 0, "offset": 2},
    }
    (resumed,) = step(p, change(3, "a", ALICE))
    assert json.loads(resumed.value or b"")["status"] == "accepted"
    (unsubscribed,) = step(p, change(4, "a", None))
    assert json.loads(unsubscribed.value or b"")["status"] == "unsubscribed"
    assert json.loads(unsubscribed.value or b"")["in_force_from"] == {"0": 1}


def test_cloudevents_attributes_of_the_event_stay_and_ours_cannot_be_forged() -> None:
    p = pipeline(ListSink())
    step(p, change(0, "a", ALICE))
    ours = ("ce_matchversion", "ce_subscriptionids", "sluice_replay", "sluice_approximate", "sluice_attempts")
    forged = [{"key": name, "value": b"theirs"} for name in ("ce_id", *ours)]
    (delivery,) = step(p, event(0, {"x": 1}, headers=forged))
    found = [(k, v) for k, v in delivery.headers if k in ("ce_id", *ours)]
    assert found == [("ce_id", b"theirs"), ("ce_matchversion", b"1"), ("ce_subscriptionids", b'["a"]')]


def test_a_delivery_lies_in_the_partition_that_follows_from_that_of_its_event() -> None:
    p = pipeline(ListSink())
    p.settings = replace(p.settings, partitions=3)
    slots_of(p).partitions_each = 3
    step(p, change(0, "a", ALICE))
    found = step(p, *(event(offset, {"x": 1}, partition=partition) for partition in range(5) for offset in (0, 1)))
    to = {headers_of(r)["ce_id"].decode(): r.partition for r in found}
    assert to == {f"events-{partition}-{offset}": partition % 3 for partition in range(5) for offset in (0, 1)}


@pytest.mark.parametrize(("absent", "reason"), [({"to.alice"}, "missing_topic"), (set(), "oversize")])
def test_what_cannot_be_delivered_is_a_dead_letter(absent: set[str], reason: str) -> None:
    p = pipeline(ListSink(), absent, max_bytes=300)
    step(p, change(0, "a", ALICE), change(1, "b", BOB))
    value = {"x": 1, "long": "x" * (300 if reason == "oversize" else 1)}
    found = {r.topic: dict(r.headers) for r in step(p, event(0, value))}
    assert found["dead"]["sluice_reason"] == reason.encode()
    assert ("to.bob" in found) is (reason == "missing_topic")
    assert found["dead"]["sluice_origin_topic"] == b"events"
    assert found["dead"]["sluice_matchversion"] == b"2"
    assert found["dead"]["sluice_attempts"] == b"1"


def test_an_aborted_transaction_of_the_driver_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried for half a minute: topics that were deleted can look alive for a while."""
    clock = broker_logs.Broker()  # it goes on when somebody waits
    monkeypatch.setattr("streaming.driver.attempts.time", clock)
    p = pipeline(ListSink(aborts=2))
    step(p, change(0, "a", ALICE))
    assert p.state.version == 1
    sink_of(p).aborts = 99
    with pytest.raises(Aborted):
        step(p, change(1, "a", BOB))
    assert p.state.positions[SUBSCRIPTIONS, 0] == 1
    assert 30 < clock.now < 40


def test_an_aborted_transaction_of_a_task_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = broker_logs.Broker()  # it goes on when somebody waits
    monkeypatch.setattr("streaming.driver.attempts.time", clock)
    sink = ListSink()
    p = pipeline(sink)
    step(p, change(0, "a", ALICE))
    sink.aborts = LEAST_ATTEMPTS - 1
    assert len(step(p, event(0, {"x": 1}))) == 1
    assert clock.now == 0.0
    sink.aborts = 9_999
    with pytest.raises(Unsettled, match="aborted 5 times: a topic was deleted"):
        step(p, event(1, {"x": 1}))
    assert 30 < clock.now < 40
    assert p.state.positions[EVENTS, 0] == 1


def test_a_status_has_a_key_though_the_change_has_no_id() -> None:
    """Its topic is compacted: the broker would reject the whole transaction."""
    p = pipeline(ListSink())
    found, _ = step(p, change(0, "a", None) | {"key": b"\xff"})
    assert (found.topic, found.key, json.loads(found.value or b"")["id"]) == ("status", b"", None)


def test_rejected_rows_carry_the_id_where_it_is_known() -> None:
    rows = work(state(), [change(0, "a", {"pattern": 5, "subscriber": "s"})])
    assert [r.id for r in rows if isinstance(r, RejectedChange)] == ["a"]


def test_a_late_job_may_be_roughly_right_until_it_has_caught_up() -> None:
    p = LoadShedder(1_000, (0.01, 0.1))
    rates = []
    for waited in (10, 1_500, 2_000, 3_000, 700, 400, 1_100):
        p.seen(waited)
        rates.append(p.false_positives)
    assert rates == [0.0, 0.01, 0.1, 0.1, 0.1, 0.0, 0.01]
    never = LoadShedder(0, (0.01,))
    never.seen(10**9)
    assert never.false_positives == 0.0


def test_what_is_only_roughly_right_says_so() -> None:
    p = pipeline(ListSink())
    p.state.snapshot = Snapshot(algorithm="wpa_rein")
    step(p, change(0, "a", ALICE))
    p.load_shedder = LoadShedder(1, (0.05,))
    assert "sluice_approximate" not in dict(step(p, event(0, {"x": 1}))[0].headers)
    p.load_shedder.seen(2)
    (delivery,) = step(p, event(1, {"x": 1}))
    assert dict(delivery.headers)["sluice_approximate"] == b"0.05"


def test_a_job_that_waits_for_events_is_not_late() -> None:
    p = pipeline(ListSink())
    p.state.snapshot = Snapshot(algorithm="wpa_rein")
    step(p, change(0, "a", ALICE))
    p.load_shedder = LoadShedder(1, (0.05,))
    p.load_shedder.seen(2)
    step(p)
    assert p.load_shedder.false_positives == 0.0


@pytest.mark.parametrize(("hard", "limit_mb"), [(resource.RLIM_INFINITY, 2_100), (1_500 << 20, 1_500)])
def test_a_worker_gets_its_limit_of_memory_once_with_the_first_task_that_names_one(
    hard: int, limit_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(matching, "_is_bounded", False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    monkeypatch.setattr(Path, "read_text", lambda _: f"VmData:\t{2_000 << 10} kB\n")
    for memory_mb in (0, 100, 100):  # the warm-up has none
        (index,) = state().work(replace(SETTINGS, memory_mb=memory_mb))
        assert [*index([])]
    assert limits == [(limit_mb << 20, hard)]


def test_a_worker_forgets_the_names_of_subscribers_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    p = pipeline(ListSink())
    step(p, change(0, "a", ALICE), change(1, "b", BOB))
    transaction.SUBSCRIBERS.clear()
    monkeypatch.setattr(matching, "MOST_SUBSCRIBERS", 1)
    topics = [[record.topic for record in step(p, event(i, {"x": x}))] for i, x in enumerate((1, 2, 1))]
    assert topics == [["to.alice", "to.bob"], ["to.bob"], ["to.alice", "to.bob"]]
    assert len(transaction.SUBSCRIBERS) == 0


@pytest.mark.parametrize("timestamp", [10**17, -(10**17), 2**63 - 1, -(2**63), -62135596800001, records.NO_TIMESTAMP])
def test_a_time_that_no_calendar_has_is_left_out(timestamp: int) -> None:
    p = pipeline(ListSink())
    step(p, change(0, "a", ALICE))
    (delivery,) = step(p, event(0, {"x": 1}, timestamp=timestamp))
    assert "ce_time" not in dict(delivery.headers)


@pytest.mark.parametrize(
    ("timestamp", "time"),
    [
        (0, b"1970-01-01T00:00:00.000Z"),
        (-2, b"1969-12-31T23:59:59.998Z"),
        (-14831769600000, b"1500-01-01T00:00:00.000Z"),
        (253402300799999, b"9999-12-31T23:59:59.999Z"),
    ],
)
def test_the_time_of_an_event_is_one_of_the_gregorian_calendar(timestamp: int, time: bytes) -> None:
    p = pipeline(ListSink())
    step(p, change(0, "a", ALICE))
    (delivery,) = step(p, event(0, {"x": 1}, timestamp=timestamp))
    assert dict(delivery.headers)["ce_time"] == time


def test_events_without_a_credible_time_do_not_say_how_long_events_wait() -> None:
    now = int(1000 * time.time())
    times = [-(2**63), records.NO_TIMESTAMP, 0, now - 5_000, now - 3_000, now + 10**8, 2**63 - 1]
    rows = work(state(), [event(n, {}, timestamp=ms) for n, ms in enumerate(times)])
    assert [(r.timestamp_ms, r.records) for r in rows if isinstance(r, ReadProgress)] == [(now - 5_000, len(times))]
    rows = work(state(), [event(0, {}, timestamp=0)])
    assert [r.timestamp_ms for r in rows if isinstance(r, ReadProgress)] == [None]


@pytest.mark.parametrize(
    ("timestamp", "misread"), [(-(10**15), True), (-2_208_988_800_001, True), (-1, False), (2**63 - 1, False)]
)
def test_a_worker_says_which_timestamps_spark_may_have_misread(timestamp: int, misread: bool) -> None:
    rows = work(state(), [event(0, {}, timestamp=10**12), event(1, {}, timestamp=timestamp)], exact=False)
    found = [MisreadTimes] if misread else [ReadProgress, Published]
    assert [type(r) for r in rows if not isinstance(r, SlotReport)] == found


@pytest.mark.parametrize(
    ("offsets", "first", "deleted"),
    [
        ((0, 1, 2), 3, []),  # deleted after they were read: nobody asks
        ((3, 4), 3, [(0, 3, 3)]),
        ((0, 4), 4, [(0, 4, 3)]),  # while they were read
        ((1, 3), 0, []),  # ends of transactions
        ((3, 5), 3, [(0, 3, 3)]),  # such an end beyond what is gone
        ((8,), 2, [(0, 2, 2)]),  # the others were dropped by compaction, or were ends
    ],
)
def test_events_that_were_deleted_before_they_were_read_are_counted(
    offsets: tuple[int, ...], first: int, deleted: list[tuple[int, int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("sluice").propagate = True
    p = pipeline(ListSink())
    p.deleted.firsts = lambda partitions: dict.fromkeys(partitions, first)
    p.observer = reports = Reports()
    step(p, *(event(n, {}) for n in offsets), most=1)
    step(p, event(offsets[-1] + 1, {}))
    assert [report.counts["deleted_unread"] for report in reports.seen] == [sum(n for _, _, n in deleted), 0]
    warned = [fields_of(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert [(fields["offset_from"], fields["offset_to"], fields["offset_count"]) for fields in warned] == deleted
