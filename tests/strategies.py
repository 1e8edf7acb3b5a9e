"""Hypothesis strategies for tables and batches: small enough to collide, and full of values that break things."""

from __future__ import annotations

from hypothesis import strategies as st

coordinates = st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.0, 3.0, float("inf"), float("-inf"), 2.0**53, 5e-324])


@st.composite
def tables(draw: st.DrawFn) -> dict[str, object]:
    """Arguments of SubscriptionTable.from_intervals: any order, overlapping, empty and infinite intervals."""
    n_subscriptions, n_columns = draw(st.integers(0, 9)), draw(st.integers(0, 4))
    interval = st.tuples(
        st.integers(0, max(n_subscriptions - 1, 0)), st.integers(0, max(n_columns - 1, 0)), coordinates, coordinates
    )
    rows = draw(st.lists(interval, max_size=25)) if n_subscriptions and n_columns else []
    subscription, column, low, high = ([row[i] for row in rows] for i in range(4))
    return {
        "subscription": subscription,
        "column": column,
        "low": low,
        "high": high,
        "n_subscriptions": n_subscriptions,
        "n_columns": n_columns,
    }


@st.composite
def batches(draw: st.DrawFn) -> dict[str, object]:
    """Arguments of EventBatch.from_values: repeated columns, columns that no table knows, NaN."""
    n_events, n_columns = draw(st.integers(0, 5)), draw(st.integers(1, 6))
    entry = st.tuples(
        st.integers(0, max(n_events - 1, 0)), st.integers(0, n_columns - 1), coordinates | st.just(float("nan"))
    )
    rows = draw(st.lists(entry, max_size=20)) if n_events else []
    event, column, value = ([row[i] for row in rows] for i in range(3))
    return {"event": event, "column": column, "value": value, "n_events": n_events, "n_columns": n_columns}
