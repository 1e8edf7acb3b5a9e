"""Store many texts as two arrays: a mapped file holds a million of them without Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int32, Int64, offsets_of
from matchers.kernels import texts as kernels

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Texts:
    text: NDArray[np.uint8]  # UTF-8
    start: Int64  # [S + 1]: text i is text[start[i] : start[i + 1]]

    def __post_init__(self) -> None:
        self.text.flags.writeable = self.start.flags.writeable = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(lengths))

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        lengths = [np.diff(part.start) for part in parts]
        text = [part.text[part.start[0] : part.start[-1]] for part in parts]
        return cls(np.concatenate([*text, np.empty(0, np.uint8)]), offsets_of(np.concatenate([*lengths, []])))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, i: int) -> str:
        return self.text[self.start[i] : self.start[i + 1]].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return iter(self.at(np.arange(len(self))))

    def at(self, positions: Int32 | Int64) -> list[str]:
        """The texts at these positions."""
        return [text.decode("utf-8", "surrogatepass") for text in self.take(positions).encoded()]

    def encoded(self) -> list[bytes]:
        """The texts in UTF-8."""
        whole = self.text.tobytes()
        return [whole[a:b] for a, b in pairwise(self.start.tolist())]

    def take(self, positions: Int32 | Int64) -> Texts:
        start = offsets_of(self.start[positions + 1] - self.start[positions])
        text = np.empty(start[-1], np.uint8)
        kernels.take(self.text, self.start, positions, text, start)
        return Texts(text, start)

    def find(self, wanted: Texts) -> Int32:
        """The position of each of these texts, the last of equal ones; -1 if there is none."""
        position = np.empty(len(wanted), np.int32)
        kernels.find(self.text, self.start, self._table[0], wanted.text, wanted.start, position)
        return position

    def distinct(self) -> tuple[Texts, Int64]:
        """The different texts, and the position of each text among them."""
        number = np.cumsum(self.last) - 1
        return self.take(np.flatnonzero(self.last)), number[self.find(self)]

    @property
    def last(self) -> Bools:
        """[S]: False where an equal text follows."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[Int32, Bools]:
        slots = np.full(1 << (2 * len(self)).bit_length(), -1, np.int32)
        last = np.empty(len(self), bool)
        kernels.fill(self.text, self.start, slots, last)
        slots.flags.writeable = False
        return slots, last
