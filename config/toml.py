"""Write settings as TOML that `load` reads back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.load import REDACTED

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def as_toml(shown: Mapping[str, Mapping[str, Any]], sources: Mapping[str, str], unused: Collection[str]) -> str:
    """The settings that `show` returns, by section. A comment names the source of a value, unless it is a default.

    Unused settings and secrets are comments: `load` would reject the settings, and take "(secret)" as the secret.
    """
    head = (
        "# The settings in force. Comments name the source of a value: file, environment or flag. Others are defaults."
    )
    return "\n".join(
        (head, *(line for name, values in shown.items() for line in _section(name, values, sources, unused)))
    )


def _section(
    section: str, values: Mapping[str, Any], sources: Mapping[str, str], unused: Collection[str]
) -> Iterator[str]:
    yield f"\n[{section}]"
    for key, value in values.items():
        name = f"{section}.{key}"
        notes = [sources[name]] if name in sources else []
        if name in unused:
            notes.append("unused")
        line = f"{_key(key)} = {_value(value)}" + (f"  # {', '.join(notes)}" if notes else "")
        yield f"# {line}" if name in unused or value == REDACTED else line
        yield from (f"# {secret} = {_value(REDACTED)}" for secret in _secrets(value, _key(key)))


def _secrets(value: Any, path: str) -> Iterator[str]:
    """The keys of the secrets within a table."""
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        at = f"{path}.{_key(key)}"
        yield from [at] if inner == REDACTED else _secrets(inner, at)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items() if inner != REDACTED)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf and nan are TOML
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
