"""Times of RFC 3339 against Python's datetime, and times as numbers against exact fractions."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import inf, nan, nextafter

from hypothesis import given
from hypothesis import strategies as st

from matchers.language import times
from matchers.language.model import Predicate
from matchers.language.parsing import PER_SECOND, parse

zones = st.integers(-(24 * 60 - 1), 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


def since(moment: datetime) -> Fraction:
    return Fraction((moment - EPOCH) // timedelta(microseconds=1), 10**6)


def text_of(moment: datetime, zeros: int = 0) -> str:
    whole, zone = moment.isoformat(timespec="microseconds")[:-6], moment.isoformat()[-6:]
    return whole + "0" * zeros + zone


@given(moments, moments, st.integers(0, 3))
def test_places_are_in_the_order_of_time(a: datetime, b: datetime, zeros: int) -> None:
    first, second = times.place(text_of(a)), times.place(text_of(b, zeros))
    assert first is not None
    assert second is not None
    assert (first > second, first == second) == (a > b, a == b)


@given(moments)
def test_seconds_since_1970_are_exact(moment: datetime) -> None:
    assert times.since_epoch(moment.isoformat()) == since(moment)


def test_the_calendar_begins_with_the_year_0() -> None:
    first, next_year = (times.since_epoch(f"{year}-01-01T00:00:00Z") for year in ("0000", "0001"))
    assert first is not None
    assert next_year == first + 366 * 86_400
    assert times.place("0000-01-01T00:00:00+23:59") is not None
    assert times.place("9999-12-31T23:59:59-23:59") is not None
    assert times.since_epoch("1970-01-01T00:00:00.000000000001Z") == Fraction(1, 10**12)


@given(moments, st.sampled_from([*PER_SECOND]), st.sampled_from([*COMPARE]), st.integers(-2, 2))
def test_a_number_is_compared_exactly(moment: datetime, unit: str, symbol: str, steps: int) -> None:
    exact = since(moment) * PER_SECOND[unit]
    number = float(exact)
    for _ in range(abs(steps)):
        number = nextafter(number, inf if steps > 0 else -inf)
    (part,) = parse({"x": [{"time": {unit: [symbol, moment.isoformat()]}}]}).parts
    assert isinstance(part, Predicate)
    assert part.accepts(number) is COMPARE[symbol](Fraction(number), exact)
    assert not part.accepts(nan)
    assert part.accepts(inf) is (symbol[0] == ">")
