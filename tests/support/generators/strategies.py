"""Hypothesis strategies: tables and batches, patterns and events, small enough to collide and full of nasty values.

`tests/support/generators/workloads.py` holds the values. It also draws patterns and events from a seed: faster, but
they do not shrink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from matchers import PatternError
from matchers.language.lowering import lower
from matchers.language.parsing import PER_SECOND, parse
from tests.support.generators.workloads import (
    EVENT_NUMBERS,
    FIELDS,
    METRES,
    NETWORKS,
    NUMBERS,
    PLACES,
    REGEXES,
    TEXTS,
    TIMES,
)

Document = dict[str, Any]

coordinates = st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.0, 3.0, float("inf"), float("-inf"), 2.0**53, 5e-324])


@st.composite
def tables(draw: st.DrawFn, columns: st.SearchStrategy[int] = st.integers(0, 4)) -> dict[str, Any]:  # noqa: B008
    """Arguments of SubscriptionTable.from_intervals: any order, overlapping, empty and infinite intervals."""
    n_subscriptions, n_columns = draw(st.integers(0, 9)), draw(columns)
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
def batches(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of EventBatch.from_values: repeated columns, columns that no table knows, NaN."""
    n_events, n_columns = draw(st.integers(0, 5)), draw(st.integers(1, 6))
    entry = st.tuples(
        st.integers(0, max(n_events - 1, 0)), st.integers(0, n_columns - 1), coordinates | st.just(float("nan"))
    )
    rows = draw(st.lists(entry, max_size=20)) if n_events else []
    event, column, value = ([row[i] for row in rows] for i in range(3))
    return {"event": event, "column": column, "value": value, "n_events": n_events, "n_columns": n_columns}


names = st.sampled_from(FIELDS)
pieces = [piece for text in TEXTS for n in (1, 2, 3) for piece in (text[:n], text[-n:])]
texts = st.sampled_from([*TEXTS, *dict.fromkeys(piece for piece in pieces if piece not in TEXTS)])


def choice(*of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Choose one of these with equal probability; `st.one_of` favours members that are choices themselves."""
    index = st.integers(0, len(of) - 1)

    @st.composite
    def chosen(draw: st.DrawFn) -> Any:
        return draw(of[draw(index)])

    return chosen()


numbers: st.SearchStrategy[float] = choice(*[st.sampled_from(NUMBERS)] * 3, st.floats(-3, 3))
scalars = choice(texts, texts, numbers, numbers, st.sampled_from([None, True, False]))


def operator(name: str, argument: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return argument.map(lambda value: {name: value})


def one_or_several(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return choice(of, st.lists(of, min_size=1, max_size=3))


@st.composite
def wildcards(draw: st.DrawFn) -> str:
    """Without two stars side by side."""
    found = [text.replace("\\", "\\\\").replace("*", "\\*") for text in draw(st.lists(texts, min_size=1, max_size=4))]
    return "*".join(text for i, text in enumerate(found) if text or i in (0, len(found) - 1))


ignoring_case = operator("equals-ignore-case", texts)
ends = choice(texts, ignoring_case)
SYMBOLS = ("<", "<=", ">", ">=", "=")


def between(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Bounds as those of numeric."""
    lower = st.tuples(st.sampled_from([">", ">="]), values)
    upper = st.tuples(st.sampled_from(["<", "<="]), values)
    both = st.builds(tuple.__add__, lower, upper), st.builds(tuple.__add__, upper, lower)
    return choice(lower, upper, st.tuples(st.just("="), values), *both).map(list)


bounds = between(numbers)
times = st.sampled_from(TIMES)
excluded = choice(
    *[one_or_several(scalars)] * 2,
    operator("prefix", one_or_several(ends)),
    operator("suffix", one_or_several(ends)),
    operator("equals-ignore-case", one_or_several(texts)),
    operator("wildcard", one_or_several(choice(wildcards(), operator("equals-ignore-case", wildcards())))),
    operator("cidr", one_or_several(st.sampled_from(NETWORKS))),
    one_or_several(st.deferred(lambda: conditions)),
)
conditions: st.SearchStrategy[Any] = choice(
    *[scalars] * 2,
    *[operator("numeric", bounds)] * 2,
    *[operator("anything-but", excluded)] * 2,
    operator("between", st.lists(numbers, min_size=2, max_size=2)),
    operator("exists", st.booleans()),
    ignoring_case,
    operator("prefix", ends),
    operator("suffix", ends),
    operator("wildcard", choice(wildcards(), operator("equals-ignore-case", wildcards()))),
    operator("regex", st.sampled_from(REGEXES)),
    operator("text", between(texts)),
    operator("text-length", bounds),
    operator(
        "time", choice(between(times), st.sampled_from([*PER_SECOND]).flatmap(lambda u: operator(u, between(times))))
    ),
    operator("numeric-text", bounds),
    operator("cidr", st.sampled_from(NETWORKS)),
    operator("$and", st.deferred(lambda: st.lists(conditions, min_size=1, max_size=3))),
)


listed = st.lists(conditions, min_size=1, max_size=3)
of_array = choice(*(operator(name, listed) for name in ("contains-all", "contains-none", "contains-exactly")))
other_fields = choice(names, st.lists(names, min_size=1, max_size=3))
compared = operator(
    "compare-field",
    choice(
        *[st.tuples(st.sampled_from(SYMBOLS), other_fields)] * 2,
        st.tuples(st.sampled_from([">", ">="]), other_fields, st.sampled_from(["<", "<="]), other_fields),
    ).map(list),
)
places = st.sampled_from(PLACES).map(list)
near = st.fixed_dictionaries({"longitude": other_fields, "from": places, "metres": st.sampled_from(METRES)})
of_several = choice(of_array, compared, operator("geo-distance", near))
entries = choice(
    *[conditions] * 8,
    *[of_several] * 2,
    operator("$and", st.lists(choice(conditions, of_several), min_size=1, max_size=3)),
)


def fields(depth: int) -> st.SearchStrategy[Document]:
    """Patterns with objects and $or nested at most `depth` deep; some expand to too many alternatives."""
    node: st.SearchStrategy[Any] = st.lists(entries, min_size=1, max_size=3)
    if not depth:
        return st.dictionaries(names, node, min_size=1, max_size=2)
    inner = fields(depth - 1)
    node = choice(node, node, inner)
    either = st.builds(
        lambda all_of, one_of: all_of | {"$or": one_of},
        st.dictionaries(names, node, max_size=1),
        st.lists(inner, min_size=1, max_size=3),
    )
    neither = st.builds(lambda all_of, none: all_of | {"$not": none}, st.dictionaries(names, node, max_size=1), inner)
    return choice(*(st.dictionaries(names, node, min_size=n, max_size=n) for n in (1, 2, 3)), either, neither)


of_any_size = choice(*[fields(2)] * 9, st.just({}))


@st.composite
def patterns(draw: st.DrawFn) -> Document:
    """Patterns that are not rejected for their size after expansion."""
    pattern: Document = draw(of_any_size)
    try:
        lower(parse(pattern))
    except PatternError as error:
        assume("expands to more than" not in str(error) and "takes another field" not in str(error))
        raise
    return pattern


def values(leaves: st.SearchStrategy[Any], depth: int) -> st.SearchStrategy[Any]:
    """Scalars, arrays and objects, nested at most `depth` deep."""
    if not depth:
        return leaves
    inner = values(leaves, depth - 1)
    return choice(*[leaves] * 3, st.lists(inner, max_size=depth), st.dictionaries(names, inner, max_size=3))


json_events = st.dictionaries(names, values(scalars, 3), max_size=4)
events = st.dictionaries(names, values(choice(scalars, scalars, st.sampled_from(EVENT_NUMBERS)), 3), max_size=4)


def operands(node: Any) -> Iterator[Any]:
    """Values that conditions name, or close to these: of a number also its neighbours, of a network its address."""
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from operands(child)
    elif isinstance(node, bool | None):
        yield node
    elif isinstance(node, int | float):
        yield from (node, node - 1, node + 1)
    elif node not in SYMBOLS:
        yield node.split("/")[0]


@st.composite
def events_of(draw: st.DrawFn, pattern: Document) -> Document:
    """Events that have the fields of a pattern, with values that it names."""
    event: Document = {}
    for name, node in pattern.items():
        if name == "$or":
            event |= draw(events_of(draw(st.sampled_from(node))))
        elif name == "$not":
            event |= draw(events_of(node))
        elif isinstance(node, dict):
            event[name] = draw(events_of(node))
        else:
            value = draw(st.sampled_from(list(operands(node))))
            other = draw(st.sampled_from(list(operands(node))))
            event[name] = draw(st.sampled_from([value, value, [value], [0, value], [value, None], [value, other]]))
    return event


def other_fields_of(node: Any) -> Iterator[list[str]]:
    """The paths of the fields with which a pattern compares others."""
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "compare-field":
            yield from ([name] if isinstance(name, str) else name for name in child[1::2])
        else:
            yield from other_fields_of(child)


def leaves(node: Any) -> list[Any]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return [node] if children is None else [leaf for child in children for leaf in leaves(child)]


@st.composite
def events_with_others(draw: st.DrawFn, pattern: Document) -> Document:
    """Return events of `events_of`, mostly with the fields that a pattern compares with, often with a present value."""
    event = draw(events_of(pattern))
    for path in other_fields_of(pattern):
        value = draw(choice(scalars, st.sampled_from(leaves(event) or [0])))
        inner = event
        for name in path[:-1]:
            child = inner.setdefault(name, {})
            if not isinstance(child, dict):
                break
            inner = child
        else:
            inner[path[-1]] = draw(st.sampled_from([value, value, [value, 0], [None, value]]))
    return event


def events_near(
    patterns: Collection[Document], others: st.SearchStrategy[Document] = events
) -> st.SearchStrategy[Document]:
    """Two of three have the fields of one of the patterns."""
    near = st.sampled_from(list(patterns)).flatmap(events_with_others) if patterns else others
    return choice(others, near, near)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[dict[str, Document], list[Document]]:
    """Subscriptions by id, and events, most of them near the subscriptions."""
    some = draw(st.lists(patterns(), max_size=8))
    return {f"s{i}": pattern for i, pattern in enumerate(some)}, draw(
        st.lists(events_near(some), min_size=1, max_size=4)
    )
