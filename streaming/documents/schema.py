"""The JSON Schema (2020-12) of a subscription document, for editors and checks.

    read_change accepts it  =>  the schema accepts it

Not the other way round: what only the job can check, the schema's description names.

Most definitions have `type`, and then what holds for each type, because `items` binds arrays only and `properties`
objects only; an editor then points at the very place, where `anyOf` would only report that none of the choices fits.
The regular expressions mean the same in ECMAScript, RE2 and Python, but that Python's $ lets a newline follow.
`format` is a remark in this dialect; an editor that checks it all the same takes fewer forms of a time than the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matchers.language.lowering import FEW_RANGES, MAX_ALTERNATIVES, MAX_GROWTH, MAX_RANGES, MAX_SINGLE
from matchers.language.parsing import (
    EXCLUDED,
    FIELDS_TOO,
    MAX_DEPTH,
    MAX_TIME,
    OF_SEVERAL,
    OPERATORS,
    PER_SECOND,
    RESERVED,
)
from streaming.documents.starts import MOST_OFFSET, OLDEST, PARTITION
from streaming.documents.subscriptions import MAX_ID_LENGTH, SUBSCRIBER

Schema = dict[str, Any]

ONLY_THE_JOB = (
    "the record's key, which must be the id where both are there",
    "strings with unpaired surrogates",
    "whole numbers that a double does not hold exactly, such as 2^53 + 1, and numbers beyond all doubles",
    f"patterns nested deeper than {MAX_DEPTH} levels",
    f"patterns that expand to more than {MAX_ALTERNATIVES:,} alternatives or {MAX_RANGES:,} values and ranges, or to "
    f"more than {FEW_RANGES:,} and {MAX_GROWTH} times what they name",
    f"more than {MAX_SINGLE} conditions on one field that are checked one by one",
    "regular expressions that cannot be read, or need too many states",
    "comparisons of a field with itself, or with one within or around it",
    "days and times that no calendar or clock has",
    "IPv6 networks with too few groups or more than one ::",
)

# Characters other than * and \, those two after a backslash, and no star beside a star. There is one way only to read
# a string by it, so that a matcher that backtracks takes no longer than others.
_WILDCARD = r"^\*?(([^*\\]|\\[*\\])\*?)*$"

# The forms of ISO 8601 that end in a zone: 2030-01-01T00:00:00Z, 20300101T000000+0100, 2030-W01-2 00:00Z.
_TIME = r"^[0-9]{4}-?(W[0-9]{2}(-?[0-9])?|[0-9]{2}-?[0-9]{2})[\s\S]{1,2}[0-9]{2}[0-9:.,]*(Z|[+-][0-9]{2}[0-9:.,]*)$"

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_IPV6 = f"([0-9A-Fa-f]{{0,4}}:){{2,8}}([0-9A-Fa-f]{{0,4}}|{_IPV4})"
_CIDR = f"^({_IPV4}/(0*(3[0-2]|[12]?[0-9])|{_IPV4})|{_IPV6}/0*(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$"


def subscription_schema() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Subscription",
        "description": (
            "A subscription, a record of the subscriptions topic. The job rejects whatever this schema rejects; "
            f"only the job can check {'; '.join(ONLY_THE_JOB)}."
        ),
        "examples": [
            {
                "id": "s1",
                "subscriber": "alice",
                "pattern": {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]},
                "expires_at": "2030-01-01T00:00:00Z",
            }
        ],
        "type": "object",
        "properties": {
            "id": {
                "title": "Id",
                "description": (
                    "A newer document with the same id replaces the older. Optional if the record has a key; "
                    "if both are present, they must be equal."
                ),
                "examples": ["s1"],
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_ID_LENGTH,
            },
            "subscriber": {
                "title": "Subscriber",
                "description": "The subscriber: letters, digits, dots, underscores and hyphens.",
                "examples": ["alice"],
                "type": "string",
                "pattern": f"^{SUBSCRIBER.pattern}$",
            },
            "pattern": _ref("pattern"),
            "expires_at": {
                "title": "Expiry",
                "description": (
                    "A time with its zone: events with a Kafka timestamp at or after it do not match. Digits finer "
                    "than a millisecond count. The job also accepts other forms of ISO 8601 "
                    "than that of date-time. null is the same as no expiry."
                ),
                "examples": ["2030-01-01T00:00:00Z", "2030-01-01T00:00:00+01:00"],
                "type": ["string", "null"],
                "format": "date-time",
                "pattern": _TIME,
            },
            "paused": {
                "title": "Paused",
                "description": (
                    "While it is true, the subscription stays registered and matches nothing; its pattern is "
                    "still checked. false is the default."
                ),
                "examples": [True],
                "type": "boolean",
            },
            "from": {
                "title": "Start",
                "description": (
                    "Where its past events begin, which run_stream.py catch-up delivers: oldest, a time with its zone, "
                    "or offsets by topic and partition. A paused subscription has none."
                ),
                "examples": [OLDEST, "2030-01-01T00:00:00Z", {"events": {"0": 120}}],
                "type": ["string", "object"],
                "pattern": f"^{OLDEST}$|{_TIME}",
                "propertyNames": {"minLength": 1},
                "additionalProperties": {
                    "type": "object",
                    "propertyNames": {"pattern": f"^{PARTITION}$"},
                    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MOST_OFFSET},
                },
            },
        },
        "if": {"properties": {"paused": {"const": True}}, "required": ["paused"]},
        "then": {"properties": {"from": False}},
        "required": ["subscriber", "pattern"],
        "additionalProperties": False,
        "$defs": {
            **_STRUCTURE,
            **{name: {"title": name, **_ARGUMENTS[name]} for name in [*OPERATORS, *OF_SEVERAL, "$and", "$and-of-one"]},
            **{f"anything-but-{name}": _excluded(name) for name in EXCLUDED},
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _one_key(names: list[str], definition: Mapping[str, str] | None = None) -> Schema:
    """An object with just one of these keys, each with the definition of that name, or with the one given for it; other
    types pass."""
    return {
        "properties": {name: _ref((definition or {}).get(name, name)) for name in names},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


def _excluded(name: str) -> Schema:
    """The argument of an operator within anything-but, or a list of them."""
    argument = _ARGUMENTS[name]
    types = argument["type"] if isinstance(argument["type"], list) else [argument["type"]]
    return {
        **argument,
        "title": f"anything-but {name}",
        "description": f"Excluded, one or a list: {argument['description']}",
        "examples": [*argument["examples"], argument["examples"]],
        "type": [*types, "array"],
        "items": _ref(name),
        "minItems": 1,
    }


_OF_PATTERNS = ("$or", "$not")
_SCALARS = ["string", "number", "boolean", "null"]

# The keys of an object of a pattern; other types pass.
_FIELDS: Schema = {
    "properties": {name: _ref(name) if name in _OF_PATTERNS else False for name in RESERVED},
    "additionalProperties": _ref("field"),
}

_EXCLUDED = _one_key(
    [*OPERATORS, "$and"], {name: f"anything-but-{name}" for name in EXCLUDED} | {"$and": "$and-of-one"}
)

_LOWER: Schema = {"title": "Lower bound", "enum": [">", ">="]}
_UPPER: Schema = {"title": "Upper bound", "enum": ["<", "<="]}


def _sequence(*items: Schema) -> Schema:
    return {"prefixItems": list(items), "minItems": len(items), "items": False}


def _relations(to: Schema) -> list[Schema]:
    """The forms of one or two bounds, each of which is of this schema."""
    return [
        _sequence({"title": "Relation", "enum": ["<", "<=", ">", ">=", "="]}, to),
        _sequence(_LOWER, to, _UPPER, to),
        _sequence(_UPPER, to, _LOWER, to),
    ]


_BOUNDS: Schema = {
    "examples": [[">", 100], ["<=", 200], [">", 100, "<=", 200], ["<", 5, ">=", 0], ["=", 301.8]],
    "type": "array",
    "oneOf": _relations({"title": "Number", "type": "number"}),
}

_OTHER_FIELD: Schema = {
    "title": "Other field",
    "description": "Its name, or the names on the way to it from the top of the event.",
    "examples": ["price", ["quote", "price"]],
    "type": ["string", "array"],
    "items": {"type": "string", "not": {"enum": list(RESERVED)}},
    "minItems": 1,
    "maxItems": MAX_DEPTH,
    "not": {"enum": list(RESERVED)},
}

_HOUR_AND_MINUTE = "([01][0-9]|2[0-3]):[0-5][0-9]"
_INSTANT: Schema = {
    "title": "Time",
    "type": "string",
    "format": "date-time",
    "pattern": (
        rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt]{_HOUR_AND_MINUTE}:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]{_HOUR_AND_MINUTE})$"
    ),
    "maxLength": MAX_TIME,
}

_CONTAINS: Schema = {
    "examples": [["a", "b"], ["a", {"prefix": "b"}]],
    "type": "array",
    "items": _ref("condition"),
    "minItems": 1,
}

_STRUCTURE: dict[str, Schema] = {
    "pattern": {
        "title": "Pattern",
        "description": (
            "A condition on an event. Each key names a field, and its list has the accepted values and operators: all "
            "fields must match, and one entry of each list. Objects nest as in the event; a dot is part of a name. "
            "{} matches every event. $or and $not may stand beside the fields; no field may be called "
            f"{' or '.join(name for name in RESERVED if name not in _OF_PATTERNS)}."
        ),
        "examples": [
            {"symbol": ["IBM", {"prefix": "MS"}], "quote": {"price": [{"numeric": [">", 100, "<=", 200]}]}},
            {"$or": [{"symbol": ["IBM"]}, {"price": [{"numeric": ["<", 5]}]}]},
            {},
        ],
        "type": "object",
        **_FIELDS,
    },
    "field": {
        "title": "Field",
        "description": (
            "The accepted values: a list of values and operators, of which one must hold; or, for an object of the "
            "event, an object of its fields."
        ),
        "examples": [["IBM", {"prefix": "MS"}], [{"exists": True}], {"price": [{"numeric": [">", 100]}]}],
        "type": ["array", "object"],
        "items": _ref("entry"),
        "minItems": 1,
        "minProperties": 1,
        **_FIELDS,
        "not": {  # an operator without its list
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "anyOf": [
                {"propertyNames": {"enum": [name for name in (*OPERATORS, *OF_SEVERAL) if name not in FIELDS_TOO]}},
                *({"properties": {name: _ref(name)}, "required": [name]} for name in FIELDS_TOO),
            ],
        },
    },
    "$or": {
        "title": "$or",
        "description": "Patterns, of which at least one must match besides the fields that stand beside $or.",
        "examples": [[{"symbol": ["IBM"]}, {"price": [{"numeric": ["<", 5]}]}]],
        "type": "array",
        "items": _ref("pattern"),
        "minItems": 1,
    },
    "$not": {
        "title": "$not",
        "description": "A pattern that must not match, beside the fields that stand beside $not.",
        "examples": [{"symbol": ["IBM"]}, {"$or": [{"symbol": ["IBM"]}, {"price": [{"numeric": ["<", 5]}]}]}],
        "type": "object",
        "minProperties": 1,
        **_FIELDS,
    },
    "entry": {
        "title": "Entry",
        "description": (
            "A value that the field must equal, in type too (all numbers are one type), or an operator: an object "
            f"with one key of {', '.join([*OPERATORS, *OF_SEVERAL, '$and'])}."
        ),
        "examples": ["IBM", 5, True, None, {"prefix": "MS"}, {"contains-all": ["a", "b"]}],
        "type": [*_SCALARS, "object"],
        **_one_key([*OPERATORS, *OF_SEVERAL, "$and"]),
    },
    "condition": {
        "title": "Condition",
        "description": (
            "A value that the field must equal, in type too (all numbers are one type), or an operator: an object "
            f"with one key of {', '.join([*OPERATORS, '$and'])}."
        ),
        "examples": ["IBM", 5, True, None, {"prefix": "MS"}, {"numeric": [">", 100]}],
        "type": [*_SCALARS, "object"],
        **_one_key([*OPERATORS, "$and"], {"$and": "$and-of-one"}),
    },
    "time-bounds": {
        "title": "Bounds of time",
        "description": "One or two bounds, as those of numeric, or one =.",
        "type": "array",
        "oneOf": _relations(_INSTANT),
    },
    "excluded": {
        "title": "Excluded",
        "description": "A value or an operator; some operators take a list here.",
        "examples": ["IBM", 5, True, None, {"prefix": ["MS", "IB"]}, {"numeric": [">", 100]}],
        "type": [*_SCALARS, "object"],
        **_EXCLUDED,
    },
}

# What each operator takes, with an example of every form.
_ARGUMENTS: dict[str, Schema] = {
    "equals-ignore-case": {
        "description": "A string that equals this one by Unicode's full case folding.",
        "examples": ["ibm"],
        "type": "string",
    },
    "prefix": {
        "description": 'A string that starts with this one; {"equals-ignore-case": string} ignores case.',
        "examples": ["MS", {"equals-ignore-case": "ms"}],
        "type": ["string", "object"],
        **_one_key(["equals-ignore-case"]),
    },
    "suffix": {
        "description": 'A string that ends with this one; {"equals-ignore-case": string} ignores case.',
        "examples": [".png", {"equals-ignore-case": ".png"}],
        "type": ["string", "object"],
        **_one_key(["equals-ignore-case"]),
    },
    "regex": {
        "description": (
            "A string that this regular expression accepts as a whole: RE2's syntax without flags and anchors."
        ),
        "examples": ["[A-Z]{2,4}-\\d+", "(IBM|GE).*"],
        "type": "string",
    },
    "wildcard": {
        "description": (
            "A string of this form, where * stands for any characters or none. \\* is a star and \\\\ a backslash; no "
            'two stars stand side by side. {"equals-ignore-case": string} ignores case.'
        ),
        "examples": ["a*b*c", "5 \\* *", {"equals-ignore-case": "a*b*c"}],
        "type": ["string", "object"],
        "pattern": _WILDCARD,
        "properties": {"equals-ignore-case": {"type": "string", "pattern": _WILDCARD}},
        "minProperties": 1,
        "additionalProperties": False,
    },
    "anything-but": {
        "description": (
            "A value, of any type, that equals none of these values and for which none of these operators holds. An "
            "absent field is not a value."
        ),
        "examples": [
            "IBM",
            ["IBM", 5, None],
            {"prefix": "MS"},
            {"suffix": [".png", ".jpg"]},
            ["IBM", {"prefix": "MS"}],
            {"numeric": [">", 100]},
        ],
        "type": [*_SCALARS, "array", "object"],
        "items": _ref("excluded"),
        "minItems": 1,
        **_EXCLUDED,
    },
    "between": {
        "description": "A number from the first to the second, both included.",
        "examples": [[100, 200]],
        "type": "array",
        **_sequence({"title": "Lowest", "type": "number"}, {"title": "Highest", "type": "number"}),
    },
    "cidr": {
        "description": (
            "A string that is an IP address of this network; bits beyond the prefix do not matter. IPv4 addresses are "
            "in IPv4 networks only, IPv6 addresses in those of IPv6."
        ),
        "examples": ["10.0.0.0/8", "2001:db8::/32"],
        "type": "string",
        "pattern": _CIDR,
    },
    "exists": {
        "description": (
            "true: the field has a value, null included. false: it is missing, an object or an empty array."
        ),
        "examples": [True, False],
        "type": "boolean",
    },
    "numeric": {
        "description": "A number within a lower bound, an upper bound or both; or, with = alone, an equal one.",
        **_BOUNDS,
    },
    "numeric-text": {
        "description": "A string that is a number, in the spelling of JSON, within bounds as those of numeric.",
        **_BOUNDS,
    },
    "text": {
        "description": "A string within bounds as those of numeric, in the order of code points.",
        "examples": [[">=", "a"], ["<", "n"], [">=", "a", "<", "n"], ["<=", "z", ">", ""], ["=", "IBM"]],
        "type": "array",
        "oneOf": _relations({"title": "Text", "type": "string"}),
    },
    "text-length": {
        "description": "A string whose number of characters (code points) lies within bounds as those of numeric.",
        **_BOUNDS,
    },
    "time": {
        "description": (
            "A string that is a time of RFC 3339 within bounds, which are such times with a zone. With a unit: a "
            "number that counts these units since 1970."
        ),
        "examples": [
            [">=", "2026-01-01T00:00:00Z"],
            [">=", "2026-01-01T00:00:00Z", "<", "2026-02-01T00:00:00+01:00"],
            {"milliseconds": [">=", "2026-01-01T00:00:00.001Z"]},
        ],
        "type": ["array", "object"],
        "if": {"type": "array"},
        "then": _ref("time-bounds"),
        **_one_key(list(PER_SECOND), dict.fromkeys(PER_SECOND, "time-bounds")),
    },
    "compare-field": {
        "description": (
            "A value that compares so with the value of another field of the event, or of two: numbers with numbers, "
            "strings with strings, and with = any two values of one type."
        ),
        "examples": [[">", "bid"], [">=", ["quote", "low"], "<", ["quote", "high"]], ["=", "y"]],
        "type": "array",
        "oneOf": _relations(_OTHER_FIELD),
    },
    "geo-distance": {
        "description": (
            "A latitude that, with the longitude in another field, is at most so many metres from a place, on a sphere."
        ),
        "examples": [
            {"longitude": "lon", "from": [48.2, 16.4], "metres": 5000},
            {"longitude": ["position", "lon"], "from": [-90, 180], "metres": 0.5},
        ],
        "type": "object",
        "properties": {
            "longitude": _OTHER_FIELD,
            "from": {
                "title": "Place",
                "type": "array",
                **_sequence(
                    {"title": "Latitude", "type": "number", "minimum": -90, "maximum": 90},
                    {"title": "Longitude", "type": "number", "minimum": -180, "maximum": 180},
                ),
            },
            "metres": {"title": "Metres", "type": "number", "minimum": 0},
        },
        "required": ["longitude", "from", "metres"],
        "additionalProperties": False,
    },
    "contains-all": {
        "description": "An array that has a value for each of these conditions.",
        **_CONTAINS,
    },
    "contains-exactly": {
        "description": "An array that has a value for each of these conditions, and no others.",
        **_CONTAINS,
    },
    "contains-none": {
        "description": "An array that has no value for any of these conditions; an empty or missing one too.",
        **_CONTAINS,
    },
    "$and": {
        "description": "Conditions that must all hold: for one and the same value, or for the array.",
        "examples": [[{"prefix": "a"}, {"anything-but": "ab"}], [{"contains-all": ["a"]}, {"contains-none": ["b"]}]],
        "type": "array",
        "items": _ref("entry"),
        "minItems": 1,
    },
    "$and-of-one": {
        "description": "Conditions that must all hold for one and the same value.",
        "examples": [[{"prefix": "a"}, {"anything-but": "ab"}]],
        "type": "array",
        "items": _ref("condition"),
        "minItems": 1,
    },
}
