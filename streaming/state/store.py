"""The state on disk: parts as mapped files, and manifests of saved versions.

    state/part-<name>         one part (`packing`)
    state/version-<number>    a manifest: the files and removed positions of a version, what it takes into account
    state/rejected            changes since then that were rejected for a reason that is not in them: quotas

A manifest is written after the parts it names, and everything has checksums, so missing, half-written and corrupted
files are noticed. The last two manifests are kept: if the newest is corrupted there is one before it, and changes since
then are read from the topic. Without the `rejections` that would be wrong, so no manifest is used then: the state is
built from the topic, whose statuses show what was rejected.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matchers.contract.tables import Int32
from matchers.errors import MatchingError
from matchers.index.snapshot import Part, Snapshot
from streaming.index import packing
from streaming.kafka.retention import DAY_MS
from streaming.log import error_fields, logger
from streaming.process.supervision import SCARCE
from streaming.state import rejections
from streaming.state.rejections import Place
from streaming.state.remote import Copy

log = logger("sluice.state")

KEPT_MANIFESTS = 2
AHEAD_S = 60.0  # that clocks of two hosts may differ


@dataclass(frozen=True)
class Manifest:
    """The content of a version."""

    version: int
    positions: Mapping[int, int]  # partition of changes -> first offset not taken into account
    shards: int
    parts: tuple[str, ...]  # names of files
    removed: tuple[Int32, ...]
    written_at: float  # epoch s
    bounds: int = 0  # `tenants.checksum`: the bounds by which its subscriptions were checked


class Store:
    """A directory that one process at a time uses; the checkpoint's lock sees to that. With a `copy`, which is made
    first, what is saved is there too when a method returns, and each that writes raises StorageFailed or Fenced if it
    fails.
    """

    def __init__(self, directory: Path, copy: Copy | None = None, bounds: int = 0) -> None:
        """A manifest of other `bounds` is not loaded."""
        self.bounds = bounds
        self.directory = directory
        self.copy = copy
        self._file = directory / "rejected"
        self._lock = threading.Lock()  # of that file
        self._rejected: set[Place] = set()
        self._damage = ""  # why these may not be all
        directory.mkdir(parents=True, exist_ok=True)
        if not self._file.exists() and not self._manifests():
            self._write_rejected()
        try:
            self._rejected = rejections.read(self._file)
        except (OSError, MatchingError) as error:
            self._damage = str(error)

    def new_path(self) -> Path:
        return self.directory / f"part-{uuid.uuid4().hex}"

    def save(self, manifest: Manifest) -> None:
        """Save a manifest. Raises OSError."""
        packing.write(self.directory / f"version-{manifest.version:020d}", manifest)
        newest, *older = self._whole()
        # One that is too old is not used (`_unfit`), and the rejections since then need not be kept.
        recent = [one for one in older if manifest.written_at - one[1].written_at <= DAY_MS / 1000]
        kept = dict([newest, *recent][:KEPT_MANIFESTS])
        for old in self._manifests():
            if old not in kept:
                old.unlink()
        oldest = kept[min(kept)]
        self.forget_rejected(lambda at: at[1] >= oldest.positions.get(at[0], 0))
        self._update_copy()

    def load(
        self, snapshot: Snapshot, committed: Mapping[int, int], now: float | None = None
    ) -> tuple[Snapshot, dict[Part, Path], Manifest] | None:
        """The newest intact version with as many shards as `snapshot` that is not ahead of the committed offsets.

        None too if it is older than the time for which the topic keeps superseded changes: some changes since then may
        be gone.
        """
        if self._damage:
            log.warning("saved_state_rejected", file=self._file.name, reason=self._damage)
            return None
        for path in self._manifests():
            try:
                manifest = packing.read(path, Manifest, check=True)
                if reason := self._unfit(manifest, snapshot, committed, time.time() if now is None else now):
                    log.warning("saved_state_rejected", file=path.name, reason=reason)
                    continue
                parts = {packing.read(self.directory / n, Part, check=True): self.directory / n for n in manifest.parts}
            except (OSError, MatchingError) as error:
                log.warning("saved_state_rejected", file=path.name, **error_fields(error))
                continue
            return snapshot.of(list(zip(parts, manifest.removed, strict=True)), manifest.version), parts, manifest
        return None

    def _unfit(self, manifest: Manifest, snapshot: Snapshot, committed: Mapping[int, int], now: float) -> str | None:
        if manifest.shards != snapshot.shards:
            return f"it is for matching.shards = {manifest.shards}"
        if manifest.bounds != self.bounds:
            return "subscriptions.tenants has changed"
        if any(offset > committed.get(partition, 0) for partition, offset in manifest.positions.items()):
            return "it is ahead of what was committed"
        if manifest.written_at - now > AHEAD_S:
            return "it is from the future by this machine's clock, so its age is unknown"
        if now - manifest.written_at > DAY_MS / 1000:
            return "it is more than a day old"
        return None

    def reject(self, changes: Iterable[Place]) -> None:
        """Remember rejected changes. Raises OSError."""
        with self._lock:
            self._rejected |= {*changes}
            self._write_rejected()

    def rejected(self) -> set[Place]:
        """The rejected changes that are newer than some manifest."""
        return set(self._rejected)

    def forget_rejected(self, keep: Callable[[Place], bool]) -> None:
        with self._lock:
            left = set(filter(keep, self._rejected))
            if len(left) < len(self._rejected):
                self._rejected = left
                rejections.write(self._file, left)

    def _write_rejected(self) -> None:
        rejections.write(self._file, self._rejected)
        if self.copy is not None:
            self.copy.reject(self._file)

    def delete(self, retired: Mapping[Part, Path]) -> list[Part]:
        """Delete the files of parts that no manifest names; returns the parts whose files were deleted."""
        named = self._named()
        gone = [part for part, path in retired.items() if path not in named]
        for part in gone:
            retired[part].unlink(missing_ok=True)
        return gone

    def clean(self) -> None:
        """Delete leftovers of a crash. Call before anything is written."""
        kept = {*self._manifests(), *self._named(), self._file}
        for path in self.directory.iterdir():
            if path not in kept:
                path.unlink()
        self._update_copy()

    def forget(self) -> None:
        """Delete everything except the rejected changes: the state is rebuilt."""
        for path in self.directory.iterdir():
            if path != self._file:
                path.unlink()
        if self._damage:
            rejections.write(self._file, self._rejected)
            self._damage = ""
        self._update_copy()

    def _update_copy(self) -> None:
        if self.copy is not None:
            self.copy.update(self._named(), self._manifests())
            self.copy.reject(self._file)  # last: those are forgotten that only older manifests need

    def _manifests(self) -> list[Path]:
        """The manifests, newest first."""
        return sorted(self.directory.glob("version-" + "[0-9]" * 20), reverse=True)

    def _whole(self) -> list[tuple[Path, Manifest]]:
        """The intact manifests, newest first."""
        whole = []
        for path in self._manifests():
            try:
                whole.append((path, packing.read(path, Manifest, check=True)))
            except OSError as error:
                if error.errno in SCARCE:  # it may be intact, so nothing that it names can be deleted now
                    raise
            except MatchingError:
                pass
        return whole

    def _named(self) -> set[Path]:
        """The files that manifests name and that are there."""
        named = {self.directory / name for _, manifest in self._whole() for name in manifest.parts}
        return {path for path in named if path.exists()}
