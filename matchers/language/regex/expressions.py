"""Parse regular expressions: RE2's syntax without flags and anchors, for a whole text.

    ab|c{2,5}[^d-f]*\\p{Lu}.

Backreferences and lookaround, which need more than linear time, are rejected as in RE2.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from unicodedata import category

MAX_STATES = 250  # that an expression needs, its repetitions written out
MAX_NESTED_PARENTHESES = 100
MAX_REPEAT = 1_000  # as in RE2
MAX_MEMBERS = 1_000  # of a [...]: different characters, ranges and classes
MOST_KEPT_CHARACTERS = 2_000_000  # of expressions whose trees are kept: some 12 bytes each, besides MAX_STATES nodes

_kept = 0

Test = Callable[[str], bool]  # of a character


class ExpressionError(ValueError):
    """The text is not an expression; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Character:
    """A character that passes the test; `only` is that character, if there is just one."""

    test: Test
    only: str = ""


@dataclass(frozen=True, slots=True)
class InOrder:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None  # None: any number


Node = Character | InOrder | Alternation | Repeat

_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: dict[str, frozenset[str]] = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset("\t\n\f\r "),
}
_POSIX: dict[str, frozenset[str]] = {
    "alpha": frozenset(string.ascii_letters),
    "digit": _CLASSES["d"],
    "alnum": frozenset(string.ascii_letters + string.digits),
    "upper": frozenset(string.ascii_uppercase),
    "lower": frozenset(string.ascii_lowercase),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "graph": frozenset(map(chr, range(33, 127))),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "xdigit": frozenset(string.hexdigits),
    "word": _CLASSES["w"],
}
_TWO_LETTERS = (
    *("Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf"),
    *("Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"),
)
_CATEGORIES = frozenset(_TWO_LETTERS) | {name[0] for name in _TWO_LETTERS}


@lru_cache(maxsize=1_000)
def parse(text: str) -> Node:
    """Raises ExpressionError."""
    global _kept
    reader = _ExpressionReader(text)
    node = reader.choice(0)
    if not reader.at_end:
        raise ExpressionError("a ) without its (")
    if _size(node) > MAX_STATES:
        raise ExpressionError(f"it needs more than {MAX_STATES} states, its repetitions written out")
    _kept += len(text)
    if _kept > MOST_KEPT_CHARACTERS:
        _kept = len(text)
        parse.cache_clear()
    return node


def literal(node: Node, forward: bool = True) -> tuple[str, bool]:
    """The text with which all that the node accepts begins (or ends), and whether it accepts just this."""
    if isinstance(node, Character):
        return node.only, bool(node.only)
    if isinstance(node, Alternation):
        found = [literal(part, forward) for part in node.parts]
        texts = {text for text, _ in found}
        return (texts.pop(), all(whole for _, whole in found)) if len(texts) == 1 else ("", False)
    if isinstance(node, Repeat):
        text, whole = literal(node.part, forward)
        if not whole:
            return (text if node.least else ""), False
        return text * node.least, node.least == node.most
    pieces: list[str] = []
    for part in node.parts if forward else reversed(node.parts):
        text, whole = literal(part, forward)
        pieces.append(text)
        if not whole:
            break
    else:
        whole = True
    return "".join(pieces if forward else reversed(pieces)), whole


def _size(node: Node) -> int:
    if isinstance(node, Character):
        return 1
    if isinstance(node, Repeat):
        times = node.least + 1 if node.most is None else max(node.most, 1)
        return times * _size(node.part) + times
    return len(node.parts) + sum(map(_size, node.parts))


class _ExpressionReader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._text)

    def _next(self, text: str) -> bool:
        """Skip this text, if it is next."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _take(self, what: str) -> str:
        if self.at_end:
            raise ExpressionError(f"it ends within {what}")
        self._at += 1
        return self._text[self._at - 1]

    def choice(self, depth: int) -> Node:
        if depth > MAX_NESTED_PARENTHESES:
            raise ExpressionError(f"parentheses are nested deeper than {MAX_NESTED_PARENTHESES}")
        parts = [self._in_order(depth)]
        while self._next("|"):
            parts.append(self._in_order(depth))
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _in_order(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self.at_end and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._one(depth)))
        return parts[0] if len(parts) == 1 else InOrder(tuple(parts))

    def _one(self, depth: int) -> Node:
        character = self._take("an expression")
        if character == "(":
            if self._next("?") and not self._next(":"):
                raise ExpressionError("after (? only : is supported; no flags, names or lookaround")
            node = self.choice(depth + 1)
            if not self._next(")"):
                raise ExpressionError("a ( without its )")
            return node
        if character == "[":
            return self._set()
        if character == ".":
            return Character(lambda c: c != "\n")
        if character == "\\":
            return self._escaped()
        if character in "*+?{":
            raise ExpressionError(f"nothing to repeat stands before {character}; the character itself is \\{character}")
        if character in "^$":
            raise ExpressionError(
                f"it matches the whole string, so {character} is not needed; for a part of it write .* at the ends. "
                f"The character itself is \\{character}"
            )
        return _just(character)

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._next("?")  # as few as possible first: the same texts
        if self._bounds() is not None:
            raise ExpressionError("a repetition is repeated; put it in parentheses")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for symbol, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._next(symbol):
                return least, most
        if not self._next("{"):
            return None
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at : end if end >= 0 else None].partition(",")
        if end < 0 or not _is_count(low) or not (_is_count(high) or (comma and not high) or not comma):
            raise ExpressionError("a repetition is {3}, {3,} or {3,5}; the character itself is \\{")
        self._at = end + 1
        bounds = int(low), (int(high) if high else None if comma else int(low))
        if max(bounds[0], bounds[1] or 0) > MAX_REPEAT or (bounds[1] is not None and bounds[1] < bounds[0]):
            raise ExpressionError(f"a repetition goes from the lower to the higher of two counts up to {MAX_REPEAT}")
        return bounds

    def _escaped(self) -> Character:
        name = self._take("an escape")
        if name.lower() in _CLASSES:
            return _of_class(_CLASSES[name.lower()], name.isupper())
        if name in "pP":
            return self._category(name == "P")
        if name == "x":
            return _just(self._hexadecimal())
        if name in _CONTROL:
            return _just(_CONTROL[name])
        if name.isalnum():
            raise ExpressionError(f"\\{name} is not supported; no anchors, boundaries or references to groups")
        return _just(name)

    def _hexadecimal(self) -> str:
        if self._next("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += len(digits)
            digits = digits if len(digits) == 2 else ""
        if not digits or len(digits) > 6 or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise ExpressionError("a character by its number is \\x41 or \\x{1F600}")
        if 0xD800 <= int(digits, 16) <= 0xDFFF:
            raise ExpressionError(f"\\x{{{digits}}} is an unpaired surrogate")
        return chr(int(digits, 16))

    def _category(self, negated: bool) -> Character:
        name = self._take("a category")
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : end] if end >= 0 else ""
            self._at = end + 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in _CATEGORIES:
            raise ExpressionError(f"{name!r} is not a category of characters; such are L, Lu, Ll, N, Nd, P, S and Z")
        return _of_category(name, negated)

    def _set(self) -> Character:
        negated = self._next("^")
        ranges: set[tuple[str, str]] = set()
        classes: set[Test] = set()
        first = True
        while first or not self._next("]"):
            first = False
            member = self._member()
            if isinstance(member, Character):
                classes.add(member.test)
            else:
                ranges.add(member)
            if len(ranges) + len(classes) > MAX_MEMBERS:
                raise ExpressionError(f"a [] has more than {MAX_MEMBERS} different characters, ranges and classes")
        within = _within(ranges)
        return Character(lambda c: (within(c) or any(test(c) for test in classes)) is not negated)

    def _member(self) -> tuple[str, str] | Character:
        """A range, which may be a single character, or a class."""
        if self._next("[:"):
            return self._posix()
        low = self._end()
        if not low.only or not self._text.startswith("-", self._at) or self._text.startswith("-]", self._at):
            return (low.only, low.only) if low.only else low
        self._at += 1
        high = self._end()
        if not high.only or high.only < low.only:
            raise ExpressionError("a range in [] goes from a lower to a higher character")
        return low.only, high.only

    def _end(self) -> Character:
        """One end of a range: a character or an escape."""
        character = self._take("[]")
        return self._escaped() if character == "\\" else _just(character)

    def _posix(self) -> Character:
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        if name.removeprefix("^") not in _POSIX:
            raise ExpressionError(f"[:{name}:] is not a class; known: {', '.join(_POSIX)}")
        self._at = end + 2
        return _of_class(_POSIX[name.removeprefix("^")], name.startswith("^"))


def _is_count(text: str) -> bool:
    return 0 < len(text) <= 4 and text.isascii() and text.isdigit()


def _just(character: str) -> Character:
    return Character(lambda c: c == character, character)


def _within(ranges: set[tuple[str, str]]) -> Test:
    """The test whether a character lies in one of the ranges, whose ends are kept as two texts."""
    lows: list[str] = []
    highs: list[str] = []
    for low, high in sorted(ranges):
        if lows and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    starts, ends = "".join(lows), "".join(highs)

    def test(character: str) -> bool:
        at = bisect_right(starts, character) - 1
        return at >= 0 and character <= ends[at]

    return test


@cache
def _of_class(members: frozenset[str], negated: bool) -> Character:
    return Character(lambda c: (c in members) is not negated)


@cache
def _of_category(name: str, negated: bool) -> Character:
    return Character(lambda c: category(c).startswith(name) is not negated)
