"""Translate conditions of SQL's WHERE to patterns.

A field is a column. It is NULL if the event lacks it or has null. A comparison with NULL is unknown: neither the
comparison nor its negation selects the event. So a condition becomes two patterns, one for true and one for false. A
value of another type than the compared value counts as NULL.
"""

from __future__ import annotations

from typing import Any

from offline.patterns import ALWAYS, NEVER, Pattern, all_of, at, one_of, opposite
from offline.sql_grammar import (
    SQL,
    Between,
    Comparison,
    Field,
    In,
    Is,
    Like,
    Literal,
    Logic,
    Moment,
    Negation,
    Node,
    TranslationError,
    read,
)
from offline.sql_truth import FLIPPED, PRESENT, Truth, combined, like, met, text_but

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_UNKNOWN = Truth(NEVER, NEVER)


def translated(condition: str) -> Pattern | None:
    """The pattern of the events that a condition selects; None if it selects none. Raises TranslationError."""
    return _truth(read(condition, SQL)).true


def _truth(node: Node) -> Truth:
    if isinstance(node, Negation | Logic):
        return combined(node, _truth)
    if isinstance(node, Is):
        return _is(node)
    if isinstance(node, Field):
        return Truth(at(node.path, [True]), at(node.path, [False]))
    if isinstance(node, Literal):
        if node.value is not None and not isinstance(node.value, bool):
            raise TranslationError(f"{node.value!r} is neither true nor false")
        return _UNKNOWN if node.value is None else Truth(ALWAYS, NEVER) if node.value else Truth(NEVER, ALWAYS)
    if isinstance(node, Comparison):
        return _compared(node.symbol, _value(node.left), _value(node.right))
    if isinstance(node, In):
        operand = _value(node.operand)
        whole = _any([_compared("=", operand, _value(item)) for item in node.items])
    elif isinstance(node, Between):
        operand = _value(node.operand)
        low = _compared(">=", operand, _value(node.low))
        high = _compared("<=", operand, _value(node.high))
        whole = Truth(all_of((low.true, high.true)), one_of((low.false, high.false)))
    elif isinstance(node, Like):
        operand = _value(node.operand)
        entry = like(node)
        true = met(operand, [entry])
        whole = Truth(true, met(operand, [text_but(entry)]))
    else:
        raise TranslationError("is not supported")
    return ~whole if node.negated else whole


def _any(parts: list[Truth]) -> Truth:
    return Truth(one_of(part.true for part in parts), all_of(part.false for part in parts))


def _is(node: Is) -> Truth:
    if node.value is None:
        operand = _value(node.operand)
        whole = Truth(met(operand, [None, {"exists": False}]), met(operand, [PRESENT]))
    else:
        truth = _truth(node.operand)
        true = truth.true if node.value else truth.false
        whole = Truth(true, opposite(true))
    return ~whole if node.negated else whole


def _value(node: Node) -> Field | Literal:
    if isinstance(node, Field | Literal):
        return node
    raise TranslationError("a condition compared as a value is not supported")


def _compared(symbol: str, left: Field | Literal, right: Field | Literal) -> Truth:
    if isinstance(left, Literal) and isinstance(right, Field):
        left, right, symbol = right, left, FLIPPED[symbol]
    if isinstance(right, Field):
        assert isinstance(left, Field)
        return Truth(_fields(left, symbol, right), _fields(left, _OPPOSITE[symbol], right))
    if right.value is None:
        return _UNKNOWN
    return Truth(
        met(left, _entries(symbol, right.value)),
        met(left, _entries(_OPPOSITE[symbol], right.value)),
    )


def _entries(symbol: str, value: Any) -> list[Any]:
    """Entries for values of the same type that compare so."""
    if symbol == "=" and not isinstance(value, Moment):
        return [value]
    if isinstance(value, bool):
        if symbol != "!=":
            raise TranslationError(f"true and false have no order here ({symbol})")
        return [not value]
    if isinstance(value, str):
        return [text_but(value) if symbol == "!=" else {"text": [symbol, value]}]
    operator, bound = ("time", value.text) if isinstance(value, Moment) else ("numeric", value)
    return [{operator: [s, bound]} for s in (("<", ">") if symbol == "!=" else (symbol,))]


def _fields(left: Field, symbol: str, right: Field) -> Pattern | None:
    if left == right:
        if symbol in ("=", "<=", ">="):
            return at(left.path, [PRESENT])
        return NEVER
    other = right.path[0] if len(right.path) == 1 else list(right.path)
    if left.path[: len(right.path)] == right.path[: len(left.path)]:
        raise TranslationError(f"{left} {symbol} {right}: a field that has a value has no fields within it")
    if symbol == "=":
        return at(left.path, [{"$and": [{"compare-field": ["=", other]}, PRESENT]}])
    if symbol != "!=":
        return at(left.path, [{"compare-field": [symbol, other]}])
    of_order = at(left.path, [{"compare-field": [s, other]} for s in ("<", ">")])
    return one_of((of_order, *(all_of((at(left.path, [b]), at(right.path, [not b]))) for b in (True, False))))
