"""Keep a numbered, immutable version of a set of subscriptions.

A snapshot is a few segments and, for each, the positions of those that were replaced or removed since it was built.
An update appends a small segment and joins it with those before it that are not FANOUT times as long as all after
them, so a subscription is moved O(log n) times in its life and matching uses O(log n) indexes. An update that must not
take long moves `most` subscriptions at most; what is `due` then can be joined elsewhere while the snapshot goes on
being updated, and be `swapped` in. Old snapshots stay as they were.

With `shards` there are as many long parts that are never joined with each other, so that several machines can have one
each; what is new is joined with the shortest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.matcher import Matcher, RatedMatcher
from matchers.contract.tables import EventBatch, Int32, MatchBatch
from matchers.index.encoding import Encoder
from matchers.index.fields import Fields
from matchers.index.segment import Segment
from matchers.index.texts import Texts
from matchers.index.values import read_events
from matchers.index.vocabulary import Vocabulary
from matchers.language.lowering import Conjunction
from matchers.language.model import Event
from matchers.registry import ALGORITHMS, named

FANOUT = 4
BITMAP_FROM_POSITIONS = 1_000
_NONE: Int32 = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Part:
    """A segment with the index over its table: immutable, so it can be handed out once and kept."""

    segment: Segment
    matcher: Matcher
    algorithm: str  # that built the matcher
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, segment: Segment, algorithm: str, options: Mapping[str, Any], seen: Mapping[str, float] | None = None
    ) -> Part:
        """`seen` is what events were like, by option; an algorithm that weighs it takes what `options` leave open."""
        chooser = ALGORITHMS[algorithm]
        weighed = {name: value for name, value in (seen or {}).items() if name in chooser.weighs}
        return cls(segment.prepared(), chooser(segment.table, **{**weighed, **options}), algorithm, dict(options))

    def is_by(self, algorithm: str, options: Mapping[str, Any]) -> bool:
        return (self.algorithm, self.options) == (algorithm, dict(options))

    @property
    def about(self) -> str:
        """The algorithm and, if it was chosen automatically, the reason."""
        return self.matcher.about or self.algorithm

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the segment as texts."""
        return list(self.segment.ids)

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def match(
        self,
        encoded: EventBatch,
        several: NDArray[np.bool_],
        document: Callable[[int], Event],
        removed: Int32,
        false_positives: float = 0.0,
    ) -> tuple[Int32, Int32]:
        """(event, position in the segment's ids) of every match, ascending, without the removed positions.

        `several`: whether an event holds arrays that matter. `document` gives an event whole, for the few cases in
        which its values do not decide. `false_positives` is the rate up to which a `RatedMatcher` may list more than
        that; any other lists nothing more. 0: the rate of `build`.
        """
        if false_positives and isinstance(self.matcher, RatedMatcher):
            rows = self.matcher.match(encoded, false_positives=false_positives)
        else:
            rows = self.matcher.match(encoded)
        return self.settled(rows, several, document, removed)

    def settled(
        self, rows: MatchBatch, several: NDArray[np.bool_], document: Callable[[int], Event], removed: Int32
    ) -> tuple[Int32, Int32]:
        """(event, position) as `match` returns them, given the rows whose columns were hit."""
        matched = self.segment.subscriptions(self.segment.confirmed(rows, several, document))
        event = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(matched.offsets))
        position = matched.subscription
        if len(removed):
            alive = ~_among(position, removed)
            event, position = event[alive], position[alive]
        return event, position


@dataclass(frozen=True, eq=False)
class Snapshot:
    version: int = 0
    algorithm: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None  # subscriptions that an update may move; None: as many as it takes
    shards: int = 1
    scanned: int = 0  # subscriptions of a part beside longer ones, which are not indexed but scanned
    parts: tuple[Part, ...] = ()
    removed: tuple[Int32, ...] = ()  # ascending positions, one array a part

    def __post_init__(self) -> None:
        named(self.algorithm)

    def __len__(self) -> int:
        return _live(self._pairs)

    @property
    def _pairs(self) -> list[tuple[Part, Int32]]:
        """The parts, each with its removed positions."""
        return list(zip(self.parts, self.removed, strict=True))

    def locate(self, ids: Texts) -> list[tuple[Int32, Int32]]:
        """Return, for each part, the indexes of the given ids that it has, and their positions, without the removed
        ones."""
        places = []
        for part, removed in self._pairs:
            position = part.segment.ids.find(ids)
            which = np.flatnonzero((position >= 0) & ~_among(position, removed)).astype(np.int32)
            places.append((which, position[which]))
        return places

    def place(self, id: str) -> tuple[Part, int] | None:
        """The part that has an id, and its position there; None if there is no such subscription."""
        located = self.locate(Texts.of([id])) if isinstance(id, str) else []
        places = [(part, int(at[0])) for part, (_, at) in zip(self.parts, located, strict=False) if len(at)]
        return places[0] if places else None

    def unknown(self, ids: Collection[str]) -> list[str]:
        """The ids among these that no subscription has, ascending."""
        texts = [id for id in ids if isinstance(id, str)]
        known = {texts[i] for which, _ in self.locate(Texts.of(texts)) for i in which.tolist()}
        return sorted(set(ids) - known, key=str)  # what is no text is no id

    def __contains__(self, id: str) -> bool:
        return self.place(id) is not None

    @property
    def about(self) -> str:
        """The algorithm of the longest part and, if it was chosen automatically, the reason."""
        longest = max(self.parts, key=lambda part: len(part.segment.ids), default=None)
        return longest.about if longest else self.algorithm

    @cached_property
    def plan(self) -> FieldPlan:
        return FieldPlan.of(self.parts)

    def update(
        self,
        add: Iterable[tuple[str, Sequence[Conjunction]]] | Segment = (),
        remove: Iterable[str] = (),
        version: int | None = None,
        *,
        frozen: int = 0,
    ) -> Snapshot:
        """Return the next version: `remove`, then `add`, which replaces existing ids. Unknown ids are ignored.

        The `frozen` oldest parts are not compacted.
        """
        fresh = add if isinstance(add, Segment) else Segment.build(add)
        gone = Texts.joined([Texts.of(remove), fresh.ids])
        removed = [
            _with(before, positions) for before, (_, positions) in zip(self.removed, self.locate(gone), strict=True)
        ]
        parts = [
            (part, positions)
            for i, (part, positions) in enumerate(zip(self.parts, removed, strict=True))
            if len(positions) < len(part.segment.ids) or i < frozen
        ]
        stay = max(self._first_due(parts, len(fresh.ids)), frozen)
        while self.most is not None and stay < len(parts) and _live(parts[stay:]) + len(fresh.ids) > self.most:
            stay += 1
        joining = [(part.segment, positions) for part, positions in parts[stay:]]
        if len(fresh.ids):
            joining.append((fresh, _NONE))
        del parts[stay:]
        if joining:
            segment = fresh if joining[0][0] is fresh else Segment.merge(joining)
            scanned = parts and len(segment.ids) <= self.scanned
            algorithm, options = ("scan", {}) if scanned else (self.algorithm, self.options)
            parts.append((Part.of(segment, algorithm, options), _NONE))
        return self.of(
            parts if frozen else self._longest_first(parts), self.version + 1 if version is None else version
        )

    def due(self) -> slice:
        """The parts to compact; an empty slice if there are none. Those of another algorithm come first, one by one."""
        parts = self._pairs
        for i, (part, _) in enumerate(parts):
            if not part.is_by(self.algorithm, self.options):
                return slice(i, i + 1)
        first = self._first_due(parts, 0)
        if first == len(parts):
            alone = next((i for i, part in enumerate(parts) if _sparse(part)), None)
            return slice(0, 0) if alone is None else slice(alone, alone + 1)
        return slice(first, len(parts))

    def _first_due(self, parts: Sequence[tuple[Part, Int32]], added: int) -> int:
        """The first part that is not FANOUT times as long as all after it, or that is mostly removed.

        The first `shards - 1` parts are only compacted by themselves.
        """
        newer = added
        first = len(parts)
        for i in reversed(range(self.shards - 1, len(parts))):
            if _size(parts[i]) < FANOUT * newer or _sparse(parts[i]):
                first = i
            newer += _size(parts[i])
        return first

    def swapped(self, old: Sequence[Part], removed: Sequence[Int32], new: Part) -> Snapshot:
        """Return the same version with `new` in place of `old`.

        `old` are consecutive parts, and `new` was made of them when `removed` were their removed positions.
        """
        present = dict(self._pairs)
        gone = []
        begin = 0
        for part, before in zip(old, removed, strict=True):
            since = np.setdiff1d(present[part], before, assume_unique=True)
            gone.append(begin + since - np.searchsorted(before, since))
            begin += len(part.segment.ids) - len(before)
        first = self.parts.index(old[0])
        parts = self._pairs
        parts[first : first + len(old)] = [(new, np.concatenate(gone).astype(np.int32))]
        return self.of(self._longest_first([pair for pair in parts if _size(pair)]), self.version)

    def _longest_first(self, parts: Sequence[tuple[Part, Int32]]) -> list[tuple[Part, Int32]]:
        """Sort the long parts by length, descending: new subscriptions are merged into the last, shortest one."""
        return sorted(parts[: self.shards], key=_size, reverse=True) + list(parts[self.shards :])

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def of(self, parts: Sequence[tuple[Part, Int32]], version: int) -> Snapshot:
        """A version that consists of these parts, each with its removed positions."""
        return replace(
            self, version=version, parts=tuple(part for part, _ in parts), removed=tuple(gone for _, gone in parts)
        )

    def match(self, events: Sequence[Event | bytes]) -> list[list[str]]:
        """Return, for each event (a document or its JSON), the ids that it satisfies, in no particular order. Raises
        TypeError, and MatchingError for bytes that are not an event."""
        matched: list[list[str]] = [[] for _ in events]
        plan = self.plan
        values, document = read_events(events, plan.fields)
        for part, encoder, removed in zip(self.parts, plan.encoders, self.removed, strict=True):
            event, position = part.match(encoder.encode(values), values.several, document, removed)
            ids = part.ids
            for e, p in zip(event.tolist(), position.tolist(), strict=True):
                matched[e].append(ids[p])
        return matched


@dataclass(frozen=True, eq=False)
class FieldPlan:
    """The fields of an event that some parts need, and the encoder of each part."""

    fields: Fields
    encoders: tuple[Encoder, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], before: FieldPlan | None = None) -> FieldPlan:
        """Reuses the encodings of the plan `before` that still fit."""
        vocabularies = [part.segment.vocabulary for part in parts]
        fields = Fields.of(path for vocabulary in vocabularies for path, _ in vocabulary.columns)
        known: dict[Vocabulary, Encoder] = {}
        if before is not None and before.fields.paths == fields.paths:
            fields = before.fields
            known = {encoder.vocabulary: encoder for encoder in before.encoders}
        return cls(fields, tuple(known.get(v) or Encoder(v, fields) for v in vocabularies))


def _among(position: Int32, removed: Int32) -> NDArray[np.bool_]:
    if not len(removed):
        return np.zeros(len(position), bool)
    if len(position) > BITMAP_FROM_POSITIONS:  # a bit of memory each is then cheaper than a search each
        gone = np.zeros(max(int(position.max()), int(removed[-1])) + 1, bool)
        gone[removed] = True
        return gone[position]
    mask: NDArray[np.bool_] = removed[np.minimum(np.searchsorted(removed, position), len(removed) - 1)] == position
    return mask


def _with(removed: Int32, positions: Int32) -> Int32:
    """Insert positions into the ascending `removed`, which has none of them; it is copied and not sorted again."""
    if not len(positions):
        return removed
    new = np.unique(positions)
    return np.insert(removed, np.searchsorted(removed, new), new)


def _size(part: tuple[Part, Int32]) -> int:
    """The number of remaining subscriptions."""
    return len(part[0].segment.ids) - len(part[1])


def _live(parts: Sequence[tuple[Part, Int32]]) -> int:
    return sum(map(_size, parts))


def _sparse(part: tuple[Part, Int32]) -> bool:
    return 2 * _size(part) < len(part[0].segment.ids)
