"""Distances on the earth: known ones, and ranges that hold every position that is near enough."""

from __future__ import annotations

from math import cos, dist, radians, sin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matchers.language.facets import NUMBER
from matchers.language.geography import RADIUS_M, Within
from matchers.language.lookup import closed_test

latitudes = st.floats(-90, 90) | st.sampled_from([-90.0, 90.0, 89.99999, 0.0])
longitudes = st.floats(-180, 180) | st.sampled_from([-180.0, 180.0, 179.99999, 0.0])
distances = st.floats(0, 2.1e7) | st.sampled_from([0.0, 1e-3, 1.0, RADIUS_M])


def is_within(place: Within, latitude: float, longitude: float) -> bool:
    return place.against([longitude])(latitude)


@pytest.mark.parametrize(
    ("a", "b", "km"),
    [
        ((48.2082, 16.3738), (40.7128, -74.0060), 6_805.0),  # Vienna, New York
        ((-33.8688, 151.2093), (-34.6037, -58.3816), 11_801.0),  # Sydney, Buenos Aires
        ((0.0, 0.0), (0.0, 180.0), 20_015.1),
        ((90.0, 0.0), (-90.0, 77.0), 20_015.1),
    ],
)
def test_known_distances(a: tuple[float, float], b: tuple[float, float], km: float) -> None:
    assert is_within(Within(*a, 1005 * km), *b)
    assert not is_within(Within(*a, 995 * km), *b)


@pytest.mark.parametrize("pole", [90, -90.0])
@pytest.mark.parametrize(("longitude", "other"), [(0.0, 90.0), (-180.0, 0.0), (16.4, 180.0)])
def test_a_pole_has_one_position_at_all_longitudes(pole: float, longitude: float, other: float) -> None:
    assert is_within(Within(pole, longitude, 0.0), pole, other)
    assert not is_within(Within(pole, longitude, 0.0), -pole, other)


@given(latitudes, longitudes, latitudes, longitudes, distances)
def test_a_position_is_within_if_the_straight_line_through_the_earth_is_short_enough(
    latitude: float, longitude: float, latitude_2: float, longitude_2: float, metres: float
) -> None:
    points = [
        (cos(radians(a)) * cos(radians(b)), cos(radians(a)) * sin(radians(b)), sin(radians(a)))
        for a, b in ((latitude, longitude), (latitude_2, longitude_2))
    ]
    line, longest = dist(*points), 2 * sin(min(metres / RADIUS_M, radians(180)) / 2)
    if abs(line - longest) > 1e-6:
        assert is_within(Within(latitude, longitude, metres), latitude_2, longitude_2) is (line < longest)


@given(latitudes, longitudes, latitudes, longitudes, distances)
@example(0.0, 0.0, 0.0, 90.0, RADIUS_M * radians(90))
@example(89.99999, 0.0, 89.99999, 180.0, 3.0)
@example(0.0, 179.99999, 0.0, -179.99999, 3.0)
def test_all_that_is_near_enough_lies_in_the_ranges(
    latitude: float, longitude: float, latitude_2: float, longitude_2: float, metres: float
) -> None:
    place = Within(latitude, longitude, metres)
    if is_within(place, latitude_2, longitude_2):
        of_latitude, of_longitude = (closed_test(c.regions[NUMBER]) for c in place.constraints())  # type: ignore[arg-type]
        assert of_latitude(latitude_2)
        assert of_longitude(longitude_2)


def test_the_nearest_of_very_many_longitudes_is_found_once() -> None:
    test = Within(0, 10, 1_000).against([180 * n / 100_000 for n in range(100_000)])
    assert sum(test(0.001 * n) for n in range(10_000)) == 9
