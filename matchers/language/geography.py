"""Measure the distance of a position, given by two fields, from a point on the earth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import asin, cos, degrees, inf, pi, radians, sin, sqrt

from matchers.language import facets
from matchers.language.facets import NUMBER
from matchers.language.model import Constraint, Interval, Scalar
from matchers.language.operators import is_number, show

RADIUS_M = 6_371_008.8  # of a sphere, the mean one; distances differ from those on the ellipsoid by 0.5 % at most
MARGIN_DEGREES = 1e-5  # by which the ranges are wider than needed: more than what rounding can do


@dataclass(frozen=True, slots=True)
class Within:
    """A latitude that lies, with the longitude of the other field, at most so many metres from a place."""

    latitude: float
    longitude: float
    metres: float

    def against(self, others: Iterable[Scalar]) -> Callable[[Scalar], bool]:
        """Test whether a latitude and one of these longitudes are near enough. The nearest longitude decides."""
        nearest = min((self._turn(number) for other in others if abs(number := _number(other)) <= 180), default=inf)

        def test(value: Scalar) -> bool:
            latitude = _number(value)
            return abs(latitude) <= 90 and nearest <= 180 and self._distance_m(latitude, nearest) <= self.metres

        return test

    def constraints(self) -> tuple[Constraint, Constraint]:
        """The ranges of latitudes and of longitudes in which all such positions lie."""
        angle = self.metres / RADIUS_M
        low, high = (self.latitude + sign * (degrees(angle) + MARGIN_DEGREES) for sign in (-1, 1))
        latitudes = [(max(low, -90.0), min(high, 90.0))]
        if low <= -90 or high >= 90:  # a pole lies within, and all meridians meet there
            longitudes: list[Interval] = [(-180.0, 180.0)]
        else:
            turn = degrees(asin(min(1.0, sin(angle) / cos(radians(self.latitude))))) + MARGIN_DEGREES
            longitudes = [
                (max(self.longitude - turn + whole, -180.0), min(self.longitude + turn + whole, 180.0))
                for whole in (-360.0, 0.0, 360.0)
            ]
        return Constraint({NUMBER: latitudes}), Constraint({NUMBER: [(a, b) for a, b in longitudes if a <= b]})

    def _turn(self, longitude: float) -> float:
        """The degrees between both longitudes, the short way round."""
        turn = abs(longitude - self.longitude)
        return min(turn, 360 - turn)

    def _distance_m(self, latitude: float, turn: float) -> float:
        """The haversine formula."""
        a, b = radians(latitude), radians(self.latitude)
        half = sin((a - b) / 2) ** 2 + _cosine(latitude) * _cosine(self.latitude) * sin(radians(turn) / 2) ** 2
        return RADIUS_M * (2 * asin(sqrt(half)) if half < 1 else pi)

    def __str__(self) -> str:
        place = f"{show(self.latitude)}, {show(self.longitude)}"
        return f"at most {show(self.metres)} m from {place}, with the longitude in"


def _cosine(latitude: float) -> float:
    """The cosine of a latitude in degrees. It is 0 at a pole, whose angle in radians is not exactly a double."""
    return 0.0 if abs(latitude) == 90 else cos(radians(latitude))


def _number(value: Scalar) -> float:
    return facets.number(value) if is_number(value) else inf
