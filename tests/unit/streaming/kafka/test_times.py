"""Times in the form that people write, and the offsets between two of them."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.kafka.times import Span, moment, spans

NOW_MS = 1_900_000_000_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("90s", NOW_MS - 90_000),
        ("30m", NOW_MS - 1_800_000),
        ("2h", NOW_MS - 7_200_000),
        ("7d", NOW_MS - 604_800_000),
        ("1w", NOW_MS - 604_800_000),
        ("0s", NOW_MS),
        ("999999999w", 0),
        ("2026-01-02T03:04:05Z", 1_767_323_045_000),
        ("2026-01-02T03:04:05.250+01:00", 1_767_319_445_250),
        ("2026-01-02 03:04:05+00:00", 1_767_323_045_000),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_is_a_date_with_its_zone_or_how_long_ago_it_was(text: str, at_ms: int) -> None:
    assert moment(text, NOW_MS) == at_ms


@pytest.mark.parametrize(
    "text", ["", "2h ago", "-2h", "2 h", "2.5h", "h", "2y", "²h", "yesterday", "2026-01-02", "2026-01-02T03:04:05", "5"]
)
def test_what_is_no_time_is_rejected_and_the_error_says_what_would_work(text: str) -> None:
    with pytest.raises(ValueError, match="2030-01-01T00:00:00Z, nor how long ago") as rejected:
        moment(text, NOW_MS)
    assert repr(text) in str(rejected.value)


@pytest.mark.parametrize(
    ("case", "bounds", "since", "until", "found"),
    [
        ("between two events", (0, 10), 3, 7, (3, 7)),
        ("no event since", (0, 10), -1, -1, (10, 10)),
        ("no event after the end", (0, 10), 3, -1, (3, 10)),
        ("the end is now", (0, 10), 3, None, (3, 10)),
        ("both times before the first event", (4, 10), 4, 4, (4, 4)),
        ("removed meanwhile", (5, 10), 3, 7, (5, 7)),
        ("all of it removed meanwhile", (8, 10), 3, 7, (8, 8)),
        ("come since the end was asked for", (0, 10), 11, 12, (10, 10)),
        ("times of events do not ascend", (0, 10), 6, 2, (6, 6)),
        ("an empty partition", (0, 0), -1, -1, (0, 0)),
    ],
)
def test_a_span_is_what_lies_between_the_first_events_of_two_times(
    case: str, bounds: Span, since: int, until: Any, found: Span
) -> None:
    at = ("events", 0)
    assert spans({at: bounds}, {at: since}, {} if until is None else {at: until}) == {at: found}
