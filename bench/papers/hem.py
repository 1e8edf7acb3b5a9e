"""Shi and Qian, "HEM: A Hardware-Aware Event Matching Algorithm", DASFAA 2022, section 6.

Its events are stock data (--dataset); without them values are uniform. It has c = 1000 cells and g = 32 groups,
TAMA's level is 13 and Ada-REIN's rate of false positives 0.05. Its OpIndex processes the pivot attributes of an event
only, as ours does; its events have all attributes but in figures 7, 9 and 10, so all partitions are searched.
"""

from __future__ import annotations

from dataclasses import replace

from bench.papers.figures import Figure, Point, Ratio, Series, Value, lines, over, over_option, sizes
from bench.workloads.distributions import Distribution
from bench.workloads.synthetic import Workload

DEFAULT = Workload(subscriptions=1_000_000, attributes=20, predicates=(10, 10), width=0.3, events=500)
HEM = Series("hem", "hem", {"check": False})  # as the paper has it
CHECKED = Series("hem with checks", "hem")  # ours by default: few subscriptions that its sets leave are checked
OTHERS = lines("scan", "counting", "rein", "ada_rein", "tama", "opindex")
ALL = (*OTHERS, HEM)
WITHOUT = 0.5  # where the axis has g = 0, HEM without its cache
GROUPS = (Point(WITHOUT, options={"g": 0}, label="0"), *over_option("g", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)))
SIZES = replace(DEFAULT, attributes=30, width=0.7)
AWB_TREES = (*lines("awb_tree"), Series("awb_tree, split 0.5", "awb_tree", {"split": 0.5}))
LEVELS = tuple(Series(f"hem, {n} level{'s' if n > 1 else ''}", "hem", {"levels": n, "check": False}) for n in (1, 2, 3))


def less(rein: float, tama: float, ada_rein: float, opindex: float) -> tuple[Ratio, ...]:
    """The share by which HEM reduces the matching time of the others."""
    others = {"rein": rein, "tama": tama, "ada_rein": ada_rein, "opindex": opindex}
    return tuple(Ratio("hem", name, round(1 - share, 4)) for name, share in others.items())


FIGURES = (
    Figure(
        "hem",
        "3",
        "HEM by number of groups",
        "g, groups per attribute and end; 0 is without the cache",
        GROUPS,
        DEFAULT,
        (HEM,),
        metrics=("marking", "us"),
        stated=(
            Value("hem", 16, 600, "marking"),
            Value("hem", 32, 310, "marking"),
            Value("hem", WITHOUT, 6_790, "marking"),
            Ratio("hem", "hem", 1.0, 1, 2, "marking", "g = 1 to g = 2"),
        ),
        log_x=True,
        note="Marking alone is line 7 of Algorithm 2 in a run of its own.",
    ),
    Figure(
        "hem",
        "4",
        "HEM's time and memory by number of groups",
        "g, groups per attribute and end; 0 is without the cache",
        GROUPS,
        DEFAULT,
        (HEM,),
        metrics=("us", "memory"),
        stated=(
            Value("hem", WITHOUT, 7_560),
            Value("hem", 32, 779),  # 7.56 ms less 89.7 %
            Value("hem", WITHOUT, 152e6, "memory"),
            Ratio("hem", "hem", 2.0, 32, WITHOUT, "memory", "g = 32 to none, nearly"),
        ),
        log_x=True,
    ),
    Figure(
        "hem",
        "1",
        "REIN's time for marking",
        "n, subscriptions",
        over("subscriptions", (100_000, 400_000, 1_000_000)),
        DEFAULT,
        lines("rein"),
        metrics=("us", "marking"),
        note="The text says that marking takes most of REIN's time. The picture's axes are not in it.",
    ),
    Figure(
        "hem",
        "5",
        "Effect of the number of subscriptions",
        "n, subscriptions",
        over("subscriptions", (300_000, 1_000_000, 3_000_000, 5_000_000, 7_000_000, 9_000_000)),
        DEFAULT,
        (*ALL, CHECKED),
        stated=less(0.901, 0.835, 0.900, 0.959),
    ),
    Figure(
        "hem",
        "6",
        "Effect of the subscription size",
        "ψS, predicates of a subscription",
        sizes((5, 10, 15, 20, 25, 30)),
        SIZES,
        ALL,
        stated=less(0.837, 0.826, 0.831, 0.952),
    ),
    Figure(
        "hem",
        "7",
        "Effect of the event size",
        "ψE, attributes of an event (of 80)",
        over("event_size", (30, 40, 50, 60, 70, 80)),
        replace(DEFAULT, attributes=80),
        ALL,
        stated=less(0.865, 0.503, 0.863, 0.885),
    ),
    Figure(
        "hem",
        "8",
        "Effect of the predicate width",
        "w, width of predicates",
        over("width", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
        replace(DEFAULT, predicates=(5, 5)),
        (*ALL, CHECKED, *AWB_TREES),
        stated=less(0.880, 0.850, 0.873, 0.959),
    ),
    Figure(
        "hem",
        "9",
        "Effect of the number of attributes",
        "d, attributes",
        over("attributes", (30, 100, 300, 500, 700, 900)),
        replace(DEFAULT, width=0.5, event_size=20),
        ALL,
    ),
    Figure(
        "hem",
        "10",
        "Effect of the attributes' skew",
        "α of the attributes' Zipf distribution",
        tuple(Point(a, {"attribute_distribution": Distribution("zipf", float(a))}) for a in range(6)),
        replace(DEFAULT, attributes=50, predicates=(5, 5), width=0.5, event_size=20),
        ALL,
    ),
    Figure(
        "hem",
        "11",
        "Insertion time",
        "ψS, predicates of a subscription",
        sizes((5, 10, 15, 20, 25, 30)),
        SIZES,
        (*OTHERS, *lines("hem", "be_tree", "comat")),
        metrics=("insertion", "insert", "insert_one"),
        stated=(Ratio("hem", "rein", 1.426, metric="insertion"),),
        note="Where a matcher cannot insert, the time to build it from a table stands for that, per subscription.",
    ),
    Figure(
        "hem",
        "12",
        "Memory",
        "n, subscriptions",
        over("subscriptions", (300_000, 1_000_000, 3_000_000, 5_000_000, 7_000_000, 9_000_000)),
        DEFAULT,
        ALL,
        metrics=("memory",),
        stated=(
            Ratio("hem", "rein", 2.0, metric="memory", scope="about"),
            Ratio("hem", "tama", 0.643, metric="memory"),
        ),
    ),
    Figure(
        "hem",
        "hotspots",
        "Cells of several levels",
        "hotspots, in which predicates and values of events lie",
        tuple(
            Point(k, dict.fromkeys(("values", "event_values"), Distribution("hotspots", float(k))))
            for k in (1, 2, 4, 8, 16, 32)
        ),
        replace(DEFAULT, predicates=(5, 5), width=0.0005),
        (*LEVELS, *lines("rein", "tama")),
        log_x=True,
        note="The paper has no figure of it: section 7 leaves several levels of cells as future work.",
    ),
)
