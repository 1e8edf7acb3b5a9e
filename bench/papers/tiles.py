"""Our experiments: `tiles` against all other exact algorithms, varying one parameter of a workload at a time.

It is of no paper, so nothing is stated. `tiles` shares its work among the events of a batch: `--batch 1024` or more.
All but `pem`, which takes two, run on one thread. `auto` is left out: it is one of the others.
"""

from __future__ import annotations

from dataclasses import replace

from bench.papers.figures import Figure, Point, Series, lines, over
from bench.workloads.distributions import Distribution
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS

OURS = "tiles"
DEFAULT = Workload(subscriptions=1_000_000, attributes=20, predicates=(10, 10), width=0.3, events=8_192)
EXACT = [name for name, a in ALGORITHMS.items() if not (a.approximate or a.definition or a.chooses)]
ALL = (*lines(*EXACT), Series("wpa_rein", "wpa_rein", {"false_positives": 0.0}))
SMALLEST = ("scan", "counting", "sff", "rein", "hem", "ocm", OURS)  # indexes of ten million subscriptions that fit
LARGEST = ("tama", "pem", "comat")  # indexes of fifty million predicates that do not
SPARSE = {"event_size": 30}
EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
# Of PCM's constraints a quarter each is =, !=, > and <, over 100 values. Here one of four wants one value, and the
# others are as wide as !=, > and < are on average: (0.99 + 0.5 + 0.5) / 3.
PCM = Workload(
    subscriptions=250_000,
    attributes=100,
    predicates=(3, 5),
    width=0.33,
    width_spread=0.66,
    codes=100,
    equal=0.25,
    events=1_000,
    event_size=4,
)


def zipf(setting: str, *others: str) -> tuple[Point, ...]:
    """Points that differ in the exponent of these distributions."""
    return tuple(Point(a, {name: Distribution("zipf", a) for name in (setting, *others)}) for a in EXPONENTS)


def subscription_size(k: int) -> dict[str, object]:
    return {"predicates": (k, k), "attributes": max(20, k)}


def figure(number: str, title: str, axis: str, points: tuple[Point, ...], workload: Workload = DEFAULT) -> Figure:
    return Figure("tiles", number, title, axis, points, workload, ALL, ours=OURS, real=False)


FIGURES = (
    replace(
        figure(
            "subscriptions",
            "Effect of the number of subscriptions",
            "n, subscriptions",
            (
                *over("subscriptions", (1_000, 10_000, 100_000, 1_000_000)),
                Point(10_000_000, {"subscriptions": 10_000_000}, only=SMALLEST),
            ),
        ),
        metrics=("us", "memory"),
        log_x=True,
    ),
    replace(
        figure(
            "attributes",
            "Effect of the number of attributes, events sparse",
            "d, attributes; above 100 an event has 30",
            (
                Point(5, {"attributes": 5, "predicates": (5, 5)}),
                *over("attributes", (10, 20, 50, 100)),
                *(Point(d, {"attributes": d, **SPARSE}) for d in (300, 1_000, 3_000, 10_000)),
            ),
        ),
        log_x=True,
    ),
    replace(
        figure(
            "full",
            "Effect of the number of attributes, events full",
            "d, attributes of an event",
            over("attributes", (20, 50, 100, 300, 1_000)),
            replace(DEFAULT, events=1_024),
        ),
        log_x=True,
    ),
    figure(
        "predicates",
        "Effect of the subscription size",
        "k, predicates of a subscription, on 20 attributes or k",
        (
            *(Point(k, subscription_size(k)) for k in (1, 2, 5, 10, 20, 30)),
            Point(50, subscription_size(50), only=tuple(s.label for s in ALL if s.label not in LARGEST)),
        ),
    ),
    figure(
        "width",
        "Effect of the predicate width",
        "w, width of predicates",
        over("width", (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)),
    ),
    figure(
        "skew",
        "Effect of the attributes' skew",
        "α of the attributes' Zipf distribution",
        zipf("attribute_distribution"),
    ),
    figure(
        "values",
        "Effect of the values' skew",
        "α of the values' Zipf distribution",
        zipf("values", "event_values"),
    ),
    replace(
        figure(
            "texts",
            "Equality only",
            "values of an attribute",
            over("codes", (10, 100, 1_000, 10_000, 100_000)),
            replace(DEFAULT, width=0.0),
        ),
        log_x=True,
    ),
    replace(
        figure(
            "pcm",
            "Equality and ranges, as in PCM's default scenario",
            "n, subscriptions",
            over("subscriptions", (25_000, 250_000, 2_500_000)),
            PCM,
        ),
        log_x=True,
        note="PCM, 250,000 filters: OCM 9.1 µs (six cores), CCM 20.5 µs (with a GPU), SFF 1,353 µs.",
    ),
    replace(
        figure(
            "stock",
            "Effect of the predicate width, real events",
            "w, width of predicates",
            over("width", (0.1, 0.3, 0.5, 0.7, 0.9)),
        ),
        real=True,
    ),
    replace(
        figure(
            "batch",
            "Effect of the batch",
            "events that are matched together, at most",
            tuple(Point(n, batch=n) for n in (1, 16, 64, 1_024, 8_192)),
        ),
        log_x=True,
    ),
)
