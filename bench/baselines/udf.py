"""A UDF loop: a Python UDF compares each event with all subscriptions, which are a broadcast variable."""

from __future__ import annotations

from collections.abc import Iterable

from bench.baselines.topics import Subscription, started


def matches(subscriptions: Iterable[Subscription], symbol: str, price: int, volume: int) -> dict[str, list[str]]:
    """The ids of the matching subscriptions, by subscriber."""
    matches: dict[str, list[str]] = {}
    for id, subscriber, wanted, low, high, least, most in subscriptions:
        if wanted == symbol and low <= price < high and least <= volume < most:
            matches.setdefault(subscriber, []).append(id)
    return matches


def main() -> None:
    topics = started()
    topics.deliver_matches(matches, [tuple(row) for row in topics.subscriptions().collect()])


if __name__ == "__main__":
    main()
