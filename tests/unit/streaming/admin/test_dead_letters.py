"""A dead letter holds its original record in full, and other records in its topic are recognised."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from run_stream import app
from streaming.admin import dead_letter_view
from streaming.admin.dead_letters import (
    UNKNOWN,
    DeadLetterFilter,
    DeadLetterPosition,
    StoredDeadLetter,
    marked,
    marker,
    read_letter,
)
from streaming.documents import records
from streaming.documents.records import MAX_IDS_BYTES, MAX_LETTER_BYTES, Headers, Origin, Record, dead_letter
from streaming.kafka.layout import topics
from streaming.rows import ConsumerRecord
from tests.support.doubles.stage import ALICE, ListSink, change, event, pipeline, step

ORIGIN = Origin("events", 3, 17, 1_000)
DELIVERY = {"subscriber": "alice", "subscriptionids": '["a","b"]', "matchversion": "7"}


def row(key: bytes | None = b"k", value: bytes | None = b"v", headers: Headers | None = None) -> ConsumerRecord:
    return ConsumerRecord(*ORIGIN[1:], key, value, headers or ())


def made(of: ConsumerRecord, reason: str = records.UNDECODABLE_EVENT, detail: str = "why", **about: str) -> Record:
    return dead_letter("dead", of, ORIGIN, reason, detail, **about)


def message(record: Record, offset: int = 5, partition: int = 0) -> Message:
    """Return the record as a consumer gives it."""
    return Message(
        topic=record.topic,
        partition=partition,
        offset=offset,
        key=record.key,
        value=record.value,
        headers=list(record.headers) or None,
        timestamp=(1, 2_000),
    )


def letter(record: Record, **where: int) -> StoredDeadLetter:
    return read_letter(message(record, **where))


def size(made: Record) -> int:
    return len(made.value or b"") + len(made.key or b"") + records.size_of(made.headers)


@pytest.mark.parametrize("timestamp", [-(2**63), -1, 0, 2**62, 2**63 - 1])
def test_a_letter_keeps_any_time_of_its_origin(timestamp: int) -> None:
    origin = ORIGIN._replace(timestamp_ms=timestamp)
    found = letter(dead_letter("dead", row(), origin, records.UNDECODABLE_EVENT, "why"))
    assert (found.reason, found.origin) == (records.UNDECODABLE_EVENT, origin)
    assert json.dumps(dead_letter_view.as_data(found))


names = st.sampled_from(["trace", "sluice_reason", "sluice_headers", "sluice_attempts", "sluice_redriven", "é"])
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=4)), max_size=6)
contents = st.none() | st.binary(max_size=4)


@given(key=contents, value=contents, own=headers, reason=st.sampled_from(records.REASONS))
def test_the_record_is_in_its_letter_as_it_was(
    key: bytes | None, value: bytes | None, own: Headers, reason: str
) -> None:
    written = made(row(key, value, own), reason, "why", **DELIVERY, shard="2")
    assert written.headers[: len(own)] == own
    assert dict(written.headers)["sluice_headers"] == str(len(own)).encode()
    assert marked(message(written)) is None
    found = letter(written)
    assert (found.key, found.value, found.headers) == (key, value, own)
    assert (found.place, found.time_ms) == (DeadLetterPosition(0, 5), 2_000)
    assert (found.reason, found.detail, found.origin) == (reason, "why", ORIGIN)
    assert (found.subscriber, found.ids, found.matchversion) == ("alice", '["a","b"]', 7)
    assert found.about == {"shard": "2"}


@pytest.mark.parametrize(
    ("own", "attempts"),
    [
        (None, 1),
        ([("sluice_attempts", b"1")], 2),
        ([("sluice_attempts", b"1"), ("sluice_attempts", b"41")], 42),
        *(
            ([("sluice_attempts", rubbish)], 1)
            for rubbish in (None, b"", b"-1", b"many", b"1.5", b"\xff", b"9" * 5_000)
        ),
    ],
)
def test_a_letter_of_a_record_that_was_sent_again_counts_on(own: Headers | None, attempts: int) -> None:
    assert letter(made(row(headers=own))).attempts == attempts


def test_what_is_sent_to_a_subscriber_does_not_say_how_often_it_was_a_letter() -> None:
    p = pipeline(ListSink())
    step(p, change(0, "a", ALICE))
    own = [{"key": "sluice_attempts", "value": b"1"}, {"key": "empty", "value": None}]
    (delivery,) = step(p, event(0, {"x": 1}, headers=own))
    assert "sluice_attempts" not in dict(delivery.headers)
    assert delivery.headers[0] == ("empty", None)


@pytest.mark.parametrize(
    ("of", "left_out"),
    [
        (row(value=b"v" * (MAX_LETTER_BYTES - 10_000)), {}),
        (row(value=b"v" * MAX_LETTER_BYTES), {"value_bytes": "10000000"}),
        (row(value=b"v" * 19_000_000, headers=[("a", b"b")]), {"value_bytes": "19000000"}),
        (
            row(value=b"v", headers=[("h", b"h" * MAX_LETTER_BYTES)]),
            {"value_bytes": "1", "key_bytes": "1", "headers_bytes": "10000005"},
        ),
        (
            row(key=b"k" * MAX_LETTER_BYTES, value=None),
            {"value_bytes": "0", "key_bytes": "10000000", "headers_bytes": "0"},
        ),
    ],
)
def test_a_letter_fits_its_topic_and_says_what_it_left_out(of: ConsumerRecord, left_out: dict[str, str]) -> None:
    from config import Settings

    (limit,) = (t.config["max.message.bytes"] for t in topics(Settings(), 1, 1) if t.name == "deadletters")
    written = made(of, records.OVERSIZE, "why", **DELIVERY)
    assert size(written) <= MAX_LETTER_BYTES < int(limit)
    found = letter(written)
    assert {name: text for name, text in found.about.items() if name.endswith("_bytes")} == left_out
    assert found.value == (None if left_out else of.value)
    whole = "key_bytes" not in left_out
    assert found.key == (of.key if whole else None)
    assert found.headers == ([*of.headers] if whole else [])
    assert (found.reason, found.subscriber, found.origin) == (records.OVERSIZE, "alice", ORIGIN)


def test_very_many_ids_are_counted_and_a_very_long_reason_is_cut() -> None:
    ids = json.dumps([f"{i:08}" for i in range(20_000)], separators=(",", ":"))
    assert len(ids) > MAX_IDS_BYTES
    found = letter(made(row(), records.OVERSIZE, "é" * 10**6, subscriber="alice", subscriptionids=ids))
    assert found.ids is None
    assert found.about == {"subscriptions": "20000"}
    assert found.detail == "é" * records.MAX_DETAIL_LENGTH
    fitting = json.dumps(["i" * (MAX_IDS_BYTES - 4)])
    assert letter(made(row(), records.OVERSIZE, subscriber="alice", subscriptionids=fitting)).ids == fitting


GOOD = dict(made(row()).headers)


def with_headers(**changes: bytes | None) -> Record:
    """A letter with some of its own headers changed; None takes one away."""
    changed = {**GOOD, **{f"sluice_{name}": value for name, value in changes.items()}}
    return Record("dead", b"k", b"v", [(name, value) for name, value in changed.items() if value is not None])


@pytest.mark.parametrize(
    ("record", "reported"),
    [
        (Record("dead", b"k", b"v", []), "the header sluice_headers is missing"),
        (Record("dead", b"k", b"v", [("sluice_headers", None)]), "the header sluice_headers is missing"),
        (with_headers(headers=None), "the header sluice_headers is missing"),
        (with_headers(headers=b"1"), "the header sluice_headers is missing"),
        (with_headers(headers=b"-1"), "sluice_headers is -1"),
        (with_headers(headers=b"99999"), "the header sluice_headers is missing"),
        (with_headers(headers=b"many"), "'many' is not a number"),
        (with_headers(headers=b"9" * 5_000), "is not a number"),
        (with_headers(headers=b"\xff"), "can't decode"),
        (with_headers(reason=None), "the header sluice_reason is missing"),
        (with_headers(reason=b"boredom"), "unknown reason 'boredom'; known: undecodable_event, "),
        (with_headers(detail=None), "the header sluice_detail is missing"),
        (with_headers(detail=b"\xff"), "can't decode"),
        (with_headers(origin_offset=None), "the header sluice_origin_offset is missing"),
        (with_headers(origin_partition=b"one"), "'one' is not a number"),
        (with_headers(attempts=b""), "'' is not a number"),
        (with_headers(subscriber=b"../x"), "'../x' is not the name of a subscriber"),
        (with_headers(subscriptionids=b"a"), "unexpected character"),
        (with_headers(subscriptionids=b"[1]"), "not a JSON list of strings"),
        (Record("dead", None, None, [("sluice_redriven", b"0")]), "the header sluice_headers is missing"),
    ],
)
def test_what_somebody_else_wrote_is_unknown_and_stays_as_it_is(record: Record, reported: str) -> None:
    assert marked(message(record)) is None
    found = letter(record)
    assert (found.reason, found.origin) == (UNKNOWN, None)
    assert found.detail.startswith("the job did not write it: ")
    assert reported in found.detail
    assert (found.key, found.value, found.headers) == (record.key, record.value, record.headers)
    assert dead_letter_view.as_data(found)["reason"] == UNKNOWN
    assert list(dead_letter_view.page(found))


def test_a_marker_names_one_letter_and_lies_in_its_partition() -> None:
    record = marker("dead", DeadLetterPosition(2, 9))
    assert record.partition == 2
    assert marked(message(record)) == DeadLetterPosition(2, 9)
    for other in (record._replace(key=b""), record._replace(value=b""), record._replace(headers=record.headers * 2)):
        assert marked(message(other)) is None


LETTER = StoredDeadLetter(DeadLetterPosition(0, 5), 2_000, "oversize", "why", b"k", b"v", [], ORIGIN, 1, "alice")


@pytest.mark.parametrize(
    ("wanted", "is_wanted"),
    [
        (DeadLetterFilter(), True),
        (DeadLetterFilter(reasons=frozenset({"oversize", "over_quota"})), True),
        (DeadLetterFilter(reasons=frozenset({"over_quota"})), False),
        (DeadLetterFilter(subscriber="alice"), True),
        (DeadLetterFilter(subscriber="bob"), False),
        (DeadLetterFilter(origin_topic="events"), True),
        (DeadLetterFilter(origin_topic="other"), False),
        (DeadLetterFilter(since_ms=2_000), True),
        (DeadLetterFilter(since_ms=2_001), False),
        (DeadLetterFilter(until_ms=2_001), True),
        (DeadLetterFilter(until_ms=2_000), False),
        (DeadLetterFilter(places=frozenset({DeadLetterPosition(0, 5), DeadLetterPosition(0, 6)})), True),
        (DeadLetterFilter(places=frozenset({DeadLetterPosition(1, 5)})), False),
        (
            DeadLetterFilter(
                frozenset({"oversize"}), "alice", "events", 0, 3_000, frozenset({DeadLetterPosition(0, 5)})
            ),
            True,
        ),
        (
            DeadLetterFilter(
                frozenset({"oversize"}), "alice", "events", 0, 3_000, frozenset({DeadLetterPosition(0, 6)})
            ),
            False,
        ),
    ],
)
def test_a_letter_is_wanted_if_all_that_is_asked_holds_for_it(wanted: DeadLetterFilter, is_wanted: bool) -> None:
    assert wanted(LETTER) is is_wanted
    nobody = StoredDeadLetter(LETTER.place, 2_000, UNKNOWN, "", None, None, [])
    assert wanted(nobody) is (wanted.reasons | {wanted.subscriber, wanted.origin_topic} == {None} and is_wanted)


@pytest.mark.parametrize("text", ["", "0", "0:", ":1", "a:1", "-1:0", "0:1:2", " 0:1", "0:" + "9" * 30])
def test_a_place_is_a_partition_and_an_offset(text: str) -> None:
    assert DeadLetterPosition.of("3:14") == (3, 14)
    assert str(DeadLetterPosition.of("3:14")) == "3:14"
    with pytest.raises(ValueError, match="is not the position of a dead letter; write PARTITION:OFFSET"):
        DeadLetterPosition.of(text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"a":[1,2],"b":"\xc3\xa9"}', '{\n  "a": [\n    1,\n    2\n  ],\n  "b": "é"\n}'),
        (b"{not json,\n\tbut text", "{not json,\n\tbut text"),
        (b'"\\u001b[2J"', '"\\u001b[2J"'),
        (b'"\xc2\x9b"', '"\\u009b"'),
        (b'"\\ud800"', '"\\ud800"'),
        (b"\x1b[2J", "00000000  1b 5b 32 4a                                      .[2J"),
        (bytes(range(0x41, 0x52)), "ABCDEFGHIJKLMNOPQ"),
        (b"", ""),
        (b"\xff" * 17, f"00000000  {' '.join(['ff'] * 16)}  {'.' * 16}\n00000010  ff{' ' * 47}."),
        (b"[" * 10**5, "[" * 10**5),
    ],
)
def test_a_value_is_shown_as_json_as_text_or_as_bytes(value: bytes, shown: str) -> None:
    found = "\n".join(dead_letter_view.page(letter(made(row(value=value)))))
    assert found.endswith(f"the value, {len(value):,} bytes:\n{shown}")


def test_a_long_value_that_is_no_text_is_shown_in_part_and_one_that_was_left_out_is_not() -> None:
    *_, last, rest = dead_letter_view.page(letter(made(row(value=b"\0" * 1_000))))
    assert last.startswith("000001f0  ")
    assert rest == "and 488 more bytes"
    *_, reported = dead_letter_view.page(letter(made(row(value=b"v" * MAX_LETTER_BYTES))))
    assert reported == "the value, 10000000 bytes, was left out"


def test_all_of_a_letter_is_shown_each_fact_on_its_line() -> None:
    own: Headers = [("a", b"1\n\x1b"), ("n", None), ("x", b"\xff")]
    found = letter(made(row(b"\xfe", b"[]", own), records.OVERSIZE, "1001 bytes\n", **DELIVERY, more="other"))
    lines = list(dead_letter_view.page(replace(found, redriven=True)))
    assert "\n".join(lines[:14]) == (
        "position       0:5\n"
        "time           1970-01-01 00:00:02.000Z\n"
        "reason         oversize\n"
        "detail         1001 bytes\\n\n"
        "origin         events 3:17, 1970-01-01 00:00:01.000Z\n"
        "attempts       1\n"
        "redriven       yes\n"
        "subscriber     alice\n"
        'subscriptions  ["a","b"]\n'
        "matchversion   7\n"
        "more           other\n"
        "key            0xfe\n"
        "\n"
        "3 headers:"
    )
    assert lines[14:17] == ["  a: 1\\n\\u001b", "  n: null", "  x: 0xff"]


def test_json_has_all_of_a_letter_and_says_which_bytes_are_no_text() -> None:
    own: Headers = [("a", b"1"), ("n", None), ("x", b"\xff")]
    found = letter(made(row(b"\xfe", b"v", own), records.OVERSIZE, **DELIVERY, more="other"))
    assert json.loads(json.dumps(dead_letter_view.as_data(found))) == {
        "position": "0:5",
        "time": "1970-01-01T00:00:02.000Z",
        "reason": "oversize",
        "detail": "why",
        "origin": {"topic": "events", "partition": 3, "offset": 17, "timestamp_ms": 1_000},
        "attempts": 1,
        "redriven": False,
        "subscriber": "alice",
        "subscriptionids": ["a", "b"],
        "matchversion": 7,
        "about": {"more": "other"},
        "headers": [{"name": "a", "value": "1"}, {"name": "n", "value": None}, {"name": "x", "value_base64": "/w=="}],
        "key_base64": "/g==",
        "value": "v",
    }


@pytest.mark.parametrize("reason", [*records.REASONS, UNKNOWN])
@pytest.mark.parametrize("topic", ["events", "a.topic.with.quite.a.long.name"])
def test_a_row_of_the_list_fits_into_80_columns(reason: str, topic: str) -> None:
    origin = None if reason == UNKNOWN else Origin(topic, 12, 123_456, 10**17)
    one = StoredDeadLetter(
        DeadLetterPosition(12, 34_567), 10**12, reason, "why " * 50, b"k", b"v", [], origin, 12, "alice", redriven=True
    )
    first, second = dead_letter_view.row(one, 80).split("\n")
    assert max(len(first), len(second), len(dead_letter_view.heading())) <= 80
    assert first.startswith(f"12:34567 2001-09-09 01:46:40 {reason} ")
    assert first.endswith(" -" if origin is None else " 12:123456")
    assert second.startswith("  (redriven) for alice: why why ")


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (
            ["list", "--reason", "boredom"],
            "unknown reason boredom; known: undecodable_event, oversize_event, poison_event, ",
        ),
        (["list", "--since", "noon"], "--since: 'noon' is neither"),
        (["list", "--since", "1h", "--until", "2h"], "--since must be before --until"),
        (["list", "--limit", "0"], "Invalid value for '--limit'"),
        (["show", "five"], "'five' is not the position of a dead letter; write PARTITION:OFFSET, such as 0:12"),
        (["redrive"], "name positions of dead letters, or pass filters, or --all-letters"),
        (["redrive", "--dry-run"], "name positions of dead letters"),
        (["redrive", "--all-letters", "0:5"], "name positions of dead letters"),
        (["redrive", "0:5", "five"], "'five' is not the position of a dead letter"),
    ],
)
def test_a_wrong_command_is_rejected_before_any_broker_is_asked(command: list[str], reported: str) -> None:
    rejected = CliRunner().invoke(app, ["dlq", *command], env={"COLUMNS": "250"})
    assert rejected.exit_code == 2
    assert reported in rejected.output
