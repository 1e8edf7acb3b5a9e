"""Build and compact parts in separate processes, from files to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matchers.contract.tables import Int32
from matchers.index.segment import Segment
from matchers.index.snapshot import Part
from streaming.index import packing


def join(
    parts: Sequence[tuple[Path, Int32]],
    algorithm: str,
    options: Mapping[str, Any],
    seen: Mapping[str, float],
    to: Path,
) -> None:
    """Compact some parts, without the deleted positions of each, into one part, for events like those `seen`.

    Raises OSError, and MatchingError if a file is damaged: merged, the damage would get a checksum of its own.
    """
    segments = [(packing.read(path, Part, check=True).segment, removed) for path, removed in parts]
    packing.write(to, Part.of(Segment.merge(segments), algorithm, options, seen))
