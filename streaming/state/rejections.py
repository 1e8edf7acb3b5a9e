"""The changes that the job rejected for a reason that is not in them, in a file with a checksum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matchers.contract.tables import Int64
from streaming.index import packing

Place = tuple[int, int]  # partition and offset of a change


@dataclass(frozen=True, eq=False)
class Rejections:
    partition: Int64  # [changes]
    offset: Int64  # [changes]


def write(path: Path, places: Iterable[Place]) -> None:
    """Write a file, whole or not at all; the same changes give the same bytes. Raises OSError."""
    columns = np.array(sorted(places), np.int64).reshape(-1, 2).T
    packing.write(path, Rejections(*(np.ascontiguousarray(column) for column in columns)))


def read(path: Path) -> set[Place]:
    """Read a file. Raises OSError, and MatchingError if it is corrupted."""
    rejections = packing.read(path, Rejections, check=True)
    return set(zip(rejections.partition.tolist(), rejections.offset.tolist(), strict=True))
