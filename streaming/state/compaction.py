"""Background work on the state: compaction and saving."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np

from matchers.contract.tables import Int32
from matchers.errors import MatchingError
from matchers.index.snapshot import Part, Snapshot
from streaming.clock import steady_s
from streaming.errors import JobError, ProcessLost, StorageFailed
from streaming.index import notes, packing
from streaming.kafka.retention import DAY_MS
from streaming.latencies import Latencies
from streaming.log import error_fields, logger
from streaming.state import building
from streaming.state.store import Manifest, Store

log = logger("sluice.state")

SAVE_EVERY_S = 30.0
AGAIN_EVERY_S = 3_600.0  # what is a day old is not used any more (`Store.load`)
LATE_MS = DAY_MS  # no event is later than that beside those that wait: compaction removes what expired before


@dataclass(frozen=True, eq=False)
class _Compaction:
    parts: tuple[Part, ...]
    removed: tuple[Int32, ...]
    end: int  # how many parts of the snapshot are these or older
    began: float
    future: Future[tuple[Part, Path]]


class Compactor:
    """Compact and save the state in the background. One thread calls it between batches, and it never makes them wait.

    Readers of a version have its parts in any case: a part's file is deleted only when neither the version in force nor
    a saved one has it, and processes that have mapped it can still read it.
    """

    def __init__(
        self,
        store: Store,
        processes: Executor,
        files: Mapping[Part, Path] | None = None,
        lend: Callable[[Path], object] = lambda path: None,
    ) -> None:
        """Call `lend` in the background with each file that will be shared."""
        self._store = store
        self._processes = processes
        self._lend = lend
        self._files = dict(files or {})
        self._lock = threading.Lock()  # of _files; held for a moment only, since batches wait for it
        self._writing = threading.Lock()  # one at a time, so that no part is written twice
        self._joins, self._saves = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._compaction: _Compaction | None = None
        self._saving: Future[None] | None = None
        self._saved: Snapshot | None = None
        self._saved_up_to: Mapping[int, int] = {}  # the positions
        self._tried_at = -math.inf  # the first save is due at once: a kill must not make the next start read the topic
        self._backoff_until = 0.0  # no compaction starts before
        # Called with a part and the positions in it that compaction has dropped because they expired.
        self.expired: Callable[[Part, Int32], object] = lambda part, positions: None
        self.joins = Latencies()  # durations of compactions; replaced by a new object after each
        self.saved_at: float | None = None  # epoch s: the last save of this process
        self.unsaved_since: float | None = steady_s()  # of the oldest unsaved change
        self._failure = ""  # of the last save

    @property
    def frozen(self) -> int:
        """The number of oldest parts that must not change for now."""
        return self._compaction.end if self._compaction else 0

    def file(self, part: Part) -> Path | None:
        with self._lock:
            return self._files.get(part)

    def step(self, snapshot: Snapshot, seen: Mapping[str, float], waited_ms: float = 0.0) -> Snapshot:
        """Put a finished compaction into the snapshot, and start the next one that is due, for events like those
        `seen` (`EventAverages.options`). Events have waited for so long."""
        if self._compaction is not None and self._compaction.future.done():
            joining, self._compaction = self._compaction, None
            try:
                new, path = joining.future.result()
            except BrokenExecutor as error:
                raise ProcessLost(
                    f"a background process (loading, compaction) was killed, often for lack of memory: {error}"
                ) from error
            except MatchingError as error:
                raise StorageFailed(
                    f"a file of the state is damaged, and the next start replaces it: {error}"
                ) from error
            except (OSError, MemoryError, StorageFailed) as error:
                self._backoff_until = time.monotonic() + SAVE_EVERY_S
                log.warning("compaction_failed", **error_fields(error))
                return snapshot
            now = dict(zip(snapshot.parts, snapshot.removed, strict=True))
            for part, dropped in zip(joining.parts, joining.removed, strict=True):
                if len(expired := np.setdiff1d(dropped, now[part])):
                    self.expired(part, expired.astype(np.int32))
            snapshot = snapshot.swapped(joining.parts, joining.removed, new)
            with self._lock:
                self._files[new] = path
            took_s = time.monotonic() - joining.began
            lengths = Latencies()
            lengths.add(1000 * took_s)
            self.joins = self.joins.plus(lengths)
            log.info(
                "segments_compacted",
                subscription_count=len(new.segment.ids),
                segment_count=len(joining.parts),
                duration_s=round(took_s, 1),
                index=new.about,
            )
        due = snapshot.due()
        if self._compaction is None and time.monotonic() >= self._backoff_until and (parts := snapshot.parts[due]):
            # A clock that jumps ahead must remove no subscription that is in force.
            long_ago = 1000 * min(time.time(), steady_s()) - LATE_MS - waited_ms
            removed = tuple(map(_with_expired, parts, snapshot.removed[due], repeat(long_ago)))
            future = self._joins.submit(self._join, parts, removed, snapshot, seen)
            self._compaction = _Compaction(parts, removed, due.stop, time.monotonic(), future)
        return snapshot

    def reject(self, changes: Iterable[tuple[int, int]]) -> None:
        self._store.reject(changes)

    def save_if_due(self, snapshot: Snapshot, positions: Mapping[int, int]) -> None:
        if (saving := self._saving) is not None and saving.done():
            self._saving = None
            self._finish(saving.result)
        if snapshot is not self._saved and self.unsaved_since is None:
            self.unsaved_since = steady_s()
        due = AGAIN_EVERY_S if self._is_saved(snapshot, positions) else SAVE_EVERY_S
        if self._saving is None and time.monotonic() - self._tried_at >= due:
            self._saved, self._saved_up_to, self._tried_at = snapshot, dict(positions), time.monotonic()
            self._saving = self._saves.submit(self._save, snapshot, dict(positions), self._retired(snapshot))

    def _is_saved(self, snapshot: Snapshot, positions: Mapping[int, int]) -> bool:
        """Whether nothing was read since the last save. Rejected changes leave the snapshot as it is."""
        return snapshot is self._saved and positions == self._saved_up_to

    def close(self, snapshot: Snapshot, positions: Mapping[int, int]) -> None:
        """Save the last version; a running compaction is cancelled."""
        if self._compaction is not None and not self._compaction.future.done():
            log.info("compaction_cancelled", segment_count=len(self._compaction.parts))
        self._joins.shutdown(wait=False, cancel_futures=True)
        self._saves.shutdown()
        if self._saving is not None:
            self._finish(self._saving.result)
        if not self._is_saved(snapshot, positions):
            self._finish(lambda: self._save(snapshot, positions, self._retired(snapshot)))

    def _finish(self, save: Callable[[], None]) -> None:
        """Take note of a save. A full disk does not stop the job, nor does a file system that fails: the save is tried
        again, and the next start reads unsaved changes from the topic."""
        try:
            save()
        except (OSError, JobError) as error:
            self._saved = None
            if str(error) != self._failure:
                log.warning("state_save_failed", **error_fields(error))
            self._failure = str(error)
        else:
            if self._failure:
                log.info("state_save_recovered")
            self._failure, self.saved_at, self.unsaved_since = "", steady_s(), None

    def _retired(self, snapshot: Snapshot) -> list[Part]:
        """The parts that are no longer in use, and never will be. A part that comes into use later, even during the
        save, is not among them."""
        in_use = {*snapshot.parts, *(self._compaction.parts if self._compaction else ())}
        with self._lock:
            return [part for part in self._files if part not in in_use]

    def _join(
        self, parts: tuple[Part, ...], removed: tuple[Int32, ...], like: Snapshot, seen: Mapping[str, float]
    ) -> tuple[Part, Path]:
        files = [(self._file_of(part), gone) for part, gone in zip(parts, removed, strict=True)]
        to = self._store.new_path()
        try:
            self._processes.submit(building.join, files, like.algorithm, dict(like.options), seen, to).result()
            self._lend(to)
            return packing.read(to, Part), to
        except BaseException:
            to.unlink(missing_ok=True)  # no manifest will name it, and the next try writes another
            raise

    def _save(self, snapshot: Snapshot, positions: Mapping[int, int], retired: list[Part]) -> None:
        names = tuple(self._file_of(part).name for part in snapshot.parts)
        manifest = Manifest(
            version=snapshot.version,
            positions=positions,
            shards=snapshot.shards,
            parts=names,
            removed=snapshot.removed,
            written_at=time.time(),
            bounds=self._store.bounds,
        )
        self._store.save(manifest)
        with self._lock:
            files = {part: self._files[part] for part in retired}
        gone = self._store.delete(files)
        with self._lock:
            for part in gone:
                del self._files[part]

    def _file_of(self, part: Part) -> Path:
        with self._writing:
            path = self.file(part)
            if path is None:
                path = self._store.new_path()
                packing.write(path, part)
                with self._lock:
                    self._files[part] = path
            return path


def _with_expired(part: Part, removed: Int32, before_ms: float) -> Int32:
    """The deleted positions, and those that expired so long ago that no event can be that late."""
    expired = np.flatnonzero(notes.numbers(part.segment, "expires_at_ms") < before_ms)
    return np.union1d(removed, expired).astype(np.int32) if len(expired) else removed
