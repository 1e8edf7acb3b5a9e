"""Qian and others, "REIN: A Fast Event Matching Approach", INFOCOM 2014, section V.

Its SIENA counts the satisfied constraints and is `counting` here. It has TAMA at level 13, and H-TREE with 6 cells on 6
attributes, where it stores a subscription in each cell that it touches; ours is the later form, which stores it once.
Figures 12 and 13: algorithms that can insert half as many subscriptions as they hold, the first 1,000 one a call, the
others by 1,000 a call; then they delete 1,000 in one call, and 1,000 one a call.
The text gives no numbers of figure 13. In our copy table III is torn apart; its numbers have four decimals each.
"""

from __future__ import annotations

from dataclasses import replace

from bench.papers.figures import Figure, Point, Ratio, Series, Value, lines, over, over_option
from bench.workloads.distributions import UNIFORM, Distribution
from bench.workloads.synthetic import Workload

DEFAULT = Workload(subscriptions=1_000_000, attributes=20, predicates=(10, 10), width=0.5, events=400)
H_TREE = Series("h_tree", "h_tree", {"c": 6, "l": 6})  # table II
NO_BLOCKS = Series("rein, no blocks", "rein", {"blocks": False})  # bits of all subscriptions, as in the paper
ALL = (*lines("scan", "counting", "tama", "rein"), H_TREE)
THOUSANDS = (200_000, 600_000, 1_000_000, 1_400_000, 2_000_000)
EVENTS_MATCHED = 400 * 1_000_000  # pairs of events and subscriptions behind the counts of tables IV and VI

# Table III, n = 2M: greatest and least time of an event and their standard deviation, in seconds
SPREAD = {
    "counting": (24.2147, 9.9990, 0.7280),
    "tama": (19.1677, 8.4958, 1.7972),
    "h_tree": (179.5545, 0.4445, 14.1006),
    "rein": (2.0291, 1.0977, 0.1498),
}
# Table V: seconds per event for 200k, 400k .. 2000k subscriptions
SECONDS = {
    "uniform": (0.1551, 0.3061, 0.4607, 0.6163, 0.7708, 0.9146, 1.0812, 1.2423, 1.3793, 1.5387),
    "normal": (0.1554, 0.3098, 0.4680, 0.6175, 0.7754, 0.9259, 1.0739, 1.2349, 1.4166, 1.5765),
    "pareto": (0.1534, 0.3106, 0.4657, 0.6174, 0.7743, 0.9290, 1.0740, 1.2484, 1.4110, 1.5422),
}
EACH_200K = tuple(range(200_000, 2_000_001, 200_000))
# Table IV: matches of 400 events by number of constraints; with 5, 7 ... of twice as many attributes
BY_SIZE = {
    5: 11_745_128,
    7: 3_015_656,
    9: 752_285,
    11: 178_837,
    13: 43_162,
    15: 10_727,
    17: 2_769,
    19: 762,
    21: 251,
    23: 54,
}
# Table VI: matches of 400 events by width
BY_WIDTH = {
    0.01: 0,
    0.05: 0,
    0.1: 0,
    0.2: 32,
    0.3: 2_369,
    0.4: 40_166,
    0.5: 378_886,
    0.6: 2_329_247,
    0.7: 10_843_737,
    0.8: 42_023_835,
}
# Table VII for 20 attributes and 10 constraints: bytes besides those of each subscription, and these
BYTES = {
    "counting": (16 * 20, 16 * 10 + 4),
    "tama": (8 * 20 * 2**13, 40 * 10 + 4),
    "h_tree": (8 * 6**6, 4 * 3**6),
    "rein": (8 * 1000, 16 * 10),
}


def selectivity(counts: dict[int, int] | dict[float, int]) -> tuple[Value, ...]:
    return tuple(Value("rein", x, matches / EVENTS_MATCHED, "selectivity") for x, matches in counts.items() if matches)


def table_5(distribution: str) -> dict[int, Value]:
    """The column of a distribution, by the number of subscriptions."""
    of_size = zip(EACH_200K, SECONDS[distribution], strict=True)
    return {n: Value("rein", n, round(seconds * 1e6), scope=f"table V, {distribution}") for n, seconds in of_size}


FIGURES = (
    Figure(
        "rein",
        "7",
        "Effect of the number of subscriptions",
        "n, subscriptions",
        over("subscriptions", THOUSANDS),
        DEFAULT,
        (*ALL, NO_BLOCKS),
        stated=(
            *(value for n, value in table_5("uniform").items() if n in THOUSANDS),
            Ratio("rein", "counting", round(1 / 14, 4), 2_000_000, scope="n = 2M, almost"),
            Ratio("rein", "tama", round(1 / 9, 4), 2_000_000, scope="n = 2M, almost"),
            Ratio("rein", "h_tree", round(1 / 6, 4), 2_000_000, scope="n = 2M, almost"),
        ),
    ),
    Figure(
        "rein",
        "table3",
        "Spread of matching time",
        "n, subscriptions",
        over("subscriptions", (2_000_000,)),
        DEFAULT,
        ALL,
        metrics=("us_max", "us_min", "us_std", "selectivity"),
        stated=(
            *(
                Value(name, 2_000_000, round(seconds * 1e6), metric)
                for name, spread in SPREAD.items()
                for metric, seconds in zip(("us_max", "us_min", "us_std"), spread, strict=True)
            ),
            Value("rein", 2_000_000, 0.00091, "selectivity", "727,894 matches of 400 events"),
        ),
        batch=1,
    ),
    Figure(
        "rein",
        "8",
        "Effect of the number of constraints",
        "k, constraints of a subscription, on 2k attributes",
        tuple(Point(k, {"attributes": 2 * k, "predicates": (k, k)}) for k in BY_SIZE),
        DEFAULT,
        ALL,
        metrics=("us", "selectivity"),
        stated=(
            *selectivity(BY_SIZE),
            Ratio("rein", "counting", round(1 / 16, 4), 23, scope="k = 23"),
            Ratio("rein", "tama", round(1 / 10, 4), 23, scope="k = 23"),
            Ratio("rein", "h_tree", round(1 / 4, 4), 23, scope="k = 23"),
        ),
    ),
    Figure(
        "rein",
        "9",
        "Effect of the number of buckets",
        "b, buckets per attribute",
        over_option("buckets", (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)),
        replace(DEFAULT, subscriptions=2_000_000),
        lines("rein"),
        stated=(Value("rein", 1_000, 1_538_700, scope="the least; table V, uniform"),),
        log_x=True,
    ),
    Figure(
        "rein",
        "10",
        "Matching time and matches of single events",
        "subscriptions that the event matches",
        (Point(0),),
        replace(DEFAULT, subscriptions=2_000_000),
        ALL,
        batch=1,
        scatter=True,
    ),
    Figure(
        "rein",
        "11",
        "Effect of the width of constraints",
        "w, width of constraints",
        over("width", BY_WIDTH),
        DEFAULT,
        ALL,
        metrics=("us", "selectivity"),
        stated=(
            *selectivity(BY_WIDTH),
            Ratio("rein", "counting", round(1 / 17, 4), 0.6, scope="w = 0.6"),
            Ratio("rein", "tama", round(1 / 12, 4), 0.6, scope="w = 0.6"),
            Ratio("rein", "h_tree", round(1 / 50, 4), 0.6, scope="w = 0.6"),
        ),
    ),
    Figure(
        "rein",
        "12",
        "Insertion time",
        "n, subscriptions",
        over("subscriptions", THOUSANDS),
        DEFAULT,
        (*ALL, *lines("hem", "opindex", "be_tree", "comat")),
        metrics=("insertion", "insert", "insert_one"),
        stated=(
            Ratio("rein", "counting", 1.04, 2_000_000, metric="insertion", scope="n = 2M"),
            Ratio("tama", "counting", 18.0, 2_000_000, metric="insertion", scope="n = 2M"),
            Ratio("h_tree", "counting", 8.0, 2_000_000, metric="insertion", scope="n = 2M"),
            Ratio("tama", "rein", round(18 / 1.04, 1), 2_000_000, metric="insert", scope="n = 2M, by both over SIENA"),
        ),
        note="Where a matcher cannot insert, the time to build it from a table stands for that, per subscription.",
    ),
    Figure(
        "rein",
        "13",
        "Deletion time",
        "n, subscriptions",
        over("subscriptions", THOUSANDS),
        DEFAULT,
        (*lines("tama", "rein", "hem", "opindex", "be_tree", "comat"), H_TREE),
        metrics=("delete", "delete_one"),
    ),
    Figure(
        "rein",
        "14",
        "Memory",
        "n, subscriptions",
        over("subscriptions", THOUSANDS),
        DEFAULT,
        ALL,
        metrics=("memory",),
        stated=tuple(
            Value(name, n, fixed + per_subscription * n, "memory", scope="table VII")
            for name, (fixed, per_subscription) in BYTES.items()
            for n in THOUSANDS
        ),
    ),
    *(
        Figure(
            "rein",
            f"table5-{values.name}",
            f"Constraint values of distribution {values.name}",
            "n, subscriptions",
            over("subscriptions", EACH_200K),
            replace(DEFAULT, values=values),
            lines("rein"),
            stated=tuple(table_5(values.name).values()),
        )
        for values in (UNIFORM, Distribution("normal", 0.02), Distribution("pareto", 2.0))
    ),
)
