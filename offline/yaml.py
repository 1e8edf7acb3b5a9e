"""Read YAML with the meaning of JSON: strings, numbers, true, false, null, lists, and mappings with string keys.

A plain word is a number, true, false or null by YAML 1.2, and else a string: `NO`, `on`, `12:30`, `2026-01-01`
and `007` stay as they are written.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.resolver import VersionedResolver

from offline.files import InputError

_TAG = "tag:yaml.org,2002:"


class _Resolver(VersionedResolver):
    """Resolve plain scalars by YAML 1.2, whichever version a file claims."""

    @property
    def versioned_resolver(self) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
        return _WORDS


class _Constructor(SafeConstructor):
    """Make only the types named below."""

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        if node in self.recursive_objects:
            raise _error(node, "a recursive value, one that holds itself, means nothing in JSON")
        return super().construct_object(node, deep)


def load(text: bytes, name: str) -> Any:
    """Raises InputError."""
    try:
        reader = YAML(typ="safe", pure=True)
        reader.Resolver, reader.Constructor = _Resolver, _Constructor
        reader.composer.warn_double_anchors = False  # YAML 1.2 allows them
        return reader.load(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8: byte {error.start + 1} is 0x{text[error.start]:02x}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        syntax = "" if isinstance(error, ConstructorError) else "not YAML: "
        raise InputError(f"{name}, line {mark.line + 1 if mark else 1}: {syntax}{reason}") from None
    except ReaderError as error:
        raise InputError(f"{name}: not YAML: {error.reason}: {error.character!r}") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None


def _text(loader: _Constructor, node: ScalarNode) -> str:
    text: str = loader.construct_scalar(node)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _error(node, "a string has an unpaired surrogate, which UTF-8 cannot encode") from None
    return text


def _number(loader: _Constructor, node: ScalarNode) -> float:
    """A number. Integers stay as they are written: a pattern must not name one that no double holds."""
    text: str = loader.construct_scalar(node)
    try:
        number = float(text)
    except ValueError:
        raise _error(node, f"{text!r} is not a number") from None
    if not isfinite(number):
        raise _error(node, f"{text!r} is beyond all doubles")
    return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else number


def _truth(loader: _Constructor, node: ScalarNode) -> bool:
    text: str = loader.construct_scalar(node).lower()
    if text not in ("true", "false"):
        raise _error(node, f"{text!r} is neither true nor false")
    return text == "true"


def _list(loader: _Constructor, node: SequenceNode) -> list[Any]:
    items: list[Any] = loader.construct_sequence(node, deep=True)
    return items


def _mapping(loader: _Constructor, node: MappingNode) -> dict[str, Any]:
    seen = set()
    for key, _ in node.value if isinstance(node, MappingNode) else ():
        if key.tag == _TAG + "merge":
            continue
        name = loader.construct_object(key, deep=True)
        if not isinstance(name, str):
            shown = key.value if isinstance(key, ScalarNode) else "it"
            raise _error(key, f"a key must be a string; put {shown!r} in quotes")
        if name in seen:
            raise _error(key, f"duplicate key {name!r}")
        seen.add(name)
    mapping: dict[str, Any] = loader.construct_mapping(node, deep=True)
    return mapping


def _unknown(loader: _Constructor, node: Node) -> Any:
    raise _error(node, f"the tag {str(node.tag).replace(_TAG, '!!')!r} means nothing in JSON; leave it out")


def _error(node: Node, problem: str) -> MarkedYAMLError:
    return ConstructorError(None, None, problem, node.start_mark)


_WORDS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # by the first character
for _kind, _words, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    for _character in _first:
        _WORDS.setdefault(_character, []).append((_TAG + _kind, re.compile(f"(?:{_words})$")))
_Constructor.yaml_constructors = {
    None: _unknown,
    _TAG + "null": lambda loader, node: None,
    _TAG + "bool": _truth,
    _TAG + "int": _number,
    _TAG + "float": _number,
    _TAG + "str": _text,
    _TAG + "seq": _list,
    _TAG + "map": _mapping,
}
