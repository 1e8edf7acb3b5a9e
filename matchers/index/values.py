"""Read the values of events in the named fields as arrays: N events, V values."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int32, Int64, offsets_of
from matchers.errors import MatchingError
from matchers.index.fields import Fields, Node
from matchers.index.json_event import parsed
from matchers.index.kernels.json import NUMBER, TEXT, Documents, Found, read_json
from matchers.language import facets
from matchers.language.model import ABSENT, Absent, Event, Scalar
from matchers.language.nesting import MAX_LEVELS, TOO_DEEP
from matchers.language.operators import show

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

    @classmethod
    def of(cls, found: Found, n_values: int, text: UInt8, several: NDArray[np.bool_]) -> Values:
        """The first values of arrays that have room for more."""
        offsets, *columns = found
        path, kind, number, start, length = (column[:n_values] for column in columns)
        return cls(offsets, path, kind, number, start, length, text, several)

    def __len__(self) -> int:
        return len(self.offsets) - 1


def room_for_values(n_events: int, n_values: int) -> Found:
    """Arrays for the values of events, none of which is read yet."""
    return Found(
        offsets=np.zeros(n_events + 1, np.int64),
        path=np.empty(n_values, np.int32),
        kind=np.empty(n_values, np.uint8),
        number=np.empty(n_values),
        start=np.empty(n_values, np.int64),
        length=np.empty(n_values, np.int32),
    )


def none_read(n_events: int) -> Values:
    """Values of events of which nothing is read yet."""
    return Values.of(room_for_values(n_events, 0), 0, np.empty(0, np.uint8), np.zeros(n_events, np.bool_))


def read_documents(events: Sequence[Event], fields: Fields) -> Values:
    """Read events given as Python's form of JSON: dict, list or tuple, str, float, int, bool, None. Raises TypeError
    for others, and MatchingError for texts with half of a pair of surrogates and too many levels."""
    scalars = Scalars([], [], set(), {})
    several = np.zeros(len(events), np.bool_)
    offsets = np.zeros(len(events) + 1, np.int64)
    for e, event in enumerate(events):
        several[e] = _read_whole(event, fields, scalars)
        offsets[e + 1] = len(scalars.values) // 4
    path, kind, number, length = scalars.table().T
    lengths = length.astype(np.int32)
    start = np.cumsum(lengths, dtype=np.int64) - lengths
    return Values(
        offsets=offsets,
        path=path.astype(np.int32),
        kind=kind.astype(np.uint8),
        number=number.copy(),
        start=start,
        length=lengths,
        text=np.frombuffer(b"".join(scalars.texts), np.uint8),
        several=several,
    )


class Scalars(NamedTuple):
    """The values of events in the order of their appearance."""

    values: list[float]  # of each its position in Fields.paths, its kind, the number if it is one, the length of a text
    texts: list[bytes]
    lacked: set[int]  # of one event: fields that were appended as absent
    not_lacked: dict[int, dict[str, Node]]  # of one event, by the id of a node: children that no element lacked yet

    def table(self) -> Float64:
        """[V, 4]: `values`."""
        try:
            flat = np.array(self.values, np.float64)
        except OverflowError:
            flat = np.array([facets.number(value) for value in self.values], np.float64)
        return flat.reshape(-1, 4)


def read_document(event: Event, fields: Fields) -> tuple[Scalars, bool]:
    """The values of one event, and whether an array had several elements. Raises as `read_documents` does."""
    scalars = Scalars([], [], set(), {})
    return scalars, _read_whole(event, fields, scalars)


def checked(event: Any) -> Event:
    """The event, if it is a mapping. Raises TypeError."""
    if type(event) is dict or isinstance(event, Mapping):
        return event
    kind = type(event).__name__
    hint = "; encode the string: match takes JSON as bytes" if isinstance(event, str) else ""
    raise TypeError(f"an event is a dict, or the bytes of a JSON object, not {kind} {show(event)}{hint}")


def _read_whole(event: Any, fields: Fields, scalars: Scalars) -> bool:
    scalars.lacked.clear()
    scalars.not_lacked.clear()
    try:
        return _read(checked(event), fields.root, False, scalars, 1)
    except UnicodeEncodeError as error:
        raise MatchingError(f"an event has an unpaired surrogate: {error.object!a:.80}") from None


def _read(value: Any, node: Node, in_array: bool, scalars: Scalars, level: int) -> bool:
    """Append everything at a node and below; return whether an array had several elements.

    In an array, an element that lacks a field is one way for the event to lack it, so that is appended too, once.
    """
    several = False
    if level > MAX_LEVELS and isinstance(value, list | tuple | Mapping):
        raise MatchingError(TOO_DEEP)
    if isinstance(value, list | tuple):
        for element in value:
            several |= _read(element, node, True, scalars, level + 1)
        if in_array and not value:
            _lack(node, scalars)
        return several or len(value) > 1
    if isinstance(value, Mapping):
        if len(node.children) < len(value):
            for name, child in node.children.items():
                if name in value:
                    several |= _read_child(value[name], child, in_array, scalars, level + 1)
        else:
            for name in value:
                if name in node.children:
                    several |= _read_child(value[name], node.children[name], in_array, scalars, level + 1)
        if in_array:
            _lack_itself(node, scalars)
            _lack_children(node, value, scalars)
        return several
    if not isinstance(value, str | int | float | None | Absent):
        raise TypeError(f"an event has strings, numbers, booleans, null, lists and dicts, not {_name(type(value))}")
    if node.path >= 0:
        _append(node.path, value, scalars)
    if in_array and node.children:
        _lack_children(node, (), scalars)
    return several


def _name(kind: type) -> str:
    """The name of a type; numpy's and Python's share some."""
    hint = "; its item() is Python's" if kind.__module__ == "numpy" else ""
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}{hint}"


def _read_child(value: Any, node: Node, in_array: bool, scalars: Scalars, level: int) -> bool:
    """Append a value like `_read`. Most values are single numbers and texts, which are read here."""
    kind = type(value)
    if in_array or (kind is not str and kind is not int and kind is not float):
        return _read(value, node, in_array, scalars, level)
    if node.path >= 0:
        _append(node.path, value, scalars)
    return False


def _append(path: int, value: Scalar, scalars: Scalars) -> None:
    if isinstance(value, str):
        text = value.encode()
        scalars.texts.append(text)
        scalars.values.extend((path, TEXT, 0.0, len(text)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        scalars.values.extend((path, NUMBER, value, 0))
    else:
        scalars.values.extend((path, facets.token(value)[0], 0.0, 0))


def _lack(node: Node, scalars: Scalars) -> None:
    """Append that a field and all below are absent."""
    _lack_itself(node, scalars)
    if node.children:
        _lack_children(node, (), scalars)


def _lack_itself(node: Node, scalars: Scalars) -> None:
    if node.path >= 0 and node.path not in scalars.lacked:
        scalars.lacked.add(node.path)
        _append(node.path, ABSENT, scalars)


def _lack_children(node: Node, element: Container[str], scalars: Scalars) -> None:
    """Append that the children which an element does not have are absent, with all below.

    What an earlier element lacked is not looked at again: many elements that lack many fields cost their sum.
    """
    children = scalars.not_lacked.get(id(node))
    if children is None:
        children = scalars.not_lacked[id(node)] = {**node.children}
    if children:
        for name in [name for name in children if name not in element]:
            _lack(children.pop(name), scalars)


def read_events(events: Sequence[Event | bytes], fields: Fields) -> tuple[Values, Callable[[int], Event]]:
    """Read events given as documents or as the bytes of JSON objects; and give any of them as a document.

    Raises TypeError, and MatchingError for bytes that are no event.
    """

    def whole(e: int) -> Event:
        return document(events[e])

    texts = [event if isinstance(event, bytes) else b"" for event in events]
    if not any(texts):
        return read_documents([_parsed(event) for event in events], fields), whole
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    begins = np.concatenate(([0], ends[:-1]))
    values, left = read_json_values(np.frombuffer(b"".join(texts), np.uint8), begins, ends, fields)
    return joined(values, left, read_documents([_parsed(events[e]) for e in left.tolist()], fields)), whole


def document(event: Event | bytes) -> Event:
    """An event given as a document, or as the bytes of one. Raises TypeError and MatchingError."""
    return checked(_parsed(event))


def _parsed(event: Event | bytes) -> Event:
    return parsed(event) if isinstance(event, bytes) else event


def read_json_values(text: UInt8, begins: Int64, ends: Int64, fields: Fields) -> tuple[Values, Int64]:
    """Read JSON events text[begins[e] : ends[e]], and find those that a slower reader must take; these have no
    values here."""
    n = len(begins)
    room = int((ends - begins).sum()) // 2 + n + 1  # a value takes a byte and a separator
    several, hard = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    found = room_for_values(n, room)
    m = read_json(Documents(text, begins, ends), fields.names, fields.memory(), found, several, hard)
    return Values.of(found, m, text, several), hard.nonzero()[0]


def without(values: Values, paths: NDArray[np.bool_]) -> Values:
    """Return the values without those of these fields ([paths])."""
    dropped = paths[values.path]
    if not dropped.any():
        return values
    event = np.repeat(np.arange(len(values)), np.diff(values.offsets))[~dropped]
    return replace(
        values,
        offsets=offsets_of(np.bincount(event, minlength=len(values))),
        **{name: getattr(values, name)[~dropped] for name in ("path", "kind", "number", "start", "length")},
    )


def joined(values: Values, at: Int64, others: Values) -> Values:
    """`values`, whose events `at` have those of `others` too, in order."""
    if not len(at):
        return values
    event = np.repeat(np.arange(len(values)), np.diff(values.offsets))
    other_event = np.repeat(at, np.diff(others.offsets))
    order = np.argsort(np.concatenate((event, other_event)), kind="stable")
    counts = np.diff(values.offsets)
    counts[at] += np.diff(others.offsets)
    several = values.several.copy()
    several[at] |= others.several

    def together(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate((a, b))[order]

    return Values(
        offsets=offsets_of(counts),
        path=together(values.path, others.path),
        kind=together(values.kind, others.kind),
        number=together(values.number, others.number),
        start=together(values.start, others.start + len(values.text)),
        length=together(values.length, others.length),
        text=np.concatenate((values.text, others.text)),
        several=several,
    )
