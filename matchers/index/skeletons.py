"""Separate many JSON documents into their shapes and values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int32, Int64, offsets_of
from matchers.index.kernels.json import Documents
from matchers.index.kernels.skeleton import Shapes, SkeletonSlots, skeletons
from matchers.index.texts import Texts
from matchers.kernels.texts import take

_ROOM_BYTES, _ROOM_SHAPES = 1 << 20, 1 << 12
_SPELLED = {"t": "true", "f": "false", "n": "null"}


@dataclass(frozen=True, eq=False)
class Skeletons:
    """Document d has the shape shape[d], -1: unknown, and the values offsets[d] .. offsets[d + 1].

    A text is text[start : start + length], UTF-8.
    """

    shapes: tuple[bytes, ...]
    shape: Int32  # [N]
    offsets: Int64  # [N + 1]
    number: Float64  # [V]
    start: Int64  # [V]
    length: Int32  # [V]
    text: NDArray[np.uint8]

    @classmethod
    def of(cls, text: NDArray[np.uint8], begins: Int64, ends: Int64) -> Skeletons:
        n = len(begins)
        room = int((ends - begins).sum()) // 2 + n + 1
        shapes = Shapes(
            text=np.empty(_ROOM_BYTES, np.uint8),
            end=np.zeros(_ROOM_SHAPES, np.int64),
            table=np.full(4 * _ROOM_SHAPES, -1, np.int32),
        )
        slots = SkeletonSlots(
            offsets=np.zeros(n + 1, np.int64),
            number=np.zeros(room),
            start=np.zeros(room, np.int64),
            length=np.zeros(room, np.int32),
        )
        shape = np.empty(n, np.int32)
        n_shapes, m = skeletons(Documents(text, begins, ends), shapes, slots, shape)
        slots.start.flags.writeable = False  # as those of `Texts`, for which `take` is compiled
        whole = shapes.text[: shapes.end[n_shapes]].tobytes()
        different = tuple(whole[a:b] for a, b in pairwise(shapes.end[: n_shapes + 1].tolist()))
        return cls(different, shape, slots.offsets, slots.number[:m], slots.start[:m], slots.length[:m], text)

    def texts(self, values: Int64) -> Texts:
        """The texts of these values."""
        start = offsets_of(self.length[values])
        text = np.empty(start[-1], np.uint8)
        take(self.text, self.start, values, text, start)
        return Texts(text, start)


def joined(documents: Sequence[bytes]) -> Documents:
    offsets = offsets_of([len(document) for document in documents])
    return Documents(np.frombuffer(b"".join(documents), np.uint8), offsets[:-1], offsets[1:])


def slot_text(slot: int) -> str:
    """A text that marks the slot of a value, and that no skeleton may hold."""
    return f"\x01{slot}"


def slot_number(slot: int) -> float:
    """A number that marks the slot of a value."""
    return slot + 0.5


def is_slot(text: str) -> bool:
    """Whether a text of a `filled` document marks a slot; others are in the shape itself, such as `<`."""
    return text.startswith("\x01")


def slot_of(value: Any) -> int:
    return int(value[1:]) if isinstance(value, str) else int(value)


def filled(shape: bytes) -> bytes:
    """A document of a shape in which each value names its slot. It is JSON only if the shape is."""
    parts: list[str] = []
    slot = 0
    for i, piece in enumerate(shape.split(b'"')):
        if i % 2:  # within quotes
            parts.append(f'"{piece.decode()}"')
            continue
        for byte in piece.decode():
            if byte in "SN":
                parts.append(json.dumps(slot_text(slot)) if byte == "S" else repr(slot_number(slot)))
                slot += 1
            else:
                parts.append(_SPELLED.get(byte, byte))
    return "".join(parts).encode()
