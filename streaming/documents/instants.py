"""Parse an ISO 8601 time with its zone to milliseconds since the epoch.

Kafka's timestamps are whole milliseconds. A time between two of them becomes the later one: a timestamp is before the
time if and only if it is less than that. All arithmetic is in integers.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

EXAMPLE = "2030-01-01T00:00:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

# datetime.fromisoformat takes more than it understands: it reads 00.5 as half a second, not half an hour, +01:60 as
# +02:00, +00:00:00.5 as +00:00, and the newer ones take 24:00. It cuts a fraction
# after six digits, so the rest of it is a group here.
_TIME = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d(?:-\d)?|\d{4}W\d\d\d?)."
    r"(?P<hour>\d\d)(?::?\d\d(?::?\d\d(?:[.,]\d{1,6}(?P<rest>\d*))?)?)?"
    r" ?(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d)?)?)",
    re.ASCII | re.DOTALL,
)


def milliseconds(text: str) -> int:
    """Milliseconds since the epoch. Raises ValueError with the required form."""
    form = _TIME.fullmatch(text)
    if form is None:
        raise ValueError(f"a time with its zone, such as {EXAMPLE}")
    try:
        if form["hour"] == "24":
            raise ValueError("hour must be in 0..23")
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"a time with its zone, such as {EXAMPLE}, and on the calendar ({error})") from None
    ms, remainder = divmod(moment - _EPOCH, _MS)
    return ms + bool(remainder or (form["rest"] or "").strip("0"))


def at(moment: datetime) -> int:
    """The millisecond of a time."""
    return (moment - _EPOCH) // _MS
