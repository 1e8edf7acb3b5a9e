"""Compile patterns given as documents: many of one shape together, the others one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from matchers.contract.tables import Int32, Int64, offsets_of
from matchers.errors import MatchingError, PatternError
from matchers.index.segment import Segment
from matchers.index.skeletons import Skeletons, filled
from matchers.index.templates import Template
from matchers.index.texts import Texts
from matchers.language.lowering import lower
from matchers.language.model import Pattern
from matchers.language.operators import show
from matchers.language.parsing import parse

FEWEST_DOCUMENTS = 8  # of one shape, for which it pays to compile them together
_PATTERN = "pattern"  # the note that holds the JSON of a subscription's pattern
_SCALARS = {str, int, float, bool, type(None)}
_WRITE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=dict).encode


Form = TypeVar("Form")  # what a caller reads out of a shape


def compiled(patterns: Mapping[str, Any]) -> Segment:
    """The segment of these patterns (SUBSCRIPTIONS.md) by id, each with its JSON. Raises MatchingError, which names
    the first that cannot be used."""
    if not isinstance(patterns, Mapping):
        kind = type(patterns).__name__
        raise MatchingError(f'subscriptions are patterns by id, such as {{"s1": {{"x": [1]}}}}, not a {kind}')
    ids, documents = list(patterns), list(patterns.values())
    for id in ids:
        if not isinstance(id, str):
            raise MatchingError(f"the id of a subscription is a text, not {show(id)}")
    texts = [_WRITE(document).encode("utf-8", "surrogatepass") if _plain(document) else b"" for document in documents]
    together: list[tuple[Template, Int64]] = []
    skeletons = None
    alone = np.ones(len(ids), np.bool_)
    if len(ids) >= FEWEST_DOCUMENTS:
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        skeletons = Skeletons.of(np.frombuffer(b"".join(texts), np.uint8), np.concatenate(([0], ends[:-1])), ends)
        together = list(by_shape(skeletons, template_of))
        for _, which in together:
            alone[which] = False
    left = np.flatnonzero(alone)
    lowered = []
    for d in left.tolist():
        try:
            lowered.append((ids[d], lower(parse(documents[d]))))
        except PatternError as error:
            raise MatchingError(f"subscription {ids[d]!r}: {error}") from error
        texts[d] = texts[d] or _WRITE(documents[d]).encode("utf-8", "surrogatepass")
    all_ids, notes = Texts.of(ids), _texts(texts)
    segments = [Segment.build(lowered, {_PATTERN: notes.take(left)})] if len(left) or not together else []
    for template, which in together:
        assert skeletons is not None
        first = skeletons.offsets[which]
        segments.append(template.segment(all_ids.take(which), skeletons, first, {_PATTERN: notes.take(which)}))
    none: Int32 = np.empty(0, np.int32)
    return segments[0] if len(segments) == 1 else Segment.merge([(segment, none) for segment in segments])


def pattern_of(segment: Segment, position: int) -> Pattern:
    """The pattern of a subscription of a segment that `compiled` made."""
    return parse(json.loads(cast(Texts, segment.notes[_PATTERN])[position]))


def by_shape(
    skeletons: Skeletons, form_of: Callable[[bytes], Form | None], fewest: int = FEWEST_DOCUMENTS
) -> Iterator[tuple[Form, Int64]]:
    """The form of each shape that has enough documents, with the positions of these; without shapes of no form."""
    n = np.bincount(skeletons.shape[skeletons.shape >= 0], minlength=len(skeletons.shapes))
    for shape in np.flatnonzero(n >= fewest).tolist():
        form = form_of(skeletons.shapes[shape])
        if form is not None:
            yield form, np.flatnonzero(skeletons.shape == shape)


def template_of(shape: bytes) -> Template | None:
    """The template of a shape; None if its documents may be invalid or hold more than templates know."""
    try:
        return Template.of(parse(json.loads(filled(shape))))
    except (json.JSONDecodeError, PatternError):
        return None


def _plain(document: Any) -> bool:
    """Whether JSON says exactly what the document does: it knows no tuples, and only texts as names."""
    try:
        return _is_plain(document)
    except RecursionError:
        return False  # `parse` tells why


def _is_plain(node: Any) -> bool:
    kind = type(node)
    if kind is dict:
        return all(type(name) is str for name in node) and all(map(_is_plain, node.values()))
    return all(map(_is_plain, node)) if kind is list else kind in _SCALARS


def _texts(written: Sequence[bytes]) -> Texts:
    return Texts(np.frombuffer(b"".join(written), np.uint8), offsets_of([len(text) for text in written]))
