"""Parse a pattern from JSON into the model; an error names the field and the reason.

    {"symbol": ["IBM", {"prefix": "MS"}], "quote": {"price": [{"numeric": [">", 100, "<=", 200]}]}}

SUBSCRIPTIONS.md is the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from math import inf, isfinite, nextafter
from typing import Any

from matchers.errors import PatternError, known
from matchers.language import times
from matchers.language.comparison import SYMBOLS, Order
from matchers.language.geography import Within
from matchers.language.model import Compared, Contains, OneOf, Operator, Part, Path, Pattern, Predicate, Scalar
from matchers.language.negation import negated
from matchers.language.operators import (
    AllOf,
    AnythingBut,
    Cidr,
    Equals,
    EqualsIgnoreCase,
    Exists,
    Numeric,
    NumericText,
    Prefix,
    Regex,
    Suffix,
    TextLength,
    TextOrder,
    Time,
    TimeNumber,
    Wildcard,
    is_number,
    show,
)
from matchers.language.regex import expressions
from matchers.language.regex.expressions import ExpressionError

MAX_DEPTH = 32  # levels of nested objects, $or and $and
MAX_TIME = 100  # characters of a bound
PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}  # of times as numbers
RESERVED = ("$and", "$nor", "$not", "$or")  # two are operators, two are what others would try; no field is called so

_Rejected = Callable[[str], PatternError]  # of a reason


class OperatorError(ValueError):
    """An operator's argument is invalid; `parse` adds the field."""


def parse(document: Any) -> Pattern:
    """Parse a pattern. Raises PatternError."""
    return Pattern(tuple(_parts(document, (), 0)))


def _parts(document: Any, path: Path, depth: int) -> Iterator[Part]:
    if not isinstance(document, Mapping):
        raise PatternError(path, f"must be an object of fields, not {show(document)}")
    if depth >= MAX_DEPTH:
        raise PatternError(path, f"is nested deeper than {MAX_DEPTH} objects")
    for key, node in document.items():
        if not isinstance(key, str):
            raise PatternError(path, f"the name of a field must be a string, not {show(key)}")
        if not _is_whole(key):
            raise PatternError(path, f"the name of a field must be a string without unpaired surrogates, not {key!a}")
        here = (*path, key)
        if key == "$not":
            yield from _not(node, path, depth)
        elif key in RESERVED:
            yield _one_of(key, node, path, depth)
        elif isinstance(node, list):
            yield from _listed(node, here)
        elif isinstance(node, Mapping):
            if not node:
                raise PatternError(here, "is an empty object; name a field in it, or leave it out")
            _check_list(key, node, here)
            yield from _parts(node, here, depth + 1)
        else:
            raise PatternError(here, f"needs a list of what it may be, such as [{show(node)}]")


def _check_list(name: str, node: Mapping[Any, Any], path: Path) -> None:
    """Reject an operator outside a list: a field of that name would never match."""
    operator = next(iter(node))
    if len(node) == 1 and (operator in OPERATORS or operator in OF_SEVERAL):
        if operator in FIELDS_TOO and not _takes(operator, node[operator]):
            return
        field, right = show(name), show(node)
        raise PatternError(
            path,
            f"an operator stands in a list: {{{field}: [{right}]}}; for a nested field that is called {operator} write "
            f'{{{field}: {{"$or": [{{{show(operator)}: [...]}}]}}}}',
        )


def _takes(operator: str, argument: Any) -> bool:
    try:
        OPERATORS[operator](argument)
    except OperatorError:
        return False
    return True


def _one_of(key: str, node: Any, path: Path, depth: int) -> OneOf:
    if key != "$or":
        hint = "all fields of an object must match anyway, and $and on one value stands in the field's list"
        raise PatternError(
            (*path, key), hint if key == "$and" else 'is not an operator; write {"$not": {"$or": [...]}}'
        )
    if not isinstance(node, list) or not node:
        raise PatternError((*path, key), f"takes a list of patterns, not {show(node)}")
    patterns = []
    for number, pattern in enumerate(node, 1):
        try:
            patterns.append(Pattern(tuple(_parts(pattern, path, depth + 1))))
        except PatternError as error:
            raise error.within(f"pattern {number} of $or") from None
    return OneOf((*path, key), tuple(patterns))


def _not(node: Any, path: Path, depth: int) -> tuple[Part, ...]:
    if not isinstance(node, Mapping) or not node:
        raise PatternError((*path, "$not"), f"takes a pattern of at least one field, not {show(node)}")
    try:
        return negated(Pattern(tuple(_parts(node, path, depth + 1))), (*path, "$not"))
    except PatternError as error:
        raise error.within("pattern of $not") from None


def _listed(node: list[Any], path: Path) -> Iterator[Part]:
    """The parts for a field's list, which holds if one of its operators does, or one of its conditions on several
    values."""
    if not node:
        raise PatternError(path, 'has an empty list, which nothing matches; for any value write [{"exists": true}]')
    operators: list[Operator] = []
    of_several = []
    try:
        for entry in node:
            if not isinstance(entry, Mapping):
                operators.append(Equals(literal(entry)))
            elif not _MAY_BE_OF_SEVERAL.isdisjoint(entry) and _is_of_several(entry, 0):
                of_several.append(Pattern(tuple(_parts_of_several(entry, path, 0))))
            else:
                operators.append(_operator(entry))
    except OperatorError as error:
        raise PatternError(path, str(error)) from None
    if not of_several:
        yield Predicate(path, tuple(operators))
    elif len(node) == 1:
        yield from of_several[0].parts
    else:
        of_value = [Pattern((Predicate(path, tuple(operators)),))] if operators else []
        yield OneOf(path, (*of_value, *of_several))


def _is_of_several(entry: Any, depth: int) -> bool:
    """Whether an entry of a field's list is about the whole array or another field, or is a $and of such within
    MAX_DEPTH levels; `_all_of` rejects deeper ones."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        return False
    ((name, argument),) = entry.items()
    if name != "$and":
        return name in OF_SEVERAL
    return depth < MAX_DEPTH and isinstance(argument, list) and any(_is_of_several(e, depth + 1) for e in argument)


def _parts_of_several(entry: Mapping[str, Any], path: Path, depth: int) -> Iterator[Predicate | Contains | Compared]:
    ((name, argument),) = entry.items()
    if name == "$and":
        others = [part for part in argument if not _is_of_several(part, depth + 1)]
        if others:
            yield Predicate(path, (_all_of(others, depth),))
        for part in argument:
            if _is_of_several(part, depth + 1):
                yield from _parts_of_several(part, path, depth + 1)
        return
    if name == COMPARE_FIELD:
        yield from _compared(argument, path)
        return
    if name == GEO_DISTANCE:
        yield _within(argument, path)
        return
    if not isinstance(argument, list) or not argument:
        raise OperatorError(f'{name} takes a list such as ["a", {{"prefix": "b"}}], not {show(argument)}')
    operators = tuple(_condition(condition, 0) for condition in argument)
    if name == "contains-none":
        yield Contains(path, operators, False)
        return
    yield Contains(path, operators, each=True)
    if name == "contains-exactly":
        yield Contains(path, (AnythingBut(operators),), False)


def _compared(argument: Any, path: Path) -> Iterator[Compared]:
    if not isinstance(argument, list) or len(argument) not in (2, 4):
        raise OperatorError(f'{COMPARE_FIELD} takes [">", "y"] or [">", "y", "<=", "z"], not {show(argument)}')
    for symbol, other in _bounds(COMPARE_FIELD, argument):
        yield Compared(path, Order(symbol), _other(COMPARE_FIELD, other, path))


def _within(argument: Any, path: Path) -> Compared:
    if not isinstance(argument, Mapping) or argument.keys() != {"longitude", "from", "metres"}:
        raise OperatorError(
            f"{GEO_DISTANCE} stands in a latitude's list and takes the field of the longitude, a place and metres: "
            f'{{"longitude": "lon", "from": [48.2, 16.4], "metres": 5000}}, not {show(argument)}'
        )
    place = argument["from"]
    if not isinstance(place, list) or len(place) != 2:
        raise OperatorError(f"{GEO_DISTANCE} takes a latitude and a longitude to measure from, not {show(place)}")
    latitude, longitude, metres = map(_number, (*place, argument["metres"]))
    if abs(latitude) > 90 or abs(longitude) > 180 or metres < 0:
        raise OperatorError(
            f"{GEO_DISTANCE} takes latitudes from -90 to 90, longitudes from -180 to 180 and no metres below 0, "
            f"not {show(argument)}"
        )
    return Compared(path, Within(latitude, longitude, metres), _other(GEO_DISTANCE, argument["longitude"], path))


def _other(operator: str, argument: Any, path: Path) -> Path:
    """The path of the field with which the one at `path` is compared."""
    names = argument if isinstance(argument, list) else [argument]
    if not names or len(names) > MAX_DEPTH or not all(isinstance(name, str) for name in names):
        raise OperatorError(
            f"{operator} takes the name of a field, or for a nested one the list of all names on the way to it "
            f'from the top of the event, such as ["quote", "price"], not {show(argument)}'
        )
    if half := next((name for name in names if not _is_whole(name)), None):
        raise OperatorError(f"{operator} takes names without unpaired surrogates, not {half!a}")
    if reserved := next((name for name in names if name in RESERVED), None):
        raise OperatorError(f"{operator} takes the names of fields, and none is called {reserved}")
    if tuple(names[: len(path)]) == path[: len(names)]:
        raise OperatorError(
            f"{operator} takes another field that has a value where this one has one, not {show(argument)}"
        )
    return tuple(names)


def _operator(entry: Mapping[str, Any], depth: int = 0) -> Operator:
    if len(entry) != 1:
        raise OperatorError(f"an operator is an object with one key, not {len(entry)}")
    ((name, argument),) = entry.items()
    if name == "$and":
        return _all_of(argument, depth)
    if name == "anything-but":
        return AnythingBut(tuple(_excluded(argument, depth)))
    if name in OF_SEVERAL:
        raise OperatorError(f"{name} {OF_SEVERAL[name]}, so it stands in a field's list, or in a $and there")
    if name not in OPERATORS:
        raise OperatorError(_unknown(str(name), argument))
    return OPERATORS[name](argument)


def _unknown(name: str, argument: Any) -> str:
    """The error about an unknown operator, with the equivalent operator of this language."""
    same = EQUIVALENTS.get(name.lstrip("$").replace("_", "-").lower())
    if same is None and isinstance(argument, list | Mapping):
        same = f"for a field {show(name)} of an object write it without the list: {{{show(name)}: {show(argument)}}}"
    return f"unknown operator {name!r}; {same or known(name, [*OPERATORS, *OF_SEVERAL, '$and'])}"


def _all_of(argument: Any, depth: int) -> AllOf:
    if not isinstance(argument, list) or not argument:
        raise OperatorError(f'$and takes a list such as [{{"prefix": "a"}}, {{"suffix": "z"}}], not {show(argument)}')
    if depth >= MAX_DEPTH:
        raise OperatorError(f"$and is nested deeper than {MAX_DEPTH}")
    return AllOf(tuple(_condition(entry, depth + 1) for entry in argument))


def _condition(entry: Any, depth: int) -> Operator:
    return _operator(entry, depth) if isinstance(entry, Mapping) else Equals(literal(entry))


def literal(value: Any) -> Scalar:
    """A text, boolean, null, or a number that a double holds."""
    if isinstance(value, str):
        if not _is_whole(value):
            raise OperatorError(f"takes strings without unpaired surrogates, not {value!a}")
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    raise OperatorError(f"{show(value)} is neither a string, a number, a boolean nor null")


def _number(value: Any) -> float:
    if not is_number(value):
        raise OperatorError(f"{show(value)} is not a number")
    if value != value:
        raise OperatorError("NaN equals no value and has no order")
    try:
        exact = float(value)
    except OverflowError:
        exact = inf
    if not isfinite(exact):
        raise OperatorError(f"{show(value)} lies outside the range of a double")
    if isinstance(value, int) and int(exact) != value:
        other = int(nextafter(exact, inf if exact < value else -inf))
        low, high = sorted((int(exact), other))
        raise OperatorError(
            f"{show(value)} cannot be held exactly by a double; the nearest are {show(low)} and {show(high)}. An id of "
            "so many digits should be a string, in events too"
        )
    return exact


def _numeric(argument: Any, operator: str = "numeric") -> Numeric:
    if not isinstance(argument, list) or len(argument) not in (2, 4):
        raise OperatorError(f'{operator} takes [">", 5] or [">", 5, "<=", 9], not {show(argument)}')
    low, low_closed, high, high_closed = -inf, True, inf, True
    for symbol, bound in _bounds(operator, argument):
        value = _number(bound)
        if symbol[0] in ">=":
            low, low_closed = value, symbol != ">"
        if symbol[0] in "<=":
            high, high_closed = value, symbol != "<"
    return Numeric(low, low_closed, high, high_closed)


def _bounds(operator: str, argument: list[Any]) -> Iterator[tuple[str, Any]]:
    """The bounds of a list such as [">", 5, "<=", 9], each with its symbol."""
    seen = ""
    for symbol, bound in zip(argument[::2], argument[1::2], strict=True):
        if not isinstance(symbol, str) or symbol not in SYMBOLS:
            raise OperatorError(f"{operator} takes <, <=, >, >= and =, not {show(symbol)}")
        side = symbol[0]
        if seen and (side == seen or "=" in (side, seen)):
            raise OperatorError(f"{operator} takes one lower and one upper bound, or one =, not {show(argument)}")
        seen = side
        yield symbol, bound


def _between(argument: Any) -> Numeric:
    if not isinstance(argument, list) or len(argument) != 2:
        raise OperatorError(f"between takes [low, high], not {show(argument)}")
    return Numeric(_number(argument[0]), True, _number(argument[1]), True)


def _text_order(argument: Any) -> TextOrder:
    low, low_closed, high, high_closed = _texts_between("text", argument, _text, ("a", "n"))
    return TextOrder(low or "", low_closed, high, high_closed)


def _time(argument: Any) -> Time | TimeNumber:
    """Bounds, for texts; or an object with a unit and bounds, for numbers since 1970."""
    if not isinstance(argument, Mapping):
        return _times_between("time", argument)
    if len(argument) != 1 or (unit := next(iter(argument))) not in PER_SECOND:
        raise OperatorError(
            f'time takes bounds, or for numbers a unit and bounds, such as {{"milliseconds": [">=", '
            f'"2026-01-01T00:00:00Z"]}}; units are {", ".join(PER_SECOND)}; not {show(argument)}'
        )
    time = _times_between(f"time {unit}", argument[unit])
    return TimeNumber(unit, time, _doubles(time, PER_SECOND[unit]))


def _times_between(operator: str, argument: Any) -> Time:
    return Time(*_texts_between(operator, argument, _instant, ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")))


def _texts_between(
    operator: str, argument: Any, read: Callable[[str, Any], str], examples: tuple[str, str]
) -> tuple[str | None, bool, str | None, bool]:
    """The lower and the upper bound, if there is any, each with whether it is part of the range."""
    if not isinstance(argument, list) or len(argument) not in (2, 4):
        low, high = map(show, examples)
        raise OperatorError(f'{operator} takes [">=", {low}] or [">=", {low}, "<", {high}], not {show(argument)}')
    ends: dict[str, tuple[str, bool]] = {}
    for symbol, bound in _bounds(operator, argument):
        value = read(operator, bound)
        ends |= {side: (value, symbol != side) for side in "<>" if symbol[0] in (side, "=")}
    return *ends.get(">", (None, True)), *ends.get("<", (None, True))


def _instant(operator: str, argument: Any) -> str:
    text = _text(operator, argument)
    if len(text) > MAX_TIME:
        raise OperatorError(f"{operator} takes times of at most {MAX_TIME} characters, not of {len(text)}")
    if times.since_epoch(text) is None:
        raise OperatorError(
            f"{operator} takes times of RFC 3339, with a zone and without leap seconds, such as "
            f'"2026-01-01T05:30:00.25+05:30" or "2026-01-01T00:00:00Z", not {show(text)}'
        )
    return text


def _doubles(time: Time, per_second: int) -> Numeric:
    """The doubles between the bounds. The double nearest to a bound lies within if it lies on that side of it."""
    low, low_closed, high, high_closed = -inf, True, inf, True
    if time.low is not None and (since := times.since_epoch(time.low)) is not None:
        low, exact = float(since * per_second), since * per_second
        low_closed = low > exact or (low == exact and time.low_closed)
    if time.high is not None and (since := times.since_epoch(time.high)) is not None:
        high, exact = float(since * per_second), since * per_second
        high_closed = high < exact or (high == exact and time.high_closed)
    return Numeric(low, low_closed, high, high_closed)


def _text(operator: str, argument: Any) -> str:
    if not isinstance(argument, str):
        raise OperatorError(f"{operator} takes a string, not {show(argument)}")
    if not _is_whole(argument):
        raise OperatorError(f"{operator} takes a string without unpaired surrogates, not {argument!a}")
    return argument


def _is_whole(text: str) -> bool:
    """Whether a text has no half of a pair of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _end(operator: str, kind: type[Prefix] | type[Suffix], argument: Any) -> Operator:
    """prefix and suffix: a text, or {"equals-ignore-case": text}."""
    if isinstance(argument, Mapping):
        if list(argument) != ["equals-ignore-case"]:
            raise OperatorError(f'{operator} takes a string or {{"equals-ignore-case": string}}, not {show(argument)}')
        return kind(_text(f"{operator} equals-ignore-case", argument["equals-ignore-case"]), ignore_case=True)
    return kind(_text(operator, argument))


def _wildcard(argument: Any) -> Wildcard:
    """A text, or {"equals-ignore-case": text}."""
    ignore_case = isinstance(argument, Mapping)
    if ignore_case:
        if list(argument) != ["equals-ignore-case"]:
            raise OperatorError(f'wildcard takes a string or {{"equals-ignore-case": string}}, not {show(argument)}')
        argument = argument["equals-ignore-case"]
    text = _text("wildcard", argument)
    pieces: list[list[str]] = [[]]  # of characters: to append each to a text would copy a long one for each
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("*", "\\"):
                raise OperatorError(f"in a wildcard a backslash stands before * or \\ only, not as in {show(text)}")
            pieces[-1].append(escaped)
        elif character == "*":
            if len(pieces) > 1 and not pieces[-1]:
                raise OperatorError(f"a wildcard must not have two adjacent stars, as in {show(text)}; write one")
            pieces.append([])
        else:
            pieces[-1].append(character)
    return Wildcard(tuple(map("".join, pieces)), ignore_case)


def _regex(argument: Any) -> Regex:
    text = _text("regex", argument)
    try:
        expressions.parse(text)
    except ExpressionError as error:
        raise OperatorError(f"{show(text)} is not a supported regular expression: {error}") from None
    return Regex(text)


def _excluded(argument: Any, depth: int) -> Iterator[Operator]:
    """Values and operators, one or a list; within, some operators may have a list too."""
    if depth >= MAX_DEPTH:
        raise OperatorError(f"anything-but is nested deeper than {MAX_DEPTH}")
    for entry in _several("anything-but", argument):
        if isinstance(entry, Mapping) and len(entry) == 1 and (name := next(iter(entry))) in EXCLUDED:
            yield from map(EXCLUDED[name], _several(f"anything-but {name}", entry[name]))
        else:
            yield _condition(entry, depth + 1)


def _several(operator: str, argument: Any) -> list[Any]:
    values = argument if isinstance(argument, list) else [argument]
    if not values:
        raise OperatorError(
            f'{operator} takes a value or a list of at least one; for any value write {{"exists": true}}'
        )
    return values


def _exists(argument: Any) -> Exists:
    if not isinstance(argument, bool):
        raise OperatorError(f"exists takes true or false, not {show(argument)}")
    return Exists(argument)


def _cidr(argument: Any) -> Cidr:
    text = _text("cidr", argument)
    try:
        if "/" not in text or "%" in text:
            raise ValueError("the number of leading bits is missing")
        return Cidr(ip_network(text, strict=False))
    except ValueError:
        reason = f'cidr takes a network such as "10.0.0.0/8" or "2001:db8::/32", not {show(text)}'
        raise OperatorError(reason + _no_network(text)) from None


def _no_network(text: str) -> str:
    """The mistake in a network, where one part of it is an address."""
    address, slash, bits = text.partition("/")
    try:
        version = ip_address(address).version
    except ValueError:
        return ""
    most = 32 if version == 4 else 128
    if "%" in address:
        return "; a network has no zone"
    if not slash:
        return f"; for this one address write {show(f'{address}/{most}')}"
    return f"; an IPv{version} network has 0 to {most} leading bits, not {bits or 'none'}"


# What may stand within anything-but, there with a list of texts too.
EXCLUDED: dict[str, Callable[[Any], Operator]] = {
    "cidr": _cidr,
    "equals-ignore-case": lambda argument: EqualsIgnoreCase(_text("equals-ignore-case", argument)),
    "prefix": lambda argument: _end("prefix", Prefix, argument),
    "suffix": lambda argument: _end("suffix", Suffix, argument),
    "regex": _regex,
    "wildcard": _wildcard,
}

OPERATORS: dict[str, Callable[[Any], Operator]] = {
    **EXCLUDED,
    "anything-but": lambda argument: AnythingBut(tuple(_excluded(argument, 0))),
    "between": _between,
    "exists": _exists,
    "numeric": _numeric,
    "numeric-text": lambda argument: NumericText(_numeric(argument, "numeric-text")),
    "text": _text_order,
    "text-length": lambda argument: TextLength(_numeric(argument, "text-length")),
    "time": _time,
}

FIELDS_TOO = ("text", "time")  # names of operators that fields often have: {"message": {"text": ["hello"]}}
COMPARE_FIELD, GEO_DISTANCE = "compare-field", "geo-distance"
# What is about more than one value, and how.
OF_SEVERAL = {
    **dict.fromkeys(("contains-all", "contains-exactly", "contains-none"), "is about the whole array"),
    **dict.fromkeys((COMPARE_FIELD, GEO_DISTANCE), "is about two fields"),
}
_MAY_BE_OF_SEVERAL = frozenset((*OF_SEVERAL, "$and"))

# What users of other languages write, and what means the same here.
EQUIVALENTS: dict[str, str] = {
    **dict.fromkeys(
        ("contains", "includes", "substring"),
        'for a part of a string write {"wildcard": "*a*"}, for an element of an array the value, or see contains-all',
    ),
    **dict.fromkeys(("regexp", "matches", "match", "pattern", "rlike"), 'write {"regex": "a.*b"} (the whole string)'),
    **dict.fromkeys(("like", "glob", "shellstyle"), 'write {"wildcard": "a*b"}, where * stands for any characters'),
    **dict.fromkeys(("in", "any", "or"), "list the values themselves: a field's list holds all that it may be"),
    **dict.fromkeys(("not", "ne", "nin", "not-in", "neq", "not-equals", "!="), 'write {"anything-but": ["a", "b"]}'),
    **dict.fromkeys(("equals", "eq", "exactly", "is", "=", "=="), "write the value itself, without an operator"),
    **dict.fromkeys(("gt", "greater-than", ">"), 'write {"numeric": [">", 5]}'),
    **dict.fromkeys(("gte", "ge", ">="), 'write {"numeric": [">=", 5]}'),
    **dict.fromkeys(("lt", "less-than", "<"), 'write {"numeric": ["<", 5]}'),
    **dict.fromkeys(("lte", "le", "<="), 'write {"numeric": ["<=", 5]}'),
    **dict.fromkeys(("range",), 'write {"numeric": [">=", 1, "<", 5]} or {"between": [1, 5]}'),
    **dict.fromkeys(("starts-with", "startswith", "begins-with"), 'write {"prefix": "a"}'),
    **dict.fromkeys(("ends-with", "endswith"), 'write {"suffix": "a"}'),
    **dict.fromkeys(("and",), 'write {"$and": [...]}, for conditions on the same value'),
    **dict.fromkeys(
        ("all", "contains-every"), 'write {"contains-all": ["a", "b"]}, for an array that has all of these'
    ),
    **dict.fromkeys(
        ("none", "not-contains"), 'write {"contains-none": ["a", "b"]}, for an array that has none of these'
    ),
    **dict.fromkeys(
        ("field", "than", "than-field", "equals-field", "greater-than-field", "less-than-field"),
        'for another field of the event write {"compare-field": [">", "y"]}',
    ),
    **dict.fromkeys(("length", "len", "size", "strlen", "char-length"), 'write {"text-length": ["<=", 10]}'),
    **dict.fromkeys(("null", "is-null"), "write null itself"),
    **dict.fromkeys(("ignore-case", "iequals", "equals-ignoring-case"), 'write {"equals-ignore-case": "a"}'),
    **dict.fromkeys(
        ("after", "before", "since", "until", "date", "datetime", "timestamp"),
        'for times write {"time": [">=", "2026-01-01T00:00:00Z"]}',
    ),
    **dict.fromkeys(
        ("geo", "near", "within", "distance", "geo-radius"),
        'in the list of a latitude write {"geo-distance": {"longitude": "lon", "from": [48.2, 16.4], "metres": 5000}}',
    ),
    **dict.fromkeys(("ip", "subnet", "ip-address"), 'write {"cidr": "10.0.0.0/8"}'),
}
