"""Compile patterns from documents: many of one shape together, others by their members, the rest one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from matchers.contract.tables import Int32, offsets_of
from matchers.errors import MatchingError, PatternError
from matchers.index.members import compiled_by_member
from matchers.index.segment import Segment
from matchers.index.skeletons import Skeletons, joined
from matchers.index.templates import FEWEST_DOCUMENTS, by_shape, template_of
from matchers.index.texts import Texts
from matchers.language.lowering import Conjunction, lower
from matchers.language.model import Pattern
from matchers.language.operators import show
from matchers.language.parsing import parse

_PATTERN = "pattern"  # the note that holds the JSON of a subscription's pattern
_SCALARS = {str, int, float, bool, type(None)}
_WRITE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=dict).encode


class Lowered(NamedTuple):
    """A pattern, ready to become a part of a segment."""

    conjunctions: Sequence[Conjunction]
    text: bytes  # its JSON


def checked(patterns: Mapping[str, Any]) -> Mapping[str, Any]:
    """The patterns, if they are some by id. Raises MatchingError."""
    if not isinstance(patterns, Mapping):
        kind = type(patterns).__name__
        raise MatchingError(f'subscriptions are patterns by id, such as {{"s1": {{"x": [1]}}}}, not a {kind}')
    for id in patterns:
        if not isinstance(id, str):
            raise MatchingError(f"the id of a subscription must be a string, not {show(id)}")
    return patterns


def lowered(patterns: Mapping[str, Any]) -> dict[str, Lowered]:
    """Lower checked patterns (SUBSCRIPTIONS.md) by id. Raises MatchingError, which names the first that cannot be
    used."""
    return {id: _lowered(id, document, b"") for id, document in patterns.items()}


def segment_of(patterns: Mapping[str, Lowered]) -> Segment:
    """The segment of patterns by id."""
    notes = {_PATTERN: _texts([pattern.text for pattern in patterns.values()])}
    return Segment.build([(id, pattern.conjunctions) for id, pattern in patterns.items()], notes)


def compiled(patterns: Mapping[str, Any]) -> Segment:
    """The segment of checked patterns by id, each with its JSON. Raises MatchingError as `lowered` does."""
    if len(patterns) < FEWEST_DOCUMENTS:
        return segment_of(lowered(patterns))
    ids, documents = list(patterns), list(patterns.values())
    texts = [_written(document) if _plain(document) else b"" for document in documents]
    skeletons = Skeletons.of(*joined(texts))
    together = list(by_shape(skeletons, template_of))
    alone = np.ones(len(ids), np.bool_)
    for _, which in together:
        alone[which] = False
    objects = [d for d in np.flatnonzero(alone).tolist() if texts[d].startswith(b"{")]
    by_member = compiled_by_member([texts[d] for d in objects])
    of_members = np.array(objects, np.int64)[by_member.documents]
    alone[of_members] = False
    left = np.flatnonzero(alone).tolist()
    all_ids, notes = Texts.of(ids), _texts(texts)
    segments = []
    if left:
        segments.append(segment_of({ids[d]: _lowered(ids[d], documents[d], texts[d]) for d in left}))
    if len(of_members):
        segments.append(by_member.segment(all_ids.take(of_members), {_PATTERN: notes.take(of_members)}))
    for template, which in together:
        first = skeletons.offsets[which]
        segments.append(template.segment(all_ids.take(which), skeletons, first, {_PATTERN: notes.take(which)}))
    none: Int32 = np.empty(0, np.int32)
    return segments[0] if len(segments) == 1 else Segment.merge([(segment, none) for segment in segments])


def _written(document: Any) -> bytes:
    """The JSON of a document; empty if it has an integer of thousands of digits, which `parse` names."""
    try:
        return _WRITE(document).encode("utf-8", "surrogatepass")
    except ValueError:
        return b""


def _lowered(id: str, document: Any, text: bytes) -> Lowered:
    """The pattern of an id; its JSON is written where it is empty. Raises MatchingError."""
    try:
        conjunctions = lower(parse(document))
    except PatternError as error:
        raise MatchingError(f"subscription {id!r}: {error}") from error
    return Lowered(conjunctions, text or _WRITE(document).encode("utf-8", "surrogatepass"))


def pattern_of(segment: Segment, position: int) -> Pattern:
    """The pattern of a subscription of a segment that `compiled` made."""
    return parse(json.loads(cast(Texts, segment.notes[_PATTERN])[position]))


def _plain(document: Any) -> bool:
    """Whether the document equals its JSON, which has no tuples and only strings as names."""
    try:
        return _is_plain(document)
    except RecursionError:
        return False  # `parse` gives the reason


def _is_plain(node: Any) -> bool:
    """Check a value in loops without a call per value: this runs for every pattern, and `all` takes thrice as long."""
    kind = type(node)
    if kind is dict:
        for name in node:
            if type(name) is not str:
                return False
        nodes = node.values()
    elif kind is list:
        nodes = node
    else:
        return kind in _SCALARS
    for each in nodes:  # noqa: SIM110 - see above
        if type(each) not in _SCALARS and not _is_plain(each):
            return False
    return True


def _texts(written: Sequence[bytes]) -> Texts:
    return Texts(np.frombuffer(b"".join(written), np.uint8), offsets_of([len(text) for text in written]))
