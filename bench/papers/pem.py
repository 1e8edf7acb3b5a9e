"""PEM, a parallel ensemble of REIN and TAMA, SEKE 2022, section V.

Subscriptions have 1 to K predicates, and events all M attributes. It has TAMA at level 17. Its COMAT predicts by a
neural network, the time of which counts; ours by a linear function. It matches on one thread here, PEM on one for each
of its algorithms.

Figure 8: the text says that about as many subscriptions lie on either side of SP = 0.5, and that 0.4 and 0.6 are worse,
so their p differ. Our widths are uniform on [0, 1] there, whose mean is the default W, and the fixed split points are
values of p, below which 23, 50 and 77 % of the subscriptions lie. With all widths 0.5, and split points by rank, it
would be 40, 50 and 60 %. All match in windows of 20 events, and have one index for each algorithm once they settled.
"""

from __future__ import annotations

from dataclasses import replace

from bench.papers.figures import Figure, Point, Ratio, Series, lines, over, sizes
from bench.workloads.synthetic import Workload

DEFAULT = Workload(subscriptions=1_000_000, attributes=20, predicates=(1, 10), width=0.5, events=1_000)
UNIFORM_WIDTHS = replace(DEFAULT, width=0.0, width_spread=1.0)
TAMA = Series("tama", "tama", {"levels": 17})
ALL = (*lines("scan", "counting", "rein"), TAMA, *lines("comat", "pem"))
MILLIONS = (1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)


def less(x: float | None, comat: float, rein: float, tama: float, scope: str) -> tuple[Ratio, ...]:
    """The share by which PEM reduces the matching time of the others."""
    others = {"comat": comat, "rein": rein, "tama": tama}
    return tuple(Ratio("pem", name, round(1 - share, 4), x, scope=scope) for name, share in others.items())


FIGURES = (
    Figure(
        "pem",
        "3",
        "Effect of the number of subscriptions",
        "N, subscriptions",
        over("subscriptions", MILLIONS),
        DEFAULT,
        ALL,
        stated=(
            *less(1_000_000, 0.437, 0.686, 0.469, "N = 1M"),
            *less(5_000_000, 0.533, 0.558, 0.642, "N = 5M"),
            *less(None, 0.43, 0.55, 0.47, "on average (sec. I)"),
            Ratio("pem", "comat", 0.6, scope="around, than the second best (sec. V B)"),
        ),
    ),
    Figure(
        "pem",
        "4",
        "Spread of matching time",
        "N, subscriptions",
        over("subscriptions", MILLIONS),
        DEFAULT,
        ALL,
        metrics=("us_std",),
        batch=1,
    ),
    Figure(
        "pem",
        "5",
        "Effect of the subscription size",
        "K, predicates of a subscription at most",
        sizes((5, 10, 15, 20), least=1),
        DEFAULT,
        ALL,
        stated=(*less(5, 0.477, 0.677, 0.494, "K = 5"), *less(20, 0.193, 0.529, 0.2587, "K = 20")),
    ),
    Figure(
        "pem",
        "6",
        "Effect of the event size",
        "M, attributes",
        over("attributes", (20, 50, 100)),
        DEFAULT,
        ALL,
        stated=(*less(20, 0.391, 0.675, 0.541, "M = 20"), *less(100, 0.176, 0.726, 0.237, "M = 100")),
    ),
    Figure(
        "pem",
        "7",
        "Effect of the predicate width",
        "W, width of predicates",
        over("width", (0.1, 0.3, 0.5, 0.7, 0.9)),
        DEFAULT,
        ALL,
        stated=(*less(0.1, -0.022, 0.809, 0.045, "W = 0.1"), *less(0.9, 0.124, 0.136, 0.471, "W = 0.9")),
    ),
    Figure(
        "pem",
        "8",
        "Split points, fixed and adjusted",
        "N, subscriptions",
        tuple(Point(n, {"subscriptions": n}) for n in (200_000, 400_000, 600_000, 800_000, 1_000_000)),
        replace(UNIFORM_WIDTHS, events=2_000),
        (
            Series("adjusted", "pem"),
            *(
                Series(f"SP = {split}", "pem", {"split": split, "ranked": False, "adjust": False})
                for split in (0.4, 0.5, 0.6)
            ),
        ),
        stated=tuple(
            Ratio("adjusted", f"SP = {split}", round(1 - share, 4), n, scope=scope)
            for n, scope, shares in (
                (200_000, "N = 200k", (0.505, 0.273, 0.364)),
                (1_000_000, "N = 1M", (0.312, 0.066, 0.208)),
            )
            for split, share in zip((0.4, 0.5, 0.6), shares, strict=True)
        ),
    ),
    Figure(
        "pem",
        "library",
        "Three algorithms beside two",
        "N, subscriptions",
        over("subscriptions", (200_000, 600_000, 1_000_000)),
        UNIFORM_WIDTHS,
        (
            *lines("rein", "hem"),
            TAMA,
            Series("pem of two", "pem"),
            Series("pem of three", "pem", {"algorithms": ["tama", "hem", "rein"]}),
        ),
        note="The paper defines the ensemble for L algorithms and measures L = 2. Each has a thread.",
    ),
    Figure(
        "pem",
        "updates",
        "Insertion and deletion",
        "N, subscriptions",
        over("subscriptions", (200_000, 600_000, 1_000_000)),
        DEFAULT,
        (*lines("rein"), TAMA, *lines("pem", "comat", "hem", "opindex", "be_tree")),
        metrics=("insert", "delete", "insert_one", "delete_one"),
        stated=(Ratio("pem", "tama", 1.0, metric="insert", scope="sec. VI: close to it"),),
        note="The paper has no figure of it; section VI states that to insert takes about as long as in TAMA.",
    ),
)
