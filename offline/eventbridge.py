"""Rewrite rules of Amazon EventBridge as subscriptions.

Their patterns are those of this language, except that a dot in a name leads into an object:
`{"detail.state": [...]}` is `{"detail": {"state": [...]}}`. Both may stand in one pattern; here they become one tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from matchers.errors import PatternError
from matchers.language.model import Path as Field
from matchers.language.operators import show
from matchers.language.parsing import MAX_DEPTH, RESERVED
from offline.documents import Location, Rejection, read
from offline.files import STDIN, InputError, content, name_of
from offline.patterns import written
from streaming.documents.subscriptions import parsed


def rules(file: Path, subscriber: str) -> Iterator[dict[str, Any] | Rejection]:
    """The rules of a file as documents of subscriptions of this subscriber. Raises InputError.

    The file holds a rule, an array of rules or what `aws events list-rules` prints. A rule is an object with Name and
    EventPattern, and maybe State; a pattern alone is taken for one that is called like the file, and is numbered if
    there are several.
    """
    name = name_of(file)
    try:
        whole = parsed(content(file))
    except orjson.JSONDecodeError as error:
        raise InputError(f"{name}: not JSON: {error}") from None
    listed = list(_listed(whole))
    stem = "rule" if file == STDIN else file.stem
    seen: set[str] = set()
    for number, rule in enumerate(listed, 1):
        place = Location(name, "rule", number)
        if not isinstance(rule, Mapping):
            yield Rejection(place, None, f"a rule is an object with Name and EventPattern, not {show(rule)}")
            continue
        unnamed = stem if len(listed) == 1 else f"{stem}-{number}"
        id = rule["Name"] if isinstance(rule.get("Name"), str) else unnamed
        if id in seen:
            yield Rejection(place, id, "an earlier rule has this id, and a subscription would replace the other")
            continue
        try:
            pattern = rewritten(_pattern_of(rule))
        except PatternError as error:
            yield Rejection(place, id, str(error))
            continue
        document = {"id": id, "subscriber": subscriber, "pattern": pattern}
        if rule.get("State") == "DISABLED":
            document["paused"] = True
        checked = read(place, id, document)
        if isinstance(checked, Rejection):
            yield checked
            continue
        seen.add(id)
        yield document


def rewritten(pattern: Any) -> dict[str, Any]:
    """A pattern of EventBridge as one of this language. Raises PatternError for what is not supported; other mistakes
    are left as they are."""
    return written(_object(pattern, ()))


def _listed(whole: Any) -> Iterable[Any]:
    if isinstance(whole, Mapping) and isinstance(whole.get("Rules"), list):
        whole = whole["Rules"]
    return whole if isinstance(whole, list) else [whole]


def _pattern_of(rule: Mapping[str, Any]) -> Any:
    if "EventPattern" not in rule:
        if "ScheduleExpression" in rule:
            raise PatternError((), "the rule has a schedule instead of a pattern; schedules are not supported")
        return rule
    if rule.get("ScheduleExpression"):
        raise PatternError((), "the rule has a schedule, too; schedules are not supported")
    pattern = rule["EventPattern"]
    try:
        return parsed(pattern) if isinstance(pattern, str) else pattern
    except orjson.JSONDecodeError as error:
        raise PatternError((), f"EventPattern is not JSON: {error}") from None


def _object(node: Any, path: Field) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        raise PatternError(path, f"must be an object of fields, not {show(node)}")
    tree: dict[str, Any] = {}
    for name, child in node.items():
        if name == "$or":
            tree["$or"] = _alternatives(child, path)
            continue
        *above, last = name.split(".")
        if reserved := next((step for step in (*above, last) if step in RESERVED), None):
            raise PatternError(path, f"a field cannot be called {reserved} here")
        if len(path) + len(above) >= MAX_DEPTH:
            raise PatternError(path, f"is nested deeper than {MAX_DEPTH} objects")
        into = tree
        for step in above:
            into = into.setdefault(step, {})
            if not isinstance(into, dict):
                raise PatternError(
                    (*path, step), "has conditions on its value and on fields within it; an event has only one of these"
                )
        within = _field(child, (*path, *above, last))
        _put(into, last, within, (*path, *above, last))
    return tree


def _put(into: dict[str, Any], name: str, new: Any, path: Field) -> None:
    """Add a field to an object that may have it already, under another spelling."""
    old = into.setdefault(name, new)
    if old is new:
        return
    if not isinstance(old, dict) or not isinstance(new, dict):
        raise PatternError(path, "is named twice, with dots and as a nested field")
    for inner, child in new.items():
        if inner == "$or" and inner in old:
            raise PatternError(path, "has an $or twice, with dots and as a nested field")
        _put(old, inner, child, (*path, inner))


def _field(node: Any, path: Field) -> Any:
    if isinstance(node, list):
        return [_entry(entry) for entry in node]
    return _object(node, path) if isinstance(node, Mapping) else node


def _entry(entry: Any) -> Any:
    return entry["exactly"] if isinstance(entry, Mapping) and list(entry) == ["exactly"] else entry


def _alternatives(node: Any, path: Field) -> list[Any]:
    if not isinstance(node, list) or len(node) < 2 or not all(isinstance(pattern, Mapping) for pattern in node):
        raise PatternError((*path, "$or"), f"is a field's name in EventBridge unless it has two patterns: {show(node)}")
    try:
        return [_object(pattern, path) for pattern in node]
    except RecursionError:
        raise PatternError((*path, "$or"), f"is nested deeper than {MAX_DEPTH} levels") from None
