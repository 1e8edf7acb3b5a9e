"""Read times of RFC 3339, exact to any number of digits."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats
_EPOCH_S = date(1970, 1, 1).toordinal() * _DAY_S
_OFFSET_S = 1 << 40  # more than any time has below zero
_LEAP = b":"  # sorts behind all digits
FIRST, END = b"\x00", b"\xff"  # all places lie between


def place(text: str) -> bytes | None:
    """A time as bytes in the order of time: equal times are equal in every zone. None for other texts.

    Eight bytes are the second, the others the digits of its fraction without zeros at the end. A leap second, which is
    23:59:60 of UTC, lies behind all fractions of the second before it.
    """
    read = _read(text)
    if read is None:
        return None
    seconds, fraction, is_leap = read
    return (seconds + _OFFSET_S).to_bytes(8, "big") + _LEAP * is_leap + fraction.rstrip("0").encode()


def since_epoch(text: str) -> Fraction | None:
    """The seconds from 1970 on, without leap seconds. None for texts that are no time, and within a leap second."""
    read = _read(text)
    if read is None or read[2]:
        return None
    seconds, fraction, _ = read
    return seconds - _EPOCH_S + Fraction(int(fraction or "0"), 10 ** len(fraction))


def _read(text: str) -> tuple[int, str, bool] | None:
    """The second, the digits of its fraction, and whether it is the leap second behind it."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, zone_hour, zone_minute = found.groups()[6:]
    if hour > 23 or minute > 59 or second > 60 or int(zone_hour or "0") > 23 or int(zone_minute or "0") > 59:
        return None
    try:
        days = date(year or _CYCLE_YEARS, month, day).toordinal() - (0 if year else _CYCLE_DAYS)
    except ValueError:  # no such day
        return None
    zone_s = int(zone_hour or "0") * _HOUR_S + int(zone_minute or "0") * _MINUTE_S
    is_leap = second == 60
    seconds = days * _DAY_S + hour * _HOUR_S + minute * _MINUTE_S + second - is_leap
    seconds += zone_s if sign == "-" else -zone_s
    if is_leap and seconds % _DAY_S != _DAY_S - 1:
        return None
    return seconds, fraction or "", is_leap
