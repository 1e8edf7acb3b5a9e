"""Random patterns and events over the whole language: small enough to collide, and full of values that break things.

Plain functions of a seeded generator, for runs of many or large ones: `make fuzz`, faults, parts of many subscriptions.
`tests/support/generators/strategies.py` draws the same language for property tests, so that a failure shrinks.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from matchers import PatternError
from matchers.language.lowering import lower
from matchers.language.parsing import PER_SECOND, parse

nan, inf = float("nan"), float("inf")

TEXTS = [
    *(
        "",
        "a",
        "ab",
        "abc",
        "b",
        "ba",
        "aba",
        "A",
        "AB",
        "é",
        "e\u0301",
        "漢",
        "漢字",
        "a\x00",
        "\x00",
        "\U0010ffff",
        "zz",
        "1",
        "-1.5",
        "007",
    ),
    *(
        "null",
        "Straße",
        "STRASSE",
        "\u0130",
        "ﬁ",
        "*",
        "a*b",
        "\\",
        '"',
        "\n",
        "abcdefgh",
        "abcdefghi",
        "abcdefgh\x00",
        "ABCDEFGHI",
    ),
    *(
        "2026-01-01T00:00:00Z",
        "2026-01-01t05:30:00.000+05:30",
        "2025-12-31T23:59:60Z",
        "2026-01-01T00:00:00.0000000001Z",
    ),
    *("0000-03-01T00:00:00-00:01", "2026-02-29T00:00:00Z"),
    *("10.1.2.3", "10.2.0.0", "010.1.2.3", "::1", "::ffff:10.1.2.3", "2001:DB8::1", "2001:db8:8000::", "fe80::1%eth0"),
]
NUMBERS = [0, 0.0, -0.0, 1, 1.0, -1, 2, 1.5, -1.5, 2**53, 2**53 + 2, -(2**53), 1e308, -1e308, 5e-324, 1e-9, 0.1, 10**15]
NUMBERS += [90, 180, -180, 1767225600, 1767225600000]  # of places, and the first second of 2026 in two units
EVENT_NUMBERS = [*NUMBERS, 2**53 + 1, 10**400, -(10**400), nan, inf, -inf, 0.1 + 0.2, 12345678901234567890]
FIELDS = ["x", "y", "x.y", "é"]
TIMES = [
    *("2026-01-01T00:00:00Z", "2025-12-31T18:30:00-05:30", "2025-12-31T23:59:59.999999999999Z", "0000-03-01T00:00:00Z"),
    *("2026-01-01T00:00:00.0000000001Z", "1970-01-01T00:00:01.5Z", "9999-12-31T23:59:59.9Z"),
]
PLACES = [(0, 0), (1.5, -1), (90, 0), (-89.5, 180), (-1, -179.5), (0.1, 179)]  # latitude, longitude
METRES = [0, 1e-9, 60_000, 160_000, 350_000, 10_000_000, 20_015_100, 1e308]
REGEXES = [
    "a.*",
    "(a|b)+",
    "[A-Z]*",
    r"\w*",
    "abc?d*",
    "a|ab|zz",
    ".?",
    "(a.)*b?",
    r"10\..*",
    "[^a]*",
    r".*\x00",
    "é|漢.*",
]
NETWORKS = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::/0", "2001:db8::/33", "::1/128", "10.1.2.9/8"]


def text(r: Random) -> str:
    whole = r.choice(TEXTS)
    return whole if r.random() < 0.7 else whole[: r.randint(0, 3)] if r.random() < 0.5 else whole[-r.randint(1, 3) :]


def number(r: Random) -> float:
    return r.choice(NUMBERS) if r.random() < 0.8 else r.uniform(-3, 3)


def literal(r: Random) -> Any:
    kinds: list[Callable[[Random], Any]] = [text, text, number, number, lambda _: True, lambda _: False, lambda _: None]
    return r.choice(kinds)(r)


def between(r: Random, value: Callable[[Random], Any]) -> list[Any]:
    """Bounds as those of numeric."""
    low, high = [r.choice([">", ">="]), value(r)], [r.choice(["<", "<="]), value(r)]
    return r.choice([low, high, low + high, high + low, ["=", value(r)]])


def time(r: Random) -> Any:
    bounds = between(r, lambda r: r.choice(TIMES))
    return {"time": bounds if r.random() < 0.6 else {r.choice([*PER_SECOND]): bounds}}


def numeric(r: Random) -> Any:
    return {"numeric": between(r, number)}


def ignoring_case(r: Random) -> Any:
    return {"equals-ignore-case": text(r)}


def wildcard_text(r: Random) -> str:
    pieces = [text(r).replace("\\", "\\\\").replace("*", "\\*") for _ in range(r.randint(1, 4))]
    return "*".join(p for i, p in enumerate(pieces) if p or i in (0, len(pieces) - 1))


def wildcard(r: Random) -> Any:
    return wildcard_text(r) if r.random() < 0.7 else {"equals-ignore-case": wildcard_text(r)}


def several(r: Random, make: Callable[[Random], Any]) -> Any:
    return make(r) if r.random() < 0.5 else [make(r) for _ in range(r.randint(1, 3))]


def end(r: Random) -> Any:
    return text(r) if r.random() < 0.6 else ignoring_case(r)


def anything_but(r: Random) -> Any:
    name = r.choice(["", "", "prefix", "suffix", "equals-ignore-case", "wildcard"])
    if not name:
        return {"anything-but": several(r, literal)}
    if r.random() < 0.3:
        return {"anything-but": several(r, lambda r: r.choice(ENTRIES)(r))}
    return {"anything-but": {name: several(r, {"wildcard": wildcard, "equals-ignore-case": text}.get(name, end))}}


ENTRIES: list[Callable[[Random], Any]] = [
    *(literal, literal, numeric, numeric, ignoring_case, anything_but, anything_but),
    lambda r: {"between": [number(r), number(r)]},
    lambda r: {"exists": r.random() < 0.5},
    lambda r: {"prefix": end(r)},
    lambda r: {"suffix": end(r)},
    lambda r: {"wildcard": wildcard(r)},
    lambda r: {"regex": r.choice(REGEXES)},
    lambda r: {"text": between(r, text)},
    lambda r: {"text-length": between(r, number)},
    time,
    lambda r: {"numeric-text": between(r, number)},
    lambda r: {"cidr": r.choice(NETWORKS)},
    lambda r: {"$and": [r.choice(ENTRIES)(r) for _ in range(r.randint(1, 3))]},
]


def pattern(r: Random) -> dict[str, Any]:
    """Return a pattern that is not rejected for its size after expansion."""
    while True:
        found = fields(r, 2)
        try:
            lower(parse(found))
        except PatternError as error:
            if "expands to more than" not in str(error) and "takes another field" not in str(error):
                raise
        else:
            return found


def contains(r: Random) -> Any:
    entries = [r.choice(ENTRIES)(r) for _ in range(r.randint(1, 3))]
    entry = {r.choice(["contains-all", "contains-none", "contains-exactly"]): entries}
    return entry if r.random() < 0.7 else {"$and": [entry, r.choice(ENTRIES)(r), contains(r)]}


def compared(r: Random) -> Any:
    def other() -> Any:
        return r.choice(FIELDS) if r.random() < 0.5 else r.sample(FIELDS, r.randint(1, 3))

    if r.random() < 0.3:
        place, metres = r.choice(PLACES), r.choice(METRES)
        return {"geo-distance": {"longitude": other(), "from": [*place], "metres": metres}}
    one = [r.choice(["<", "<=", ">", ">=", "="]), other()]
    return {"compare-field": one if r.random() < 0.7 else [">", other(), r.choice(["<", "<="]), other()]}


def fields(r: Random, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in r.sample(FIELDS, r.choice([0, 1, 1, 1, 2, 2, 3]) if depth == 2 else r.randint(1, 2)):
        nested = depth and r.random() < 0.3
        entries = [r.choice(ENTRIES)(r) for _ in range(r.choice([1, 1, 2, 3]))]
        if r.random() < 0.15:
            entries[r.randrange(len(entries))] = contains(r)
        if r.random() < 0.15:
            entries[r.randrange(len(entries))] = compared(r)
        found[name] = fields(r, depth - 1) if nested else entries
    if depth and r.random() < 0.25:
        found["$or"] = [fields(r, depth - 1) for _ in range(r.randint(1, 3))]
    if depth and r.random() < 0.15:
        found["$not"] = fields(r, depth - 1) or {"x": [1]}
    return found


def value(r: Random, depth: int, exotic: bool) -> Any:
    kind = r.random()
    if depth and kind < 0.2:
        return {name: value(r, depth - 1, exotic) for name in r.sample(FIELDS, r.randint(0, 3))}
    if depth and kind < 0.4:
        return [value(r, depth - 1, exotic) for _ in range(r.choice([0, 1, 2, 2, 3]))]
    if exotic and kind < 0.6:
        return r.choice(EVENT_NUMBERS)
    return literal(r)


def event(r: Random, exotic: bool = True) -> dict[str, Any]:
    """`exotic` ones hold what Python can and JSON cannot, such as NaN."""
    return {name: value(r, 3, exotic) for name in r.sample(FIELDS, r.choice([0, 1, 2, 2, 3, 4]))}
