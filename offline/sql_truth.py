"""Translate a condition to two patterns, one for true and one for false; shared by CESQL and SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matchers.errors import PatternError
from matchers.language.model import View
from matchers.language.parsing import parse
from offline.patterns import ALWAYS, NEVER, Pattern, all_of, at, one_of
from offline.sql_grammar import Field, Like, Literal, Logic, Moment, Negation, Node, TranslationError

MOST_XOR_ENTRIES = 1_000  # entries of lists: each XOR writes both its sides twice

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # with its sides exchanged

ANY_TEXT = {"prefix": ""}
PRESENT = {"anything-but": None}
_SPECIAL = "\\.+*?()[]{}|^$"


@dataclass(frozen=True)
class Truth:
    """The events for which a condition is true, and those for which it is false; for the rest it is unknown."""

    true: Pattern | None
    false: Pattern | None

    def __invert__(self) -> Truth:
        return Truth(self.false, self.true)


def met(operand: Field | Literal, entries: list[Any]) -> Pattern | None:
    """Return a pattern that holds if one of the entries holds for a field's value; for a literal it is always or never
    true."""
    if isinstance(operand, Field):
        return at(operand.path, entries)
    if not entries:
        return NEVER
    try:
        pattern = parse({"x": entries})
    except PatternError as error:
        raise TranslationError(str(error)) from None
    value = operand.value.text if isinstance(operand.value, Moment) else operand.value
    return ALWAYS if pattern.holds(View({("x",): value}, {}, {})) else NEVER


def text_but(entry: Any) -> dict[str, Any]:
    """The entry of a list for strings for which another entry does not hold."""
    return {"$and": [ANY_TEXT, {"anything-but": entry}]}


def combined(node: Negation | Logic, truth: Callable[[Node], Truth]) -> Truth:
    """AND, OR, XOR and NOT of conditions, each decided by `truth`."""
    if isinstance(node, Negation):
        return ~truth(node.node)
    truths = list(map(truth, node.nodes))
    if node.symbol == "AND":
        return Truth(all_of(part.true for part in truths), one_of(part.false for part in truths))
    if node.symbol == "OR":
        return Truth(one_of(part.true for part in truths), all_of(part.false for part in truths))
    whole, *others = truths
    for part in others:
        true = one_of((all_of((whole.true, part.false)), all_of((whole.false, part.true))))
        false = one_of((all_of((whole.true, part.true)), all_of((whole.false, part.false))))
        whole = Truth(true, false)
        if _size(true) + _size(false) > MOST_XOR_ENTRIES:
            raise TranslationError("has more XOR than a pattern can spell")
    return whole


def _size(node: Any) -> int:
    """The number of entries in all lists."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return 1 if children is None else sum(map(_size, children))


def like(node: Like) -> Any:
    """The entry of a list for texts of this form."""
    if any(is_wild and character == "_" for character, is_wild in node.pattern):
        if node.ignore_case:
            raise TranslationError("ILIKE with _ is not supported: no operator of one character ignores case")
        signs = {"_": "(.|\\n)", "%": "(.|\\n)*"}
        return {"regex": "".join(signs[c] if is_wild else _escaped(c, _SPECIAL) for c, is_wild in node.pattern)}
    pieces = [""]
    for character, is_wild in node.pattern:
        if not is_wild:
            pieces[-1] += character
        elif len(pieces) == 1 or pieces[-1]:  # two stars side by side are one
            pieces.append("")
    if len(pieces) == 1:
        return {"equals-ignore-case": pieces[0]} if node.ignore_case else pieces[0]
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 2 and "" in (first, last):
        text = {"equals-ignore-case": first or last} if node.ignore_case else first or last
        return {"suffix" if last else "prefix": text}
    wildcard = "*".join(_escaped(piece, "\\*") for piece in pieces)
    return {"wildcard": {"equals-ignore-case": wildcard} if node.ignore_case else wildcard}


def _escaped(text: str, special: str) -> str:
    return "".join(f"\\{character}" if character in special else character for character in text)
