"""Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", section 4 and appendix B.

Each figure varies one parameter of the default scenario (bench/workloads/filters.py) and asks for interfaces. The
values on the axes stand in the images only; ours span what the text says of them, and a range of two keeps its spread.
The exponent of the Zipf distribution is not said; ours is 1. BETree 1.3, which nobody published, is not among the
algorithms. Its OCM runs on six cores and its CCM on a GPU, the others on one core. Figures 5 and 10 and table 4 are
about a whole system.
"""

from __future__ import annotations

from dataclasses import replace

from bench.papers.figures import Figure, Point, Ratio, Value, lines, over
from bench.workloads.distributions import Distribution
from bench.workloads.filters import Filters

DEFAULT = Filters()
FILTERS = DEFAULT.average  # 250,000; a million constraints
ALL = lines("scan", "counting", "sff", "ocm", "ccm", "be_tree", "tiles")
MEAN_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9)


def around(mean: int) -> tuple[int, int]:
    """The bounds around a number, in the ratio of 3-5 to 4."""
    return (mean - 1, mean + 1) if mean > 1 else (mean, mean)


def filters(mean: float) -> dict[str, object]:
    """The bounds of filters behind an interface, in the ratio of 22,500-27,500 to 25,000."""
    return {"filters": (round(0.9 * mean), round(1.1 * mean))}


def constraints(in_all: int) -> tuple[Point, ...]:
    """Points that differ in the constraints of a filter, with the same number of constraints in all."""
    return tuple(
        Point(mean, {"constraints": around(mean), **filters(in_all / mean / DEFAULT.interfaces)}) for mean in MEAN_SIZES
    )


def times(
    ccm: tuple[float, float], ocm: tuple[float, float], x: float | None = None, scope: str = "on average"
) -> tuple[Ratio, ...]:
    """The time of SFF and of BETree as a multiple of each algorithm of PCM."""
    return tuple(
        Ratio(to, of, value, x, scope=scope)
        for of, values in (("ccm", ccm), ("ocm", ocm))
        for to, value in zip(("sff", "be_tree"), values, strict=True)
    )


def figure(number: str, title: str, axis: str, points: tuple[Point, ...], workload: Filters = DEFAULT) -> Figure:
    return Figure("pcm", number, title, axis, points, workload, ALL, real=False)


FIGURES = (
    replace(
        figure(
            "table2",
            "Processing time in the default scenario",
            "events that are matched together, at most",
            (Point(1, batch=1), Point(1_000, batch=1_000)),
        ),
        stated=(
            Value("ccm", 1, 20.5),
            Value("ocm", 1, 9.1),
            Value("sff", 1, 1_353),
            Value("be_tree", 1, 326),
            Value("be_tree", None, 31, scope="version 1.3"),
            *times((66, 15.9), (148.7, 35.8), 1, "one by one"),
        ),
        log_x=True,
        note="The paper has one event at a time.",
    ),
    replace(
        figure(
            "6",
            "Effect of the number of attributes",
            "attributes of an event, on average",
            tuple(Point(mean, {"attributes": around(mean)}) for mean in MEAN_SIZES),
        ),
        stated=(
            Ratio("sff", "ccm", 24.9, 1, scope="fewest attributes"),
            Ratio("sff", "ccm", 58.4, 9, scope="9 attributes"),
            Ratio("ccm", "ocm", 2.4, 1, scope="fewest attributes"),
            Ratio("ccm", "ocm", 0.46, 9, scope="9 attributes"),
            Ratio("be_tree", "ccm", 20.7, 1, scope="fewest attributes"),
            Ratio("be_tree", "ccm", 8.2, 9, scope="9 attributes"),
            Ratio("be_tree", "ocm", 48.8, 1, scope="fewest attributes"),
            Ratio("be_tree", "ocm", 3.7, 9, scope="9 attributes"),
        ),
        note="How many the fewest attributes are is not said; here it is 1.",
    ),
    figure(
        "7",
        "Effect of the number of constraints per filter, a million in all",
        "constraints of a filter, on average",
        constraints(1_000_000),
    ),
    replace(
        figure(
            "8",
            "Effect of the number of filters per interface",
            "filters behind an interface, on average",
            tuple(Point(n, filters(n)) for n in (100, 1_000, 10_000, 25_000, 100_000, 250_000)),
        ),
        stated=times((697.7, 60.4), (1_180.7, 102.3), 250_000, "250,000 filters"),
        log_x=True,
    ),
    replace(
        figure(
            "9",
            "Effect of the number of interfaces",
            "interfaces",
            over("interfaces", (10, 25, 50, 75, 100)),
        ),
        stated=times((658.7, 60.7), (1_193.3, 109.9), 100, "at most; ours at 100 interfaces"),
    ),
    *(
        figure(
            number,
            f"Effect of the number of constraints per filter, {what} in all",
            "constraints of a filter, on average",
            points,
            workload,
        )
        for number, what, points, workload in (
            (
                "11a",
                "25,000 filters",
                tuple(Point(mean, {"constraints": around(mean)}) for mean in MEAN_SIZES),
                DEFAULT.about(25_000),
            ),
            ("11b", "200,000 constraints", constraints(200_000), DEFAULT),
            ("11c", "a million constraints", constraints(1_000_000), DEFAULT),
            ("11d", "five million constraints", constraints(5_000_000), DEFAULT),
        )
    ),
    replace(
        figure("12", "Effect of the number of names", "names", over("names", (10, 30, 100, 300, 1_000))),
        log_x=True,
    ),
    figure(
        "13",
        "Effect of the type of constraints",
        "share of constraints on numbers; the others are on texts",
        over("numerical", (0.0, 0.25, 0.5, 0.75, 1.0)),
    ),
    replace(
        figure(
            "14",
            "Events in parallel",
            "events that are matched together",
            tuple(Point(n, batch=n) for n in (1, 2, 4, 6, 8, 16, 32)),
        ),
        stated=(
            Value("sff", 1, 1_350),
            Value("sff", None, 360, scope="several at once on six cores"),
            Value("ccm", 1, 23.9),
            Value("ccm", 32, 11.0),
            Ratio("ccm", "ccm", round(11.0 / 23.9, 4), 32, 1, scope="32 at a time to 1"),
        ),
        note="The paper has so many events on so many cores, or in one kernel; here it is the batch.",
    ),
    replace(
        figure(
            "table3",
            "Processing time, time to build, and memory",
            "distribution of names",
            tuple(
                Point(x, {"name_distribution": names}, label=label)
                for x, (label, names) in enumerate(
                    (("uniform", DEFAULT.name_distribution), ("zipf", Distribution("zipf", 1.0)))
                )
            ),
        ),
        metrics=("us", "insertion", "memory"),
        stated=(
            *(Value(name, 0, us) for name, us in (("ccm", 20.5), ("ocm", 9.1), ("sff", 1_353), ("be_tree", 326))),
            *(Value(name, 1, us) for name, us in (("ccm", 27.0), ("ocm", 19.8), ("sff", 3_662), ("be_tree", 410))),
            Value("be_tree", None, 31, scope="version 1.3, uniform"),
            Value("be_tree", None, 44, scope="version 1.3, zipf"),
            *times((135.6, 15.2), (184.9, 20.7), 1, "zipf"),
            *(
                Value(name, x, ms * 1_000 / FILTERS, "insertion", scope)
                for name, x, ms, scope in (
                    ("ccm", 0, 4_141, "4,141 ms in all"),
                    ("ocm", 0, 1_088, "1,088 ms in all"),
                    ("sff", 0, 992.2, "992.2 ms in all"),
                    ("ccm", None, 527.5, "527.5 ms in all without filter selection"),
                    ("ocm", None, 483.2, "483.2 ms in all without filter selection"),
                )
            ),
            *(Value(name, 0, mb * 1e6, "memory") for name, mb in (("ccm", 33.9), ("ocm", 33.9), ("sff", 42.4))),
        ),
    ),
)
