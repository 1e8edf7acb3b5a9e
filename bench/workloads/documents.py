"""Many JSON documents as one array of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int64, offsets_of


@dataclass(frozen=True, eq=False)
class Documents:
    """Document d is text[begins[d] : ends[d]], UTF-8."""

    text: NDArray[np.uint8]
    begins: Int64  # [N]
    ends: Int64  # [N]

    @classmethod
    def of(cls, documents: Iterable[str]) -> Documents:
        written = [document.encode() for document in documents]
        offsets = offsets_of([len(document) for document in written])
        return cls(np.frombuffer(b"".join(written), np.uint8), offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, begin: int, end: int) -> Documents:
        return Documents(self.text, self.begins[begin:end], self.ends[begin:end])

    def written(self, d: int) -> bytes:
        return self.text[self.begins[d] : self.ends[d]].tobytes()

    def document(self, d: int) -> Any:
        return json.loads(self.written(d))
