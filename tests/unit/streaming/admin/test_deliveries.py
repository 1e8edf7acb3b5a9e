"""The format of a delivery, on a line and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.admin.deliveries import Delivery
from streaming.admin.delivery_view import parts
from tests.support.doubles.topic import Record

EVENT = b'{"symbol": "IBM"}'
HEADERS = {
    "ce_time": "2026-01-02T03:04:05.100Z",
    "ce_subscriptionids": '["s1","s2"]',
    "ce_matchversion": "7",
}
AT_MS = 1_767_323_045_135  # 35 ms later


def delivery(event: bytes | None = EVENT, /, **headers: str) -> Delivery:
    record: Any = Record(None, event, 1, 9, AT_MS, headers)
    return Delivery.of(record)


CASES = {
    "of the job": (delivery(**HEADERS), ("03:04:05.135Z", "    35 ms", "version 7", "s1, s2", EVENT.decode())),
    "of a replay": (
        delivery(**{**HEADERS, "ce_matchversion": "", "sluice_replay": "again"}),
        ("03:04:05.135Z", "    35 ms", "replay again", "s1, s2", EVENT.decode()),
    ),
    "of somebody else": (
        delivery(b"\x1b[2J\n", ce_time="now", ce_subscriptionids="{", ce_matchversion="9" * 5_000),
        ("03:04:05.135Z", "        -", "-", "-", "\\u001b[2J\\n"),
    ),
    "without all": (delivery(None), ("03:04:05.135Z", "        -", "-", "-", "no value")),
    "of many subscriptions": (
        delivery(b"1", ce_subscriptionids=str(["subscription"] * 9).replace("'", '"')),
        ("03:04:05.135Z", "        -", "-", "subscription, subscription, subscript...", "1"),
    ),
}


@pytest.mark.parametrize(("found", "expected"), CASES.values(), ids=CASES)
def test_a_line_says_what_the_delivery_says(found: Delivery, expected: tuple[str, ...]) -> None:
    assert parts(found, 1_000) == expected


def test_a_line_has_of_the_event_what_there_is_room_for() -> None:
    long = delivery(b"x" * 500, **HEADERS)
    assert len("  ".join(parts(long, 100))) == 100
    assert parts(long, 10)[-1] == "x" * 17 + "..."


def test_a_program_gets_all_of_it() -> None:
    assert delivery(**HEADERS).as_data() == {
        "time": "2026-01-02T03:04:05.135Z",
        "latency_ms": 35,
        "matchversion": 7,
        "replay": None,
        "subscriptionids": ["s1", "s2"],
        "partition": 1,
        "offset": 9,
        "value": EVENT.decode(),
    }
    assert delivery(b"\xff").as_data()["value_base64"] == "/w=="
