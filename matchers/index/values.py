"""The values of events in the named fields, as arrays: N events, V values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int32, Int64, offsets_of
from matchers.index.fields import Fields, Node
from matchers.index.kernels.json import NUMBER, TEXT, Documents, Found, read_json
from matchers.language import facets
from matchers.language.model import ABSENT, Absent, Event, Scalar

UInt8 = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Values:
    """Event e holds the values offsets[e] .. offsets[e + 1]; a field it does not have may be missing or be 0, absent.

    A text is text[start : start + length], UTF-8.
    """

    offsets: Int64  # [N + 1]
    path: Int32  # [V] position in Fields.paths
    kind: UInt8  # [V] 0 absent, 1 null, 2 false, 3 true, 4 number, 5 text: the tags of the token line
    number: Float64  # [V] where kind = 4
    start: Int64  # [V] where kind = 5
    length: Int32  # [V] where kind = 5
    text: UInt8
    several: NDArray[np.bool_]  # [N] some array had several elements

    def __len__(self) -> int:
        return len(self.offsets) - 1


def read_documents(events: Sequence[Event], fields: Fields) -> Values:
    """Read events given as Python's form of JSON: dict, list or tuple, str, float, int, bool, None. Raises TypeError
    for others."""
    values: list[tuple[int, Scalar]] = []
    several = np.zeros(len(events), np.bool_)
    offsets = np.zeros(len(events) + 1, np.int64)
    for e, event in enumerate(events):
        several[e] = _read(event, fields.root, False, values)
        offsets[e + 1] = len(values)
    kind = np.zeros(len(values), np.uint8)
    number = np.zeros(len(values))
    length = np.zeros(len(values), np.int32)
    texts = []
    for i, (_, value) in enumerate(values):
        token = facets.token(value)
        kind[i] = token[0]
        if token[0] == TEXT:
            texts.append(token[1:])
            length[i] = len(token) - 1
        elif token[0] == NUMBER:
            number[i] = facets.number(value)  # type: ignore[arg-type]
    start = np.cumsum(length, dtype=np.int64) - length
    path = np.array([position for position, _ in values], np.int32)
    return Values(offsets, path, kind, number, start, length, np.frombuffer(b"".join(texts), np.uint8), several)


def _read(value: Any, node: Node, in_array: bool, values: list[tuple[int, Scalar]]) -> bool:
    """Append (position, value) for everything at a node and below; return whether an array had several elements.

    In an array, an element that lacks a field is one way for the event to lack it, so that is appended too.
    """
    several = False
    if isinstance(value, list | tuple):
        for element in value:
            several |= _read(element, node, True, values)
        if in_array and not value:
            values += [(position, ABSENT) for position in node.paths]
        return several or len(value) > 1
    if isinstance(value, Mapping):
        if in_array or len(node.children) < len(value):
            for name, child in node.children.items():
                if name in value:
                    several |= _read(value[name], child, in_array, values)
                elif in_array:
                    values += [(position, ABSENT) for position in child.paths]
        else:
            for name in value:
                if name in node.children:
                    several |= _read(value[name], node.children[name], in_array, values)
        if in_array and node.path >= 0:
            values.append((node.path, ABSENT))
        return several
    if not isinstance(value, str | int | float | None | Absent):
        raise TypeError(f"an event holds texts, numbers, booleans, null, lists and dicts, not {type(value).__name__}")
    if node.path >= 0:
        values.append((node.path, value))
    if in_array:
        values += [(position, ABSENT) for position in node.paths if position != node.path]
    return several


def read_json_values(text: UInt8, begins: Int64, ends: Int64, fields: Fields) -> tuple[Values, Int64]:
    """Read JSON events text[begins[e] : ends[e]], and tell which of them a slower reader must take; these hold nothing
    here."""
    n = len(begins)
    room = int((ends - begins).sum()) // 2 + n + 1  # a value takes a byte and a separator
    several, hard = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    found = Found(
        *(np.zeros(n + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.uint8), np.empty(room)),
        *(np.empty(room, np.int64), np.empty(room, np.int32)),
    )
    m = read_json(Documents(text, begins, ends), fields.names, found, several, hard)
    offsets, path, kind, number, start, length = found
    values = Values(offsets, path[:m], kind[:m], number[:m], start[:m], length[:m], text, several)
    return values, hard.nonzero()[0]


def none_read(n: int) -> Values:
    """Values of n events of which nothing is read yet."""
    return Values(
        *(np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0)),
        *(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8), np.zeros(n, np.bool_)),
    )


def spliced(values: Values, at: Int64, others: Values) -> Values:
    """`values` with its events `at`, which must be empty, taken from `others` in order."""
    if not len(at):
        return values
    event = np.repeat(np.arange(len(values)), np.diff(values.offsets))
    other_event = np.repeat(at, np.diff(others.offsets))
    order = np.argsort(np.concatenate((event, other_event)), kind="stable")
    counts = np.diff(values.offsets)
    counts[at] = np.diff(others.offsets)
    several = values.several.copy()
    several[at] = others.several

    def together(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate((a, b))[order]

    return Values(
        offsets_of(counts),
        together(values.path, others.path),
        together(values.kind, others.kind),
        together(values.number, others.number),
        together(values.start, others.start + len(values.text)),
        together(values.length, others.length),
        np.concatenate((values.text, others.text)),
        several,
    )
