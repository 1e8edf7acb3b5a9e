"""Random patterns, events and tables, small enough to collide and full of values that break things."""

from __future__ import annotations

from hypothesis import strategies as st

TEXTS = ["", "a", "ab", "abc", "b", "A", "é", "e\u0301", "漢", "a\x00", "\x00", "\U0010ffff", "zz", "1", "null"]
NUMBERS = [0, 0.0, -0.0, 1, 1.0, -1, 2, 1.5, 2**53, 2**53 + 2, -(2**53), 1e308, 5e-324, 1e-9]
EVENT_NUMBERS = [*NUMBERS, 2**53 + 1, 10**400, -(10**400), float("nan"), float("inf"), 0.1 + 0.2]
FIELDS = ["x", "y", "x.y", "é"]

texts = st.sampled_from(TEXTS) | st.text(max_size=3)
numbers = st.sampled_from(NUMBERS) | st.floats(-3, 3) | st.integers(-3, 3)
literals = texts | numbers | st.booleans() | st.none()

numeric = (
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "="]), numbers).map(list)
    | st.tuples(st.sampled_from([">", ">="]), numbers, st.sampled_from(["<", "<="]), numbers).map(list)
    | st.tuples(st.sampled_from(["<", "<="]), numbers, st.sampled_from([">", ">="]), numbers).map(list)
)
operators = (
    literals
    | st.builds(lambda a: {"numeric": a}, numeric)
    | st.builds(lambda low, high: {"between": [low, high]}, numbers, numbers)
    | st.builds(lambda wanted: {"exists": wanted}, st.booleans())
    | st.builds(lambda text: {"prefix": text}, texts)
    | st.builds(lambda values: {"anything-but": values}, literals | st.lists(literals, min_size=1, max_size=3))
)
conditions = st.lists(operators, min_size=1, max_size=3)
patterns = st.dictionaries(
    st.sampled_from(FIELDS),
    conditions | st.dictionaries(st.sampled_from(FIELDS), conditions, min_size=1, max_size=2),
    max_size=3,
)
subscription_sets = st.dictionaries(st.sampled_from([f"s{i}" for i in range(12)]), patterns, max_size=8)

scalars = texts | st.sampled_from(EVENT_NUMBERS) | numbers | st.booleans() | st.none()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=2),
    max_leaves=5,
)
events = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
event_lists = st.lists(events, max_size=6)

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
