"""Compare a matcher with `scan` on random tables and batches that are large enough for many tiles."""

from __future__ import annotations

import numpy as np

from matchers import ALGORITHMS, EventBatch, Interfaces, Matcher, SubscriptionTable

NASTY = np.array([-np.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, 2.0**53, np.inf])


def random_table(r: np.random.Generator, n: int, d: int) -> SubscriptionTable:
    """Draw intervals of many kinds: wide, narrow, empty, lists, codes, repeated ones, none at all."""
    subscription: list[int] = []
    column: list[int] = []
    low: list[float] = []
    high: list[float] = []
    kinds = r.integers(0, 6, d)
    for s in range(n):
        if s and r.random() < 0.1:  # the same as an earlier one
            twin = int(r.integers(0, s))
            for i in [i for i, other in enumerate(subscription) if other == twin]:
                subscription.append(s)
                column.append(column[i])
                low.append(low[i])
                high.append(high[i])
            continue
        for c in r.choice(d, min(int(r.integers(0, 5)), d), replace=False):
            for _ in range(1 if r.random() < 0.8 else int(r.integers(1, 4))):
                kind = kinds[c]
                if kind == 0:
                    a = b = float(r.integers(0, 8))
                elif kind == 1:
                    a, b = np.sort(r.choice(NASTY, 2))
                elif kind == 2:
                    a = r.random()
                    b = a + 0.02
                elif kind == 3:
                    a, b = (-np.inf, r.random()) if r.random() < 0.5 else (r.random(), np.inf)
                else:
                    a = r.random() * 0.5
                    b = a + 0.5
                if r.random() < 0.01:
                    a, b = 1.0, 0.0
                subscription.append(s)
                column.append(int(c))
                low.append(float(a))
                high.append(float(b))
    return SubscriptionTable.from_intervals(
        np.array(subscription, int), np.array(column, int), low, high, n_subscriptions=n, n_columns=d
    )


def random_batch(r: np.random.Generator, n: int, d: int) -> EventBatch:
    """Some fields absent, some of several values, one column that no table knows."""
    count = int(n * d * r.choice([0.1, 0.9]))
    whole, nasty = r.integers(0, 8, count).astype(float), r.choice(NASTY, count)
    value = np.where(r.random(count) < 0.3, whole, np.where(r.random(count) < 0.2, nasty, r.random(count)))
    column = r.integers(0, d, count)
    event = r.integers(0, max(n, 1), count)
    if r.random() < 0.5:  # one value in a column at most
        _, first = np.unique(event * d + column, return_index=True)
        event, column, value = event[first], column[first], value[first]
    return EventBatch.from_values(event, column, value, n_events=n, n_columns=d)


def agrees(matcher: Matcher, table: SubscriptionTable, events: EventBatch) -> None:
    expected, found = ALGORITHMS["scan"](table).match(events), matcher.match(events)
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.subscription.tolist() == expected.subscription.tolist()
    alone = matcher.alone()
    for e in range(min(len(events), 3)):
        assert alone(events.part(e, e + 1)).tolist() == expected.of(e).tolist()


def forwards(matcher: Matcher, table: SubscriptionTable, events: EventBatch, interfaces: Interfaces) -> None:
    expected = ALGORITHMS["scan"](table).forward(events, interfaces)
    found = matcher.forward(events, interfaces)
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.subscription.tolist() == expected.subscription.tolist()


def everything(n: int) -> SubscriptionTable:
    """n subscriptions that every event with a value below 10 satisfies."""
    return SubscriptionTable.from_intervals(range(n), [0] * n, [0.0] * n, [10.0] * n, n_subscriptions=n, n_columns=1)


def uniform_table(n: int, d: int, psi: int, width: float, seed: int = 1) -> SubscriptionTable:
    """psi predicates of this width each, on columns of their own."""
    r = np.random.default_rng(seed)
    column = np.argsort(r.random((n, d)), axis=1)[:, :psi].ravel()
    low = r.random(n * psi) * (1 - width)
    return SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), psi), column, low, low + width, n_subscriptions=n, n_columns=d
    )
