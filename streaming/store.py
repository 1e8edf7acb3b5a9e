"""The state on disk: parts as files that workers map, and for some versions a manifest of what was in force.

    state/part-<name>         one part (`packing`)
    state/version-<number>    a manifest: the files and removed positions of a version, what it takes into account

A manifest is written after the parts it names, and everything has checksums, so what a crash left half-written is
noticed. The last two manifests are kept: if the newest is spoiled there is one before it, and changes since then are
read from the topic.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matchers.errors import MatchingError
from matchers.snapshot import Part, Snapshot
from matchers.tables import Int32
from streaming import packing
from streaming.layout import DAY_MS

log = logging.getLogger("sluice.state")

KEPT = 2  # manifests


@dataclass(frozen=True)
class Manifest:
    """What a version consists of."""

    version: int
    positions: Mapping[int, int]  # partition of the subscriptions topic -> first offset not taken into account
    algorithm: str
    options: Mapping[str, Any]
    shards: int
    parts: tuple[str, ...]  # names of files
    removed: tuple[Int32, ...]
    written_at: float  # epoch s


class Store:
    """One process at a time uses the directory; the checkpoint's lock sees to that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def new_path(self) -> Path:
        return self.directory / f"part-{uuid.uuid4().hex}"

    def save(self, manifest: Manifest) -> None:
        """Raises OSError."""
        packing.write(self.directory / f"version-{manifest.version:020d}", manifest)
        for old in self._manifests()[KEPT:]:
            old.unlink()

    def load(
        self, snapshot: Snapshot, committed: Mapping[int, int], now: float | None = None
    ) -> tuple[Snapshot, dict[Part, Path], Manifest] | None:
        """The newest version that is whole, was made as `snapshot` is, and is not ahead of what was committed.

        None too if it is older than the time for which the topic keeps superseded changes: some between it and
        what was committed may be gone.
        """
        for path in self._manifests():
            try:
                manifest: Manifest = packing.read(path, check=True)
                if reason := _unfit(manifest, snapshot, committed, time.time() if now is None else now):
                    log.warning("saved state not used", extra={"fields": {"file": path.name, "reason": reason}})
                    continue
                parts = {packing.read(self.directory / n, check=True): self.directory / n for n in manifest.parts}
            except (OSError, MatchingError) as error:
                log.warning("saved state not used", extra={"fields": {"file": path.name, "reason": str(error)}})
                continue
            return snapshot.of(list(zip(parts, manifest.removed, strict=True)), manifest.version), parts, manifest
        return None

    def delete(self, retired: Mapping[Part, Path]) -> list[Part]:
        """Delete the files of those that no manifest names; returns whose were deleted."""
        named = self._named()
        gone = [part for part, path in retired.items() if path not in named]
        for part in gone:
            retired[part].unlink()
        return gone

    def clean(self) -> None:
        """Delete what a crash left. Call before anything is written."""
        kept = {*self._manifests(), *self._named()}
        for path in self.directory.iterdir():
            if path not in kept:
                path.unlink()

    def forget(self) -> None:
        """Delete all: the query begins anew."""
        for path in self.directory.iterdir():
            path.unlink()

    def _manifests(self) -> list[Path]:
        """The newest first."""
        return sorted(self.directory.glob("version-" + "[0-9]" * 20), reverse=True)

    def _named(self) -> set[Path]:
        """The files that manifests name."""
        names = set()
        for path in self._manifests():
            with suppress(OSError, MatchingError):
                names |= {self.directory / name for name in packing.read(path, check=True).parts}
        return names


def _unfit(manifest: Manifest, snapshot: Snapshot, committed: Mapping[int, int], now: float) -> str | None:
    if (manifest.algorithm, dict(manifest.options)) != (snapshot.algorithm, dict(snapshot.options)):
        return f"it is for matching.algorithm = {manifest.algorithm!r} with options {dict(manifest.options)}"
    if manifest.shards != snapshot.shards:
        return f"it is for matching.shards = {manifest.shards}"
    if any(offset > committed.get(partition, 0) for partition, offset in manifest.positions.items()):
        return "it is ahead of what was committed"
    if now - manifest.written_at > DAY_MS / 1000:
        return "it is more than a day old"
    return None
