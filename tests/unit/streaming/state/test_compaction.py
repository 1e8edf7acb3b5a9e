"""Background work on the state, with threads in place of processes."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from matchers import ALGORITHMS, Matcher, SubscriptionTable, flat_file
from matchers.contract.algorithm import Algorithm
from matchers.index.snapshot import Part, Snapshot
from matchers.language.lowering import lower
from matchers.language.parsing import parse
from streaming.driver.batch_order import in_order
from streaming.driver.limits.quotas import SubscriptionQuota
from streaming.errors import JobError, ProcessLost, StorageFailed
from streaming.index import packing, parts
from streaming.rows import SUBSCRIPTIONS
from streaming.state import building, compaction
from streaming.state.compaction import Compactor
from streaming.state.event_averages import KNOWN_FROM_EVENTS
from streaming.state.pool import processes
from streaming.state.state import State
from streaming.state.store import Manifest, Store
from tests.support.doubles.stage import ALICE, BOB, SETTINGS, Later, Value, apply, change, delivered, event, work
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kernels

EMPTY = Snapshot(most=2)
MANY = range(24)


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save every version, unless one is being saved."""
    monkeypatch.setattr(compaction, "SAVE_EVERY_S", 0.0)


@pytest.fixture
def later() -> Iterator[Later]:
    with Later() as pool:
        yield pool


def started(store: Store, processes: Executor, snapshot: Snapshot = EMPTY, files: Any = None) -> State:
    positions = {(SUBSCRIPTIONS, 0): snapshot.version}
    return State(snapshot, Value, positions, compactor=Compactor(store, processes, files))


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, "nothing more happens"
        time.sleep(0.002)


def compactor_of(state: State) -> Compactor:
    assert state.compactor is not None
    return state.compactor


def worked(state: State, *pools: Later) -> bool:
    """Do the work that waits in these pools, then a step of the state; always true, for `until`."""
    for pool in pools:
        pool.work()
    state.step()
    return True


def settled(state: State) -> None:
    """Until nothing is due and nothing is under way."""
    compactor = compactor_of(state)
    until(lambda: worked(state) and not compactor.frozen and compactor._saving is None)


def parts_of(store: Store) -> set[Path]:
    """The files of parts, but those that are being written."""
    return {path for path in store.directory.glob("part-*") if path.suffix != ".part"}


def subscribe(state: State, number: int, document: Any = ALICE) -> None:
    apply(state, [change(state.version, f"s{number}", document)])


def names_of(*numbers: int) -> list[str]:
    return sorted(f"s{n}" for n in numbers)


def test_what_is_due_is_joined_beside_the_batches_and_swapped_in(tmp_path: Path, threads: Executor) -> None:
    state = started(Store(tmp_path), threads)
    for n in MANY:
        subscribe(state, n)
        assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(n + 1))}}
    settled(state)
    assert len(state.snapshot) == len(MANY)
    assert not state.snapshot.parts[state.snapshot.due()]
    assert len(state.snapshot.parts) <= 3
    # What is not due is four times as long as all that is newer: at least four fifths of everything.
    assert max(len(part.segment.ids) for part in state.snapshot.parts) >= 0.8 * len(MANY)
    assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*MANY)}}
    state.close()


def test_what_expired_less_than_a_day_ago_is_still_there_for_late_events(tmp_path: Path, threads: Executor) -> None:
    now_s = int(time.time())
    state = started(Store(tmp_path), threads)
    for n in MANY:
        hours = 23 if n % 2 else 25
        subscribe(state, n, ALICE | {"expires_at": datetime.fromtimestamp(now_s - 3600 * hours, UTC).isoformat()})
    settled(state)
    late = delivered(state, event(0, {"x": 1}, timestamp=1000 * (now_s - 3600 * 24)))
    assert late == {0: {"alice": names_of(*MANY[1::2])}}
    assert len(MANY) / 2 <= len(state.snapshot) < len(MANY)
    state.close()


def test_what_expired_stays_while_events_wait_that_it_may_match(tmp_path: Path, threads: Executor) -> None:
    now_s = int(time.time())
    state = started(Store(tmp_path), threads)
    state.waited_ms = inf  # nobody knows yet
    expired = ALICE | {"expires_at": datetime.fromtimestamp(now_s - 3600 * 30, UTC).isoformat()}
    for n in MANY:
        subscribe(state, n, expired)
    settled(state)
    assert len(state.snapshot) == len(MANY)
    state.waited_ms = 1000 * 3600 * 7.0
    for n in MANY:
        subscribe(state, len(MANY) + n, BOB)
    settled(state)
    assert len(state.snapshot) == 2 * len(MANY)
    state.waited_ms = 0.0
    for n in MANY:
        subscribe(state, 2 * len(MANY) + n, BOB)
    settled(state)
    assert len(state.snapshot) < 3 * len(MANY)
    state.close()


def test_quotas_do_not_count_what_compaction_has_dropped(tmp_path: Path, threads: Executor) -> None:
    long_ago = datetime.fromtimestamp(time.time() - 3600 * 25, UTC).isoformat()
    state, quota = started(Store(tmp_path), threads), SubscriptionQuota(100)
    compactor_of(state).expired = quota.expired
    for n in MANY:
        document = ALICE | ({} if n % 2 else {"expires_at": long_ago})
        rows = in_order(work(state, [change(n, f"s{n}", document)]))
        state.apply(quota.checked(rows, state.snapshot), {(SUBSCRIPTIONS, 0): n + 1})
    settled(state)
    again = SubscriptionQuota(100)
    again.begin(state.snapshot)
    assert +quota._count == +again._count
    assert len(MANY) / 2 <= quota._count["alice"] < len(MANY)
    assert +quota._of_tenant == +again._of_tenant
    state.close()


def test_a_clock_that_jumps_ahead_by_days_removes_nothing(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = int(time.time())
    state = started(Store(tmp_path), threads)
    monkeypatch.setattr(time, "time", lambda: now_s + 3 * 86_400.0)
    tomorrow = datetime.fromtimestamp(now_s + 86_400, UTC).isoformat()
    for n in MANY:
        subscribe(state, n, ALICE | {"expires_at": tomorrow})
    settled(state)
    assert delivered(state, event(0, {"x": 1}, timestamp=1000 * now_s)) == {0: {"alice": names_of(*MANY)}}
    state.close()


def test_parts_that_are_joined_stay_as_they_are_and_changes_meanwhile_count(tmp_path: Path, later: Later) -> None:
    state = started(Store(tmp_path), later)
    for n in range(6):
        subscribe(state, n)
    until(lambda: bool(later.waiting))
    held = state.snapshot.parts[: compactor_of(state).frozen]
    assert held
    for n, document in [(0, None), (1, BOB), (2, None), (3, None), (4, None), (6, ALICE), (7, BOB), (7, None)]:
        subscribe(state, n, document)
        assert state.snapshot.parts[: len(held)] == held
    expected = {0: {"alice": ["s5", "s6"], "bob": ["s1"]}}
    assert delivered(state, event(0, {"x": 1})) == expected
    until(lambda: worked(state, later) and not {*held} & {*state.snapshot.parts})
    assert delivered(state, event(0, {"x": 1})) == expected
    assert len(state.snapshot) == 3


def test_a_part_that_is_removed_whole_while_it_is_joined_is_gone_after_it(tmp_path: Path, later: Later) -> None:
    state = started(Store(tmp_path), later)
    for n in range(6):
        subscribe(state, n)
    until(lambda: bool(later.waiting))
    for n in range(6):
        subscribe(state, n, None)
    assert len(state.snapshot) == 0
    assert delivered(state, event(0, {"x": 1})) == {}
    until(lambda: worked(state, later) and not state.snapshot.parts)
    state.close()


def test_a_better_index_takes_the_place_of_the_one_before_part_by_part_and_no_delivery_changes(
    tmp_path: Path, later: Later
) -> None:
    state = started(Store(tmp_path), later, Snapshot(algorithm="scan"))
    state.pending_index = Future()
    for numbers in (range(100), range(100, 120)):  # each many more than come later, so they stay two parts
        apply(state, [change(n, f"s{n}", ALICE) for n in numbers])
    assert [part.algorithm for part in state.snapshot.parts] == ["scan", "scan"]
    state.pending_index.set_result(("counting", {}))
    old = state.snapshot.parts
    subscribe(state, 120)  # indexed at once
    seen = []
    for n in range(121, 124):
        found = [part.algorithm for part in state.snapshot.parts]
        seen.append({*found})
        assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(n))}}
        later.work()
        subscribe(state, n)
    until(lambda: worked(state, later) and not compactor_of(state).frozen)
    assert {"scan", "counting"} in seen
    assert {part.algorithm for part in state.snapshot.parts} == {"counting"}
    assert not {*old} & {*state.snapshot.parts}
    assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(124))}}
    state.close()


def test_a_better_index_that_cannot_be_had_stops_the_job(tmp_path: Path, later: Later) -> None:
    state = started(Store(tmp_path), later)
    state.pending_index = Future()
    state.pending_index.set_exception(JobError("bits must lie within 1 .. 64, not 65"))
    with pytest.raises(JobError, match="bits must lie"):
        state.step()


def test_what_events_were_like_decides_about_the_index_of_a_part_that_is_compacted(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[dict[str, float]] = []

    def build(table: SubscriptionTable, **options: float) -> Matcher:
        built.append(options)
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "weighing", Algorithm(build, weighs=("attributes", "batch")))
    monkeypatch.setitem(ALGORITHMS, "other", Algorithm(build))
    for algorithm, options, wanted in (
        ("weighing", {}, {"attributes": 7.0, "batch": 50.0}),
        ("weighing", {"batch": 9}, {"attributes": 7.0, "batch": 9}),
        ("other", {"bits": 9}, {"bits": 9}),
    ):
        state = started(Store(tmp_path), threads, replace(EMPTY, algorithm=algorithm, options=options))
        state.seen = state.seen.plus(KNOWN_FROM_EVENTS, 7 * KNOWN_FROM_EVENTS, 50 * KNOWN_FROM_EVENTS)
        for n in MANY:
            subscribe(state, n)
        settled(state)
        assert all(given in (options, wanted) for given in built)  # changes do not wait for a measurement
        assert wanted in built
        assert all(part.is_by(algorithm, options) for part in state.snapshot.parts)  # so no part is due for that
        built.clear()


class Fetched:
    """A file as workers elsewhere have it: a copy, for as long as it is shared."""

    def __init__(self, path: Path, elsewhere: Path) -> None:
        self._path = str(shutil.copy(path, elsewhere))

    def destroy(self) -> None:
        Path(self._path).unlink()


def test_workers_elsewhere_have_files_of_large_parts_and_none_of_those_that_are_retired(
    tmp_path: Path, threads: Executor
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    state = started(Store(tmp_path / "state"), threads)
    state.share = lambda path: Fetched(path, elsewhere)
    many: list[str] = []
    for n in MANY:
        subscribe(state, n)
        settled(state)
        files = {Path(handle.path).name for handle, _ in state.work(SETTINGS)[0].parts if handle.path}
        assert {file.name for file in elsewhere.iterdir()} == files
        many += files
        parts.forget()  # so that they are opened there, as in a worker that was started now
        assert delivered(state, event(0, {"x": 1})) == {0: {"alice": sorted(f"s{i}" for i in range(n + 1))}}
    assert len(set(many)) > len(files) > 0
    assert [handle for handle, _ in state.work(SETTINGS)[0].parts] == [
        handle for handle, _ in state.work(SETTINGS)[0].parts
    ]
    state.close()
    assert not list(elsewhere.iterdir())


def test_what_was_sent_to_workers_is_destroyed_at_the_end_though_sparks_jvm_may_have_ended() -> None:
    sent: list[Value] = []
    has_ended = False

    class Sent(Value):
        def destroy(self) -> None:
            super().destroy()
            if has_ended:
                raise Py4JNetworkError("Answer from Java side is empty")

    def broadcast(value: Any) -> Value:
        sent.append(Sent(value))
        return sent[-1]

    state = State(EMPTY, broadcast, {(SUBSCRIPTIONS, 0): 0})
    for n in range(6):
        subscribe(state, n)
    state.work(SETTINGS)
    has_ended = True
    state.close()
    assert len(sent) > 1
    assert all(value.destroyed for value in sent)


def test_files_of_retired_parts_go_once_no_manifest_names_them(tmp_path: Path, threads: Executor, always: None) -> None:
    store = Store(tmp_path)
    state = started(store, threads)
    for n in MANY:
        subscribe(state, n, ALICE if n % 2 else BOB)
        settled(state)
    for n in (0, 1, 0):  # two saves more, so that nothing names what was
        subscribe(state, n)
        settled(state)
    files = {compactor_of(state).file(part) for part in state.snapshot.parts}
    manifests = sorted(store.directory.glob("version-*"))
    assert len(manifests) == 2
    named = store._named()
    assert parts_of(store) == named | (files - {None})
    assert len(parts_of(store)) <= 8
    state.close()


def test_what_is_in_force_or_being_joined_keeps_its_file_while_an_older_version_is_saved(
    tmp_path: Path, later: Later, always: None
) -> None:
    """A save takes long when there is much to write; batches and joins go on meanwhile."""
    store = Store(tmp_path)
    state = started(store, later)
    saves = Later()
    compactor_of(state)._saves = saves  # type: ignore[assignment]  # another executor does as well
    for n in range(8):
        subscribe(state, n)
    assert saves.waiting
    until(lambda: bool(later.waiting))
    held = compactor_of(state).frozen
    joined = state.snapshot.parts[:held]
    until(lambda: worked(state, later) and not {*joined} & {*state.snapshot.parts})
    for n in range(8, 16):  # the next join begins, and writes what it reads
        subscribe(state, n)
    until(lambda: bool(later.waiting))
    before = {part: compactor_of(state).file(part) for part in state.snapshot.parts}
    assert sum(path is not None for path in before.values()) > 1
    saves.work()
    assert {part: compactor_of(state).file(part) for part in state.snapshot.parts} == before
    assert all(path is None or path.exists() for path in before.values())
    until(lambda: worked(state, later) and not {*before} & {*state.snapshot.parts})
    assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(16))}}


def test_closing_saves_and_a_restart_goes_on_from_there(tmp_path: Path, threads: Executor) -> None:
    store = Store(tmp_path)
    state = started(store, threads)
    for n in MANY:
        subscribe(state, n, ALICE if n % 2 else BOB)
    for n in (3, 4, 5):
        subscribe(state, n, None)
    state.close()
    store.clean()
    expected = delivered(state, event(0, {"x": 1}), event(1, {"x": 2}), event(2, {}))
    assert expected[1] == {"bob": names_of(*(n for n in MANY if n % 2 == 0 and n != 4))}
    loaded = store.load(EMPTY, {0: state.version})
    assert loaded is not None
    snapshot, files, manifest = loaded
    assert manifest.positions == {0: state.version}
    again = started(store, threads, snapshot, files)
    assert again.version == state.version
    assert delivered(again, event(0, {"x": 1}), event(1, {"x": 2}), event(2, {})) == expected
    for n in (3, 4, 5, 6):
        subscribe(again, n)
    settled(again)
    assert delivered(again, event(0, {"x": 1}))[0]["alice"] == names_of(4, 6, *(n for n in MANY if n % 2))
    again.close()


def test_a_version_is_saved_once(tmp_path: Path, threads: Executor, always: None) -> None:
    store = Store(tmp_path)
    state = started(store, threads)
    subscribe(state, 0)
    settled(state)
    (manifest,) = store.directory.glob("version-*")
    written = manifest.stat().st_mtime_ns, manifest.stat().st_ino
    for _ in range(3):
        state.step()
        settled(state)
    state.close()
    (manifest,) = store.directory.glob("version-*")
    assert (manifest.stat().st_mtime_ns, manifest.stat().st_ino) == written


def test_a_version_is_saved_again_after_rejections_and_after_a_while(
    tmp_path: Path, threads: Executor, always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    state = started(store, threads)
    subscribe(state, 0)
    settled(state)

    def saved() -> tuple[Any, float]:
        whole = (
            path for path in store.directory.glob("version-*") if path.name[-1].isdigit()
        )  # and none in the making
        (manifest,) = (packing.read(path, Manifest) for path in whole)
        return manifest.positions, manifest.written_at

    (before, _) = saved()
    rejected = state.version
    state.reject([(0, rejected)])
    state.apply([], {(SUBSCRIPTIONS, 0): rejected + 1})
    settled(state)
    after, at_s = saved()
    assert (before, after) == ({0: rejected}, {0: rejected + 1})
    assert store.rejected() == set()
    monkeypatch.setattr(compaction, "AGAIN_EVERY_S", 0.0)
    until(lambda: worked(state) and saved()[1] > at_s)
    monkeypatch.undo()
    state.apply([], {(SUBSCRIPTIONS, 0): rejected + 2})
    state.close()
    assert saved()[0] == {0: rejected + 2}


def test_a_full_disk_stops_nothing_and_what_is_due_is_done_when_there_is_room(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compaction, "SAVE_EVERY_S", 0.2)
    state = started(Store(tmp_path / "state"), threads)
    room = compactor_of(state)._store.new_path

    def nowhere() -> Path:
        return tmp_path / "no such directory" / "part"

    compactor_of(state)._store.new_path = nowhere  # type: ignore[method-assign]
    for n in MANY:
        subscribe(state, n)

    def message() -> set[str]:
        state.step()
        return {record.getMessage() for record in caplog.records}

    until(lambda: {"compaction_failed", "state_save_failed"} <= message())
    compactor_of(state)._store.new_path = room  # type: ignore[method-assign]
    caplog.set_level("INFO", "sluice")
    until(lambda: "segments_compacted" in message())
    subscribe(state, 100)
    settled(state)
    assert delivered(state, event(0, {"x": 1}))[0]["alice"] == names_of(100, *MANY)
    state.close()
    assert compactor_of(state)._store.load(EMPTY, {0: state.version}) is not None


def test_a_save_that_failed_is_tried_again_without_another_change_and_tells_since_when(
    tmp_path: Path, threads: Executor, always: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sluice")
    store = Store(tmp_path / "state")
    state = started(store, threads)
    compactor = compactor_of(state)
    subscribe(state, 0)
    settled(state)
    first = compactor.saved_at
    assert first is not None
    assert compactor.unsaved_since is None
    room = store.new_path
    store.new_path = lambda: tmp_path / "no such directory" / "part"  # type: ignore[method-assign]
    subscribe(state, 1)

    def logged(message: str) -> int:
        state.step()
        return [record.getMessage() for record in caplog.records].count(message)

    until(lambda: logged("state_save_failed") > 0)
    since = compactor.unsaved_since
    assert since is not None
    assert since >= first == compactor.saved_at
    store.new_path = room
    until(lambda: logged("state_save_recovered") > 0)
    settled(state)
    assert compactor.saved_at > first
    assert compactor.unsaved_since is None
    assert store.load(EMPTY, {0: state.version}) is not None
    state.close()


def test_a_process_that_is_killed_while_it_joins_costs_nothing_but_its_time(tmp_path: Path) -> None:
    with processes(1) as pool:
        state = started(Store(tmp_path), pool)
        for n in range(6):
            subscribe(state, n)
        until(lambda: bool(multiprocessing.active_children()))
        held = state.snapshot.parts[: compactor_of(state).frozen]
        assert held
        for child in multiprocessing.active_children():
            child.kill()
        until(lambda: worked(state) and not {*held} & {*state.snapshot.parts})
        assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(6))}}
        state.close()


def test_a_process_that_is_killed_again_and_again_ends_the_job_for_now(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = started(Store(tmp_path / "state"), threads)

    def killed(*_: object) -> None:
        raise BrokenProcessPool("terminated abruptly")

    monkeypatch.setattr(building, "join", killed)
    with pytest.raises(ProcessLost) as lost:  # noqa: PT012
        for n in MANY:
            subscribe(state, n)
        settled(state)
    assert lost.value.retry


def test_a_damaged_file_is_not_compacted_and_ends_the_job_for_now(tmp_path: Path, later: Later) -> None:
    """Merged, the damage would get a checksum of its own."""
    state = started(Store(tmp_path), later)
    for n in range(6):
        subscribe(state, n)
    until(lambda: bool(later.waiting))
    for path in parts_of(compactor_of(state)._store):
        content = bytearray(path.read_bytes())
        arrays = len(flat_file.MAGIC) + 8 + int.from_bytes(content[len(flat_file.MAGIC) :][:4], "little")
        content[arrays:] = bytes(byte ^ 1 for byte in content[arrays:])  # most bytes are padding
        path.write_bytes(content)
    with pytest.raises(StorageFailed, match="is damaged") as damaged:
        until(lambda: worked(state, later) and False)
    assert damaged.value.retry


def test_a_compaction_that_cannot_be_shared_leaves_no_file(
    tmp_path: Path, threads: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    def away(path: Path) -> None:
        raise StorageFailed("the file system is away")

    store = Store(tmp_path)
    state = State(EMPTY, Value, {(SUBSCRIPTIONS, 0): 0}, compactor=Compactor(store, threads, None, away))
    for n in range(6):
        subscribe(state, n)
    until(lambda: worked(state) and "compaction_failed" in {record.getMessage() for record in caplog.records})
    state.close()
    assert {path.name for path in parts_of(store)} == {
        name for path in store._manifests() for name in packing.read(path, Manifest).parts
    }


def test_a_compaction_without_memory_is_tried_again(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    join, tries = building.join, []

    def starved(*given: Any) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise MemoryError
        join(*given)

    monkeypatch.setattr(building, "join", starved)
    monkeypatch.setattr(compaction, "SAVE_EVERY_S", 0.0)
    state = started(Store(tmp_path), threads)
    for n in range(6):
        subscribe(state, n)
    until(lambda: worked(state) and not state.snapshot.parts[state.snapshot.due()])
    assert "compaction_failed" in {record.getMessage() for record in caplog.records}
    state.close()


def test_one_part_more_than_fits_a_batch_is_joined_elsewhere(tmp_path: Path, threads: Executor) -> None:
    """The work of an update is bounded, however many compactions are due."""
    state = started(Store(tmp_path), threads, Snapshot(most=4))
    seen: set[Part] = set()
    for n in MANY:
        before = {*state.snapshot.parts}
        state.snapshot = state.snapshot.update([(f"s{n}", lower(parse({"x": [1]})))], frozen=compactor_of(state).frozen)
        (new,) = {*state.snapshot.parts} - before
        assert len(new.segment.ids) <= 4
        seen |= {*state.snapshot.parts}
    assert len(seen) == len(MANY)
    state.close()


def test_a_batch_does_not_wait_for_a_part_that_is_being_written(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    write = packing.write

    def slow(path: Path, thing: Any) -> None:
        writing.set()
        go_on.wait(PATIENCE_S)
        write(path, thing)

    def subscribe_several(numbers: Iterable[int]) -> None:
        for n in numbers:
            subscribe(state, n)

    state = started(Store(tmp_path), threads)
    monkeypatch.setattr(packing, "write", slow)
    try:
        batches = threading.Thread(target=subscribe_several, args=(range(9),), daemon=True)
        batches.start()
        batches.join(PATIENCE_S)
        assert not batches.is_alive()
        assert writing.wait(PATIENCE_S)
    finally:
        go_on.set()
    settled(state)
    assert delivered(state, event(0, {"x": 1})) == {0: {"alice": names_of(*range(9))}}


def test_the_state_is_saved_at_once_after_a_start_and_then_after_a_while(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a kill in the first seconds of a first start would make the next start read the whole topic."""
    monkeypatch.setattr(compaction, "SAVE_EVERY_S", PATIENCE_S)
    store = Store(tmp_path)
    state = started(store, threads)
    subscribe(state, 0)
    until(lambda: worked(state) and compactor_of(state).saved_at is not None)
    saved = store.load(EMPTY, {0: state.version})
    assert saved is not None
    first = compactor_of(state).saved_at
    subscribe(state, 1)
    settled(state)
    assert compactor_of(state).saved_at == first
    assert compactor_of(state).unsaved_since is not None
    state.close()
