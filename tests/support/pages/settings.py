"""Generate docs/settings.md from the JSON schema of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from config import Settings
from config.model import SubscriberName, TopicName, TopicSetting
from tests.support.pages.markdown import code, table

Schema = dict[str, Any]

HEAD = """# Settings

Every setting, by section of the TOML file that `--config FILE` names.
[config/example.toml](../config/example.toml) is a file with all defaults;
[Connect to your Kafka](how-to/connect.md) shows those that differ in production, and [Size a job](how-to/size.md) those
that bound it. An environment variable in capitals (`SLUICE_EVENTS__TOPIC=orders`) overrides the file, and a flag
(`--set events.topic=orders`) overrides both. An option that has capitals keeps them in the name of a variable
(`SLUICE_SPARK__OPTIONS__spark.executor.memoryOverhead=1g`). Options and the token can be
[in files](../SECURITY.md#secrets-in-files) (`${file:PATH}`). `run_stream.py config show` prints the settings in force
and where they come from.

`python -m tests.support.pages` generates this page from `config/model.py`.
"""

HEADER = ("setting", "type", "allowed values", "default", "unit", "meaning")
TYPES = {
    "string": "string",
    "integer": "integer",
    "number": "float",
    "boolean": "boolean",
    "array": "array",
    "object": "table",
}
BOUNDS = {"exclusiveMinimum": "> {}", "minimum": "≥ {}", "exclusiveMaximum": "< {}", "maximum": "≤ {}"}
LENGTHS = {"minLength": "at least {} character", "maxItems": "at most {:,} entries"}
UNITS = {"_ms": "ms", "_s": "s", "_mb": "MB", "_bytes": "bytes"}  # by the end of a name
NAMES: dict[str, Any] = {"topic name": TopicName, "name": SubscriberName, "topic setting": TopicSetting}
PATTERNS = {TypeAdapter(type_).json_schema()["pattern"]: name for name, type_ in NAMES.items()}


def page() -> str:
    schema = Settings.model_json_schema()
    sections = (
        f"\n## `[{name}]`\n\n{table(HEADER, _rows(name, _resolved(section, schema), schema))}"
        for name, section in schema["properties"].items()
    )
    names = table(("name", "regular expression"), ((name, code(pattern)) for pattern, name in PATTERNS.items()))
    return f"{HEAD}{''.join(sections)}\n## Names\n\n{names}"


def _rows(prefix: str, section: Schema, schema: Schema) -> Iterator[tuple[str, ...]]:
    for key, setting in section["properties"].items():
        name = f"{prefix}.{key}"
        default = code(_toml(setting["default"])) if "default" in setting else "required"
        meaning = " ".join(setting["description"].split())
        yield code(name), _type(setting), _allowed(setting), default, _unit(key), meaning
        _, values = _values(setting)
        if "$ref" in values:
            yield from _rows(f"{name}.NAME", _resolved(values, schema), schema)


def _resolved(reference: Schema, schema: Schema) -> Schema:
    resolved: Schema = schema["$defs"][reference["$ref"].removeprefix("#/$defs/")]
    return resolved


def _values(setting: Schema) -> tuple[Schema, Schema]:
    """The schemas of the keys and of the values of a table; empty where anything is allowed."""
    for pattern, values in setting.get("patternProperties", {}).items():
        return {"pattern": pattern}, values
    values = setting.get("additionalProperties")
    return {}, values if isinstance(values, dict) else {}


def _type(setting: Schema) -> str:
    if "anyOf" in setting:
        return " or ".join(dict.fromkeys(_type(choice) for choice in setting["anyOf"]))
    within = setting.get("items") or _values(setting)[1]
    if not within:
        return TYPES[setting["type"]]
    return f"{TYPES[setting['type']]} of {'tables' if '$ref' in within else f'{_type(within)}s'}"


def _allowed(setting: Schema) -> str:
    if "anyOf" in setting:
        return " or ".join(_allowed(choice) for choice in setting["anyOf"])
    if "const" in setting:
        return code(_toml(setting["const"]))
    if "enum" in setting:
        return ", ".join(code(_toml(value)) for value in setting["enum"])
    limits = [text.format(setting[key]) for key, text in {**BOUNDS, **LENGTHS}.items() if key in setting]
    if pattern := setting.get("pattern"):
        limits.append(f"[{PATTERNS[pattern]}](#names)" if pattern in PATTERNS else code(pattern))
    keys, values = _values(setting)
    for part, within in (("keys:", keys), ("values:", values), ("each", setting.get("items", {}))):
        if within and (inner := _allowed(within)):
            limits.append(f"{part} {inner}")
    return "; ".join(limits)


def _unit(key: str) -> str:
    if key.endswith("_per_second"):
        return f"{key.removesuffix('_per_second')}/s"
    return next((unit for end, unit in UNITS.items() if key.endswith(end)), "")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:_}" if type(value) is int else json.dumps(value)
