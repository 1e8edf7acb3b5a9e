"""Parts made in a process of their own, from files to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matchers.segment import Segment
from matchers.snapshot import Part
from matchers.tables import Int32
from streaming import packing


def join(parts: Sequence[tuple[Path, Int32]], algorithm: str, options: Mapping[str, Any], to: Path) -> None:
    """What is left of some parts without the positions beside each, as one part. Raises OSError."""
    segments = [(packing.read(path).segment, removed) for path, removed in parts]
    packing.write(to, Part.of(Segment.merge(segments), algorithm, options))
