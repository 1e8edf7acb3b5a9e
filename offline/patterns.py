"""Combine patterns: all of several, one of several, the opposite.

A pattern is an object as SUBSCRIPTIONS.md describes it, or NEVER, which no event meets and which the
language cannot express.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matchers.language.model import Path
from matchers.language.parsing import OF_SEVERAL, OPERATORS

Pattern = dict[str, Any]
NEVER = None
ALWAYS: Pattern = {}


def at(path: Path, entries: list[Any]) -> Pattern | None:
    """Return a pattern that holds if one of the entries holds for a field."""
    if not entries:
        return NEVER
    node: Any = entries
    for name in reversed(path):
        node = {name: node}
    pattern: Pattern = node
    return pattern


def all_of(patterns: Iterable[Pattern | None]) -> Pattern | None:
    """Put into one object what fits; of the rest, one into an $or, and the opposites of the others into a $not."""
    whole: Pattern = {}
    others: list[Pattern] = []
    for pattern in patterns:
        if pattern is NEVER:
            return NEVER
        both = None if "$not" in pattern else _merged(whole, pattern)
        if both is None:
            others.append(pattern)
        else:
            whole = both
    if others and "$or" not in whole and "$not" not in others[0]:
        whole["$or"] = [others.pop(0)]
    opposites = list(map(opposite, others))
    if not opposites:
        return whole
    return {**whole, "$not": opposites[0] if len(opposites) == 1 else {"$or": opposites}}


def one_of(patterns: Iterable[Pattern | None]) -> Pattern | None:
    """The lists of one field become one list."""
    lists: dict[Path, dict[str, Any]] = {}  # by its spelling, because 1 and true are equal in Python
    others: list[Pattern | None] = []
    for pattern in patterns:
        if pattern is NEVER:
            continue
        if not pattern:
            return ALWAYS
        for part in pattern["$or"] if list(pattern) == ["$or"] else [pattern]:
            path, entries = _only_list(part)
            if entries:
                lists.setdefault(path, {}).update((repr(entry), entry) for entry in entries)
            else:
                others.append(part)
    alternatives = [*(at(path, list(entries.values())) for path, entries in lists.items()), *others]
    if not alternatives:
        return NEVER
    return alternatives[0] if len(alternatives) == 1 else {"$or": alternatives}


def opposite(pattern: Pattern | None) -> Pattern | None:
    """Return the pattern that holds where this one does not, as far as an event without arrays goes."""
    if pattern is NEVER:
        return ALWAYS
    if not pattern:
        return NEVER
    if list(pattern) == ["$not"]:
        within: Pattern = pattern["$not"]
        return within
    return {"$not": pattern}


def written(pattern: Pattern) -> Pattern:
    """A pattern as the language spells it: a nested object with just the name of an operator stands in an $or."""
    return {
        name: [written(alternative) for alternative in child] if name == "$or" else _nested(child)
        for name, child in pattern.items()
    }


def _nested(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    fields = written(node)
    return {"$or": [fields]} if len(fields) == 1 and next(iter(fields)) in (*OPERATORS, *OF_SEVERAL) else fields


def _merged(a: Pattern, b: Pattern) -> Pattern | None:
    """Merge two patterns into one object; None if a list of both holds more than one thing."""
    whole = dict(a)
    for name, child in b.items():
        if name == "$or" and name in whole:
            return None
        both = _joined(whole[name], child) if name in whole else child
        if both is None:
            return None
        whole[name] = both
    return whole


def _joined(a: Any, b: Any) -> Any:
    if isinstance(a, dict) and isinstance(b, dict):
        return _merged(a, b)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b) == 1:
        (operator, left), (same, right) = _bounds(a[0]), _bounds(b[0])
        if operator == same and len(left) == len(right) == 2 and {left[0][0], right[0][0]} == {"<", ">"}:
            return [{operator: left + right}]
        return [{"$and": [*_conjuncts(a[0]), *_conjuncts(b[0])]}]
    return None


def _bounds(entry: Any) -> tuple[str, list[Any]]:
    """The operator and its bounds, if it has any."""
    operator = next(iter(entry)) if isinstance(entry, dict) else ""
    return operator, list(entry[operator]) if operator in ("numeric", "text", "time") else []


def _conjuncts(entry: Any) -> list[Any]:
    return list(entry["$and"]) if isinstance(entry, dict) and "$and" in entry else [entry]


def _only_list(pattern: Pattern) -> tuple[Path, list[Any]]:
    """The path and the list of a pattern about one field; no list if it has more."""
    path: Path = ()
    node: Any = pattern
    while isinstance(node, dict) and len(node) == 1 and not node.keys() & {"$or", "$not"}:
        ((name, node),) = node.items()
        path = (*path, name)
    return (path, node) if isinstance(node, list) else ((), [])
