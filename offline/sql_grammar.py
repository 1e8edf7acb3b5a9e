"""Read conditions in CESQL and in SQL: one grammar, two dialects.

or:      and (OR and)*                          in CESQL, AND, OR and XOR are of one precedence
and:     not (AND not)*
not:     NOT not | test                         in CESQL, NOT binds tighter than = and the like
test:    value (= | <> | < | ...) value | value [NOT] IN (value, ...) | value [NOT] LIKE text | ...
value:   field | text | number | TIMESTAMP text | TRUE | FALSE | NULL | (or)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from matchers.language import times
from matchers.language.model import Path
from matchers.language.operators import show
from matchers.language.parsing import MAX_DEPTH, RESERVED


class TranslationError(ValueError):
    """A condition cannot be read, or the pattern language has no equivalent; the text has the reason."""


@dataclass(frozen=True)
class Field:
    path: Path

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class Moment:
    """A time of RFC 3339."""

    text: str


@dataclass(frozen=True)
class Literal:
    value: str | float | int | bool | Moment | None


@dataclass(frozen=True)
class Comparison:
    left: Node
    symbol: str  # =, !=, <, <=, > or >=
    right: Node


@dataclass(frozen=True)
class In:
    operand: Node
    items: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True)
class Like:
    operand: Node
    pattern: tuple[tuple[str, bool], ...]  # the characters, and which of them stand for others
    negated: bool
    ignore_case: bool


@dataclass(frozen=True)
class Between:
    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True)
class Is:
    operand: Node
    value: bool | None
    negated: bool


@dataclass(frozen=True)
class FieldExists:
    field: Field


@dataclass(frozen=True)
class Negation:
    node: Node


@dataclass(frozen=True)
class Logic:
    symbol: str  # AND, OR or XOR
    nodes: tuple[Node, ...]


Node = Field | Literal | Comparison | In | Like | Between | Is | FieldExists | Negation | Logic


class _Token(NamedTuple):
    kind: str  # name, quoted, text, number, symbol, end
    text: str
    at: int  # position from 1 on

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "name" else ""


@dataclass(frozen=True)
class Dialect:
    name: str
    tokens: re.Pattern[str]
    keywords: frozenset[str]
    levels: tuple[tuple[str, ...], ...]  # of AND and its like, the loosest first
    foreign: frozenset[str] = frozenset()  # words that begin what is not supported

    @property
    def is_sql(self) -> bool:
        return "IS" in self.keywords


_COMPARED = ("=", "!=", "<>", "<", "<=", ">", ">=")

CESQL = Dialect(
    "CESQL",
    re.compile(
        r"""(?P<space>[ \t\r\n]+)|(?P<text>'(\\.|[^'\\])*'|"(\\.|[^"\\])*")|(?P<number>[0-9]+(?![A-Za-z0-9_]))"""
        r"""|(?P<name>[A-Za-z0-9_]+)|(?P<symbol><=|>=|<>|!=|[=<>(),+*/%-])""",
        re.DOTALL,
    ),
    frozenset(("AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE")),
    (("AND", "OR", "XOR"),),
)

SQL = Dialect(
    "SQL",
    re.compile(
        r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'([^']|'')*')|(?P<quoted>"([^"]|"")+"|`([^`]|``)+`)"""
        r"""|(?P<number>([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?(?!\w))|(?P<name>[^\W\d][\w$]*)"""
        r"""|(?P<symbol><=>|<=|>=|<>|!=|==|\|\||::|->>?|[=<>(),.+*/%&|^~;:?@#\[\]{}-])""",
        re.DOTALL,
    ),
    frozenset(
        ("AND", "OR", "NOT", "LIKE", "ILIKE", "ESCAPE", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "EXISTS")
    ),
    (("OR",), ("AND",)),
    frozenset(("CASE", "SELECT", "INTERVAL", "ARRAY", "ALL", "ANY", "SOME", "ROW", "CAST", "COLLATE")),
)


def read(text: str, dialect: Dialect) -> Node:
    """Read a condition. Raises TranslationError."""
    return _ConditionParser(text, dialect).whole()


def _tokens(text: str, dialect: Dialect) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = dialect.tokens.match(text, at)
        if match is None:
            what = "an unterminated string" if text[at] in "'\"`" else show(text[at])
            raise TranslationError(f"position {at + 1}: {what} is not part of {dialect.name}")
        if match["space"] is None:
            kind = next(kind for kind in ("text", "quoted", "number", "name", "symbol") if match.groupdict().get(kind))
            yield _Token(kind, match[0], at + 1)
        at = match.end()
    yield _Token("end", "", len(text) + 1)


class _ConditionParser:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self._dialect = dialect
        self._tokens = list(_tokens(text, dialect))
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        if self._dialect.is_sql:
            self._take_word("WHERE")
        node = self._logic(0)
        if self._dialect.is_sql:
            self._take(";")
        if self._token.kind != "end":
            self._fail(f"{self._shown} where the condition could end")
        return node

    def _logic(self, level: int) -> Node:
        if level == len(self._dialect.levels):
            return self._negation()
        nodes, symbols = [self._logic(level + 1)], []
        while symbol := self._take_word(*self._dialect.levels[level]):
            symbols.append(symbol)
            nodes.append(self._logic(level + 1))
        if len({*symbols}) > 1:
            self._fail(
                f"{' and '.join(sorted({*symbols}))} are of one precedence in {self._dialect.name}, and its "
                "implementations group them differently; write parentheses"
            )
        return Logic(symbols[0], tuple(nodes)) if symbols else nodes[0]

    def _negation(self) -> Node:
        if not self._take_word("NOT"):
            return self._test()
        self._deeper()
        if self._dialect.is_sql:
            node = self._negation()
        else:
            node = self._negation() if self._token.word == "NOT" else self._value()
            if self._token.text in _COMPARED or self._token.word in ("LIKE", "IN", "NOT"):
                self._fail(f"NOT binds tighter than {self._token.text} in CESQL; write NOT (...) around the condition")
        self._depth -= 1
        return Negation(node)

    def _test(self) -> Node:
        left = self._value()
        if symbol := self._take(*_COMPARED):
            node: Node = Comparison(left, "!=" if symbol == "<>" else symbol, self._value())
            if self._token.text in _COMPARED:
                self._fail("a comparison compares two values")
            return node
        if self._dialect.is_sql and self._take_word("IS"):
            return self._is(left)
        negated = bool(self._take_word("NOT"))
        if word := self._take_word("LIKE", *(["ILIKE"] if self._dialect.is_sql else [])):
            return self._like(left, negated, word == "ILIKE")
        if self._take_word("IN"):
            self._expect("(")
            items = [self._value()]
            while self._take(","):
                items.append(self._value())
            self._expect(")")
            return In(left, tuple(items), negated)
        if self._dialect.is_sql and self._take_word("BETWEEN"):
            low = self._value()
            if not self._take_word("AND"):
                self._fail(f"{self._shown} where BETWEEN has its AND")
            return Between(left, low, self._value(), negated)
        if negated:
            self._fail(f"{self._shown} after NOT")
        return left

    def _is(self, operand: Node) -> Node:
        negated = bool(self._take_word("NOT"))
        word = self._take_word("NULL", "TRUE", "FALSE")
        if not word:
            self._fail(f"IS {self._shown} is not supported; IS NULL, IS TRUE and IS FALSE are")
        return Is(operand, {"NULL": None, "TRUE": True, "FALSE": False}[word], negated)

    def _like(self, operand: Node, negated: bool, ignore_case: bool) -> Node:
        if self._token.kind != "text":
            self._fail(f"LIKE takes a string, not {self._shown}")
        text = self._text()
        escape = "" if self._dialect.is_sql else "\\"
        if self._dialect.is_sql and self._take_word("ESCAPE"):
            escape = self._text() if self._token.kind == "text" else ""
            if len(escape) != 1:
                self._fail("ESCAPE takes a string of one character")
        elif self._dialect.is_sql and "\\" in text:
            self._fail("whether \\ in LIKE escapes depends on the database; write ESCAPE '\\' or another character")
        pattern: list[tuple[str, bool]] = []
        at = 0
        while at < len(text):
            character, escaped = text[at], text[at + 1 : at + 2]
            at += 1
            if character != escape:
                pattern.append((character, character in "%_"))
            elif escaped and escaped in f"%_{escape if self._dialect.is_sql else ''}":
                pattern.append((escaped, False))
                at += 1
            elif self._dialect.is_sql:
                self._fail(f"{show(escape)} in LIKE stands before %, _ or itself")
            else:
                pattern.append((character, False))
        return Like(operand, tuple(pattern), negated, ignore_case)

    def _value(self) -> Node:
        token = self._token
        node: Node
        if self._take("("):
            self._deeper()
            node = self._logic(0)
            self._expect(")")
            self._depth -= 1
        elif sign := self._take("+", "-"):
            if self._token.kind != "number":
                self._fail(f"arithmetic ({sign}) is not supported")
            node = self._number(sign)
        elif token.kind == "number":
            node = self._number("")
        elif token.kind == "text":
            node = Literal(self._text())
        elif word := self._take_word("TRUE", "FALSE", "NULL"):
            node = Literal({"TRUE": True, "FALSE": False, "NULL": None}[word])
        elif self._dialect.is_sql and token.word == "TIMESTAMP" and self._tokens[self._next + 1].kind == "text":
            node = self._moment()
        elif self._take_word("EXISTS"):
            node = self._exists()
        else:
            node = self._field()
        if self._token.kind == "symbol" and self._token.text not in (*_COMPARED, "(", ")", ",", ";"):
            kind = "arithmetic" if self._token.text in "+-*/%" else "the operator"
            self._fail(f"{kind} ({self._token.text}) is not supported")
        return node

    def _exists(self) -> Node:
        if self._dialect.is_sql:
            self._fail("EXISTS queries a table; for a field write x IS NOT NULL")
        field = self._field()
        return FieldExists(field)

    def _moment(self) -> Literal:
        self._advance()
        token = self._token
        text = self._text().strip()
        moment = re.sub(r"^(\S{10})\s+", r"\1T", text)
        moment = re.sub(r"\s*([+-]\d\d)$", r"\1:00", moment)
        if times.since_epoch(moment) is None:
            raise TranslationError(
                f"position {token.at}: a TIMESTAMP needs a date, a time and its zone, such as "
                f"'2026-01-01 00:00:00+00:00', not {show(text)}"
            )
        return Literal(Moment(moment))

    def _number(self, sign: str) -> Literal:
        text = sign + self._advance().text
        try:
            return Literal(int(text) if text.lstrip("+-").isdigit() else float(text))
        except ValueError:
            self._fail("a number has too many digits")

    def _field(self) -> Field:
        names = [self._name()]
        while self._dialect.is_sql and self._take("."):
            names.append(self._name())
        if self._token.text == "(":
            self._fail(f"the function {self._tokens[self._next - 1].text} is not supported")
        if self._token.kind in ("text", "number", "quoted"):
            self._fail(f"{self._shown} after {'.'.join(names)}")
        if reserved := next((name for name in names if name in RESERVED), None):
            self._fail(f"no field is called {reserved} in a pattern")
        if len(names) > MAX_DEPTH:
            self._fail(f"a field is nested deeper than {MAX_DEPTH} objects")
        return Field(tuple(names))

    def _name(self) -> str:
        token = self._token
        if token.kind == "quoted":
            quote = token.text[0]
            return self._advance().text[1:-1].replace(quote * 2, quote)
        if token.word in self._dialect.foreign:
            self._fail(f"{token.text} is not supported")
        if token.kind != "name" or token.word in self._dialect.keywords:
            self._fail(f"{self._shown} where a value is expected")
        name = self._advance().text
        return name if self._dialect.is_sql else name.lower()  # attributes have no capital letters

    def _text(self) -> str:
        token = self._advance()
        quote, text = token.text[0], token.text[1:-1]
        if self._dialect.is_sql:
            return text.replace("''", "'")
        if self._token.kind == "text" and self._token.at == token.at + len(token.text):
            self._fail(f"a quote within a string is written \\{quote}")
        return text.replace(f"\\{quote}", quote)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    @property
    def _shown(self) -> str:
        return show(self._token.text) if self._token.text else "the end"

    def _advance(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _take(self, *symbols: str) -> str:
        """The next token if it is one of these symbols, else ""."""
        return self._advance().text if self._token.kind == "symbol" and self._token.text in symbols else ""

    def _take_word(self, *words: str) -> str:
        return self._advance().word if self._token.word in words else ""

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._fail(f"{self._shown} where {symbol} is expected")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"is nested deeper than {MAX_DEPTH} levels")

    def _fail(self, reason: str) -> NoReturn:
        raise TranslationError(f"position {self._token.at}: {reason}")
