"""Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", section 4 and appendix B.

Each figure varies one parameter of the default scenario (bench/workloads/filters.py) and asks for interfaces. The
values on the axes stand in the images only; ours span what the text says of them, and a range of two keeps its spread.
The exponent of the Zipf distribution is not said; ours is 1. Its OCM runs on six cores and its CCM on a GPU, the others
on one core. Our `ocm` runs on one thread, and on as many as the paper's if there are so many cores, else on all cores:
the paper's times stand beside the latter, its ratios beside both. The text's numbers for BETree 1.3, which nobody
published, are given alone.

Figure 5 is the architecture of a system. Figure 10 measures one under load; a process by itself can repeat how many
events an engine forwards between reading and writing (bench/workloads/dispatcher.py). Table 4 splits the time of an
event on a GPU into its transfers and its kernel: `bench matchers --scenario pcm-default -a ccm --profile`.
"""

from __future__ import annotations

import os
from dataclasses import replace

from bench.papers.figures import Figure, Point, Ratio, Series, Value, lines, over
from bench.workloads.dispatcher import Dispatcher
from bench.workloads.distributions import Distribution
from bench.workloads.filters import Filters

DEFAULT = Filters()
FILTERS = DEFAULT.average  # 250,000; a million constraints
THREADS = min(6, os.cpu_count() or 1)  # the paper has six cores


def ocm_on(threads: int) -> Series:
    return Series(f"ocm, {threads} thread{'s' if threads > 1 else ''}", "ocm", {"threads": threads})


OCMS = tuple(map(ocm_on, sorted({1, THREADS})))
OCM = OCMS[-1].label  # the paper's
ALL = (*lines("scan", "counting", "sff"), *OCMS, *lines("ccm", "be_tree", "tiles"))
CORES = "on six cores"
BE_TREE_13 = "be_tree 1.3"  # of the paper only
# All constraints are in one Constraints table, and in that of filters without any.
UNSELECTED = {name: Series(f"{name}, no filter selection", name, {"bits": 1}) for name in ("ocm", "ccm")}
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
        Ratio(of, to, value, x, scope=scope)
        for to, values in (("ccm", ccm), *((series.label, ocm) for series in OCMS))
        for of, value in zip(("sff", "be_tree"), values, strict=True)
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
            Value(OCM, 1, 9.1, scope=CORES),
            Value("sff", 1, 1_353),
            Value("be_tree", 1, 326),
            Value(BE_TREE_13, 1, 31),
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
            Ratio("be_tree", "ccm", 20.7, 1, scope="fewest attributes"),
            Ratio("be_tree", "ccm", 8.2, 9, scope="9 attributes"),
            *(
                Ratio(of, series.label, value, x, scope=scope)
                for series in OCMS
                for of, value, x, scope in (
                    ("ccm", 2.4, 1, "fewest attributes"),
                    ("ccm", 0.46, 9, "9 attributes"),
                    ("be_tree", 48.8, 1, "fewest attributes"),
                    ("be_tree", 3.7, 9, "9 attributes"),
                )
            ),
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
        stated=(
            *times((697.7, 60.4), (1_180.7, 102.3), 250_000, "250,000 filters"),
            Ratio(BE_TREE_13, "ccm", 4.16, 250_000, scope="250,000 filters"),
            Ratio(BE_TREE_13, OCM, 7.1, 250_000, scope="250,000 filters"),
        ),
        log_x=True,
    ),
    replace(
        figure(
            "9",
            "Effect of the number of interfaces",
            "interfaces",
            over("interfaces", (10, 25, 50, 75, 100)),
        ),
        stated=(
            *times((658.7, 60.7), (1_193.3, 109.9), 100, "at most; ours at 100 interfaces"),
            Ratio(BE_TREE_13, "ccm", 4.1, 100, scope="at most"),
            Ratio(BE_TREE_13, OCM, 7.4, 100, scope="at most"),
        ),
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
        figure(
            "10",
            "Overall system performance",
            "events that are taken from the queue together",
            tuple(Point(n, batch=n) for n in (1, 2, 5, 10, 20, 50, 100)),
            Dispatcher(),
        ),
        metrics=("rate", "engine"),
        stated=(
            Value(OCM, 1, 60_000, "rate", f"hardly, {CORES}"),
            Value("ccm", 100, 100_000, "rate", "and more"),
            Value(OCM, 1, 109_000, "engine", CORES),
            Value("ccm", 1, 48_000, "engine"),
        ),
        log_x=True,
        note=(
            "The paper raises the rate of a client until a queue of 100 events overflows, and reads and writes on "
            "threads of their own. Here one thread reads JSON, forwards and writes to memory, as fast as it can. The "
            "paper's OCM takes one event at a time, its CCM as many as wait."
        ),
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
        series=(*ALL, *UNSELECTED.values()),
        metrics=("us", "insertion", "memory"),
        stated=(
            *(
                Value(name, x, us, scope=CORES if name == OCM else "")
                for x, values in enumerate(((20.5, 9.1, 1_353, 326, 31), (27.0, 19.8, 3_662, 410, 44)))
                for name, us in zip(("ccm", OCM, "sff", "be_tree", BE_TREE_13), values, strict=True)
            ),
            *times((135.6, 15.2), (184.9, 20.7), 1, "zipf"),
            *(
                Value(name, 0, ms * 1_000 / FILTERS, "insertion", f"{ms:,} ms in all")
                for name, ms in (
                    ("ccm", 4_141),
                    (OCM, 1_088),
                    ("sff", 992.2),
                    (UNSELECTED["ccm"].label, 527.5),
                    (UNSELECTED["ocm"].label, 483.2),
                )
            ),
            Ratio("sff", UNSELECTED["ocm"].label, 2, 0, metric="insertion", scope="uniform"),
            Ratio(OCM, UNSELECTED["ocm"].label, 2, 0, metric="insertion", scope="uniform"),
            Ratio("ccm", UNSELECTED["ccm"].label, 8, 0, metric="insertion", scope="uniform"),
            *(Value(name, 0, mb * 1e6, "memory") for name, mb in (("ccm", 33.9), (OCM, 33.9), ("sff", 42.4))),
        ),
        note="Without filter selection all constraints are in one table. An index is built on one thread.",
    ),
)
