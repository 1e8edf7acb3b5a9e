"""Times with a zone as milliseconds: exact for every year and any number of digits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.documents import instants
from streaming.documents.subscriptions import Rejected, Subscription, read_document

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_800_000  # the years 1 to 9999, in UTC


def expiry(text: Any) -> Subscription:
    return read_document("s", {"subscriber": "alice", "pattern": {}, "expires_at": text}).subscription


@pytest.mark.parametrize(
    ("text", "first_late_ms"),
    [
        ("1970-01-01T00:00:00.005Z", 5),
        ("1970-01-01T00:00:00.0050000000Z", 5),
        ("1970-01-01T00:00:00.0050001Z", 6),  # Python's datetime has six digits
        ("1970-01-01T00:00:00.005000000000000000000000000001Z", 6),
        ("1970-01-01T00:00:00.0053Z", 6),
        ("1970-01-01T00:00:00.0059999Z", 6),
        ("1970-01-01T00:00:00,0053Z", 6),
        ("1969-12-31T23:59:59.9991Z", 0),
        ("1969-12-31T23:59:59.9981Z", -1),
        ("1969-12-31T23:59:59.9980000001Z", -1),
        ("1970-01-01T01:00:00.0000001+01:00", 1),
        ("2030-01-01T00:00:00.123Z", 1_893_456_000_123),
        ("9999-12-31T23:59:59.9999999Z", LAST_MS),
        ("9999-12-31T23:59:59.999-23:59", LAST_MS - 1 + 86_340_000),
        ("0001-01-01T00:00:00+23:59", FIRST_MS - 86_340_000),
        ("0001-01-01T00:00:00.0000009Z", FIRST_MS + 1),
    ],
)
def test_an_event_counts_while_it_is_before_the_expiry_however_fine_that_is(text: str, first_late_ms: int) -> None:
    subscription = expiry(text)
    assert subscription.in_force(first_late_ms - 1)
    assert not subscription.in_force(first_late_ms)


@given(
    second=st.integers(FIRST_MS // 1000, LAST_MS // 1000 - 1),
    digits=st.text("0123456789", min_size=1, max_size=12),
    zone_minutes=st.integers(-1439, 1439),
)
def test_every_time_is_the_next_millisecond_exactly(second: int, digits: str, zone_minutes: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    hours, minutes = divmod(abs(zone_minutes), 60)
    text = (
        f"{moment:%Y-%m-%dT%H:%M:%S}".zfill(19) + f".{digits}{'-' if zone_minutes < 0 else '+'}{hours:02}:{minutes:02}"
    )
    exact = second + Fraction(int(digits), 10 ** len(digits)) - 60 * zone_minutes
    assert instants.milliseconds(text) == ceil(exact * 1000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2030-01-01T00:00:00+05:30", 1_893_456_000_000 - 19_800_000),
        ("2030-01-01T00:00:00+0530", 1_893_456_000_000 - 19_800_000),
        ("20300101T000000+05", 1_893_456_000_000 - 18_000_000),
        ("2030-01-01T00:00:00-00:00", 1_893_456_000_000),
        ("2030-01-01 00Z", 1_893_456_000_000),
        ("2030-W01-2T00:00Z", 1_893_456_000_000),
    ],
)
def test_other_forms_of_iso_8601(text: str, ms: int) -> None:
    assert expiry(text).expires_at_ms == ms


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "2030-01-01T00:00:00",
            "must be a time with its zone, such as 2030-01-01T00:00:00Z, not '2030-01-01T00:00:00'",
        ),
        ("2030-01-01T00:00:00z", "must be a time with its zone, such as 2030-01-01T00:00:00Z, not"),
        ("2030-01-01", "must be a time with its zone"),
        ("2030-01-01T24:00Z", "on the calendar (hour must be in 0..23)"),  # newer versions of Python take it
        ("2030-01-01T24:00:00.000+01:00", "on the calendar (hour must be in 0..23)"),
        ("2016-12-31T23:59:60Z", "on the calendar (second must be in 0..59"),  # a leap second
        ("2030-02-30T00:00Z", "on the calendar (day is out of range for month"),
        ("2030-01-01T00.5Z", "must be a time with its zone"),  # half an hour, which Python reads as half a second
        ("2030-01-01T00:00.5Z", "must be a time with its zone"),
        ("2030-01-01T00:00:00.Z", "must be a time with its zone"),
        ("2030-01-01T00:00:00+01:60", "must be a time with its zone"),
        ("2030-01-01T00:00:00+24:00", "must be a time with its zone"),
        ("2030-01-01T00:00:00+00:00:00.5", "must be a time with its zone"),
        ("2030-01-01T00:00:00\u221201:00", "must be a time with its zone"),
        ("2030-01-01T00:00:00.\u0663Z", "must be a time with its zone"),
        ("0000-01-01T00:00:00Z", "on the calendar (year"),
        ("2030-01-01T00:00:00." + "1" * 900_000, "must be a time with its zone"),
        (1893456000, "must be a time with its zone, such as 2030-01-01T00:00:00Z, not 1893456000"),
        ({}, "must be a time with its zone"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_is_no_time_with_a_zone_is_rejected_with_the_reason(text: Any, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        expiry(text)
    assert str(rejected.value).startswith("expires_at must be a time with its zone")
    assert reason in str(rejected.value)
