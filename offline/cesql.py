"""Translate CESQL, the expression language of CloudEvents, to patterns.

Attributes are strings, integers of 32 bits or booleans. A comparison casts to the type of the right side, IN and LIKE
to the type of the left side. An expression does not name the type of an attribute, so a pattern has an entry for each
type with the result of the cast. A comparison with a missing attribute, or with one that cannot be cast, is false.
"""

from __future__ import annotations

import re
from typing import Any

from offline.patterns import ALWAYS, NEVER, Pattern, all_of, at, one_of, opposite
from offline.sql_grammar import (
    CESQL,
    Comparison,
    Field,
    FieldExists,
    In,
    Like,
    Literal,
    Logic,
    Negation,
    Node,
    TranslationError,
    read,
)
from offline.sql_truth import FLIPPED, PRESENT, Truth, combined, like, met, text_but

LEAST, MOST = -(2**31), 2**31 - 1
# Attributes that CloudEvents defines, all of them texts.
TEXTS = {"datacontenttype", "dataschema", "id", "source", "specversion", "subject", "time", "type"}

_INTEGER = re.compile(r"[+-]?[0-9]+")


def translated(expression: str) -> Pattern | None:
    """The pattern of the events for which an expression is true; None if there are none. Raises TranslationError."""
    return _truth(read(expression, CESQL)).true


def _truth(node: Node) -> Truth:
    if isinstance(node, Logic):
        if node.symbol != "AND" and (field := next((part for part in node.nodes if isinstance(part, Field)), None)):
            raise TranslationError(f"{node.symbol} gives false where {field} is missing; write {field} = TRUE")
        return combined(node, _truth)
    if isinstance(node, Negation) and isinstance(node.node, Field):
        true = met(node.node, _equal_boolean(node.node, False))
    elif isinstance(node, Negation):
        return combined(node, _truth)
    elif isinstance(node, Field):
        true = met(node, _equal_boolean(node, True))
    elif isinstance(node, Literal):
        return _of_literal(node)
    else:
        true = _true(node)
    return Truth(true, opposite(true))


def _of_literal(literal: Literal) -> Truth:
    value = literal.value.lower() if isinstance(literal.value, str) else literal.value
    if value not in (True, False, "true", "false") or type(value) is int:
        raise TranslationError(f"{literal.value!r} is neither true nor false")
    return Truth(ALWAYS, NEVER) if value in (True, "true") else Truth(NEVER, ALWAYS)


def _true(node: Node) -> Pattern | None:
    if isinstance(node, FieldExists):
        return met(node.field, [PRESENT])
    if isinstance(node, Comparison):
        return _compared(node.symbol, _value(node.left), _value(node.right))
    if isinstance(node, In):
        operand = _value(node.operand)
        items = list(map(_value, node.items))
        true = one_of(_cast_to_left(operand, item) for item in items)
    elif isinstance(node, Like):
        operand, items = _value(node.operand), []
        true = met(_as_text(operand), _like(node, operand))
    else:
        raise TranslationError("is not supported")
    named = [*items, *([operand] if node.negated else [])]  # where one is missing, both IN and NOT IN are false
    present = [met(field, [PRESENT]) for field in dict.fromkeys(named) if isinstance(field, Field)]
    return all_of((*present, opposite(true) if node.negated else true))


def _value(node: Node) -> Field | Literal:
    if isinstance(node, Field):
        if node.path == ("data",):
            raise TranslationError("CESQL reads the attributes of an event, not its data")
        return node
    if isinstance(node, Literal):
        if isinstance(node.value, int) and not isinstance(node.value, bool) and not LEAST <= node.value <= MOST:
            raise TranslationError(f"{node.value} is no whole number of 32 bits")
        return node
    raise TranslationError("a condition compared as a value is not supported")


def _compared(symbol: str, left: Field | Literal, right: Field | Literal) -> Pattern | None:
    if symbol not in ("=", "!="):
        return _ordered(symbol, left, right)
    if isinstance(right, Field):
        if isinstance(left, Field):
            return _fields(symbol, left, right)
        return met(right, _equal_cast(right, left.value) if symbol == "=" else _other_cast(right, left.value))
    return met(left, _equal(left, right.value) if symbol == "=" else _other(left, right.value))


def _fields(symbol: str, left: Field, right: Field) -> Pattern | None:
    if left == right:
        return met(left, [PRESENT]) if symbol == "=" else NEVER
    if not (_is_text(left) and _is_text(right)):
        raise TranslationError(
            f"{left} {symbol} {right}: one attribute may be a string and the other a number, which are cast "
            "event by event; only attributes that CloudEvents defines as strings can be compared"
        )
    return at(left.path, [{"compare-field": [s, right.path[0]]} for s in (["="] if symbol == "=" else ["<", ">"])])


def _ordered(symbol: str, left: Field | Literal, right: Field | Literal) -> Pattern | None:
    """Compare whole numbers: both sides are cast to them, whatever they are."""
    if isinstance(left, Field) and isinstance(right, Field):
        raise TranslationError(f"{left} {symbol} {right}: compares the attributes as whole numbers, strings too")
    if isinstance(right, Field):
        left, right, symbol = right, left, FLIPPED[symbol]
    assert isinstance(right, Literal)
    return met(left, _in_order(left, symbol, _as_integer(right.value)))


def _cast_to_left(left: Field | Literal, item: Field | Literal) -> Pattern | None:
    """Whether the left side of IN equals an item, which is cast to the type of the left side."""
    if isinstance(item, Literal):
        return met(left, _equal_cast(left, item.value))
    if isinstance(left, Literal):
        return met(item, _equal(item, left.value))
    return _fields("=", left, item)


def _is_text(operand: Field | Literal) -> bool:
    return isinstance(operand, Field) and operand.path[0] in TEXTS


def _equal(operand: Field | Literal, value: Any) -> list[Any]:
    """Entries for what, cast to the type of the value, equals it."""
    if isinstance(value, bool):
        return _equal_boolean(operand, value)
    if isinstance(value, int):
        return _in_order(operand, "=", value)
    return [value] if _is_text(operand) else [value, *_of_spelling(value)]


def _other(operand: Field | Literal, value: Any) -> list[Any]:
    """Entries for what can be cast to the type of the value and differs from it then."""
    if isinstance(value, bool):
        return _equal_boolean(operand, not value)
    if isinstance(value, int):
        return _in_order(operand, "!=", value)
    return [{"anything-but": [*_equal(operand, value), None]}]


def _of_spelling(text: str) -> list[Any]:
    """The number or truth value that is a text of this spelling."""
    if text in ("true", "false"):
        return [text == "true"]
    return [int(text)] if re.fullmatch(r"0|-?[1-9][0-9]{0,9}", text) and LEAST <= int(text) <= MOST else []


def _equal_boolean(operand: Field | Literal, value: bool) -> list[Any]:
    texts: list[Any] = [{"equals-ignore-case": "true" if value else "false"}]
    if _is_text(operand):
        return texts
    numbers: list[Any] = [{"numeric": ["<", 0]}, {"numeric": [">", 0]}] if value else [0]
    return [value, *texts, *numbers]


def _equal_cast(operand: Field | Literal, value: Any) -> list[Any]:
    """Entries for what equals the value when this is cast to the type of the operand."""
    text, integer, boolean = _casts(value)
    if _is_text(operand):
        return [text]
    return [text, *([] if integer is None else [integer]), *([] if boolean is None else [boolean])]


def _other_cast(operand: Field | Literal, value: Any) -> list[Any]:
    text, integer, boolean = _casts(value)
    texts = text_but(text)
    if _is_text(operand):
        return [texts]
    numbers: list[Any] = [] if integer is None else [{"numeric": [symbol, integer]} for symbol in ("<", ">")]
    return [texts, *numbers, *([] if boolean is None else [not boolean])]


def _casts(value: Any) -> tuple[str, int | None, bool | None]:
    """A value as a text, as a whole number and as a truth value; None where it has no such cast."""
    if isinstance(value, bool):
        return str(value).lower(), int(value), value
    if isinstance(value, int):
        return str(value), value, value != 0
    integer = int(value) if _INTEGER.fullmatch(value) and len(value) < 100 else None
    known = {"true": True, "false": False}
    in_range = integer is not None and LEAST <= integer <= MOST
    return value, integer if in_range else None, known.get(value.lower())


def _as_integer(value: Any) -> int:
    _, integer, _ = _casts(value)
    if integer is None:
        raise TranslationError(f"{value!r} is no whole number of 32 bits")
    return integer


def _as_text(operand: Field | Literal) -> Field | Literal:
    return operand if isinstance(operand, Field) else Literal(_casts(operand.value)[0])


def _in_order(operand: Field | Literal, symbol: str, value: int) -> list[Any]:
    """Entries for what, cast to a whole number, compares so with the value."""
    ranges = {
        "=": [(value, value)],
        "!=": [(LEAST, value - 1), (value + 1, MOST)],
        "<": [(LEAST, value - 1)],
        "<=": [(LEAST, value)],
        ">": [(value + 1, MOST)],
        ">=": [(value, MOST)],
    }[symbol]
    texts = [entry for low, high in ranges for entry in _integer_texts(low, high)]
    if _is_text(operand):
        return texts
    symbols = ["<", ">"] if symbol == "!=" else [symbol]
    numbers: list[Any] = [value] if symbol == "=" else [{"numeric": [s, value]} for s in symbols]
    return [*numbers, *texts, *(bool(i) for i in (0, 1) if any(low <= i <= high for low, high in ranges))]


def _integer_texts(low: int, high: int) -> list[Any]:
    """Entries for texts that are whole numbers from low to high; zeros may lead. Of one number a + may lead too, of
    several not: no operator has it, and CloudEvents writes no integer so."""
    if low > high:
        return []
    if low == high:
        sign = "[+-]?" if low == 0 else "-" if low < 0 else "\\+?"
        return [{"regex": f"{sign}0*{abs(low)}"}]
    return [{"$and": [{"numeric-text": [">=", low, "<=", high]}, {"regex": "-?[0-9]+"}]}]


def _like(node: Like, operand: Field | Literal) -> list[Any]:
    entries = [like(node)]
    if isinstance(operand, Literal) or _is_text(operand):
        return entries
    if all(is_wild and character == "%" for character, is_wild in node.pattern) and node.pattern:
        return [PRESENT]
    spelling = "".join(character for character, is_wild in node.pattern if not is_wild)
    if any(is_wild for _, is_wild in node.pattern):
        if re.fullmatch(r"-?[0-9]*", spelling):
            raise TranslationError(
                f"{operand} may be a number, and no pattern matches the digits of a number; a text after LIKE with "
                "another character than digits has an equal"
            )
        return entries + [b for b in (True, False) if met(Literal(str(b).lower()), entries) is not None]
    return entries + _of_spelling(spelling)
