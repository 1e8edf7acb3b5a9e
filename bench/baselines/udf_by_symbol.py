"""A UDF loop over the subscriptions to one symbol: the obvious next step after `udf`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bench.baselines.topics import Subscription, started

BySymbol = Mapping[str, list[tuple[str, str, int, int, int, int]]]


def by_symbol(subscriptions: Iterable[Subscription]) -> BySymbol:
    groups = defaultdict(list)
    for id, subscriber, symbol, low, high, least, most in subscriptions:
        groups[symbol].append((id, subscriber, low, high, least, most))
    return dict(groups)


def matches(subscriptions: BySymbol, symbol: str, price: int, volume: int) -> dict[str, list[str]]:
    """The ids of the matching subscriptions, by subscriber."""
    matches: dict[str, list[str]] = {}
    for id, subscriber, low, high, least, most in subscriptions.get(symbol, ()):
        if low <= price < high and least <= volume < most:
            matches.setdefault(subscriber, []).append(id)
    return matches


def main() -> None:
    topics = started()
    topics.deliver_matches(matches, by_symbol(map(tuple, topics.subscriptions().collect())))


if __name__ == "__main__":
    main()
