"""The state on disk: saved versions are restored; damaged, foreign or outdated ones are not."""

from __future__ import annotations

import errno
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchers import flat_file
from matchers.index.snapshot import Part, Snapshot
from matchers.language.lowering import lower
from matchers.language.parsing import parse
from streaming.index import packing
from streaming.state.restore import scanned_where_unfit
from streaming.state.store import Manifest, Store
from tests.support.logged import fields_of

pytestmark = pytest.mark.kernels

EMPTY = Snapshot(algorithm="scan")
EVENTS = [{"x": x} for x in range(8)]


def grown(snapshot: Snapshot, *xs: int, remove: tuple[str, ...] = (), version: int | None = None) -> Snapshot:
    """A version more, in a part of its own."""
    more = snapshot.update([(f"s{x}", lower(parse({"x": [x]}))) for x in xs], remove, version, frozen=99)
    assert len(more.parts) == len(snapshot.parts) + bool(xs)
    return more


def saved(store: Store, snapshot: Snapshot, files: dict[Part, Path], **other: Any) -> Manifest:
    """Save as the compactor does: parts, then a manifest that names them."""
    for part in snapshot.parts:
        if part not in files:
            files[part] = store.new_path()
            packing.write(files[part], part)
    names = tuple(files[part].name for part in snapshot.parts)
    manifest = Manifest(snapshot.version, {0: snapshot.version}, 1, names, snapshot.removed, written_at=time.time())
    store.save(replace(manifest, **other))
    return manifest


def three_versions(store: Store) -> tuple[list[Snapshot], dict[Part, Path]]:
    first = grown(EMPTY, 0, 1, version=10)
    second = grown(first, 2, 3, remove=("s0",), version=20)
    third = grown(second, 4, 5, remove=("s3",), version=30)
    files: dict[Part, Path] = {}
    for snapshot in (first, second, third):
        saved(store, snapshot, files)
    return [first, second, third], files


def spoil(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)


def names(store: Store) -> list[str]:
    return sorted(path.name for path in store.directory.iterdir())


def test_what_was_saved_comes_back_and_answers_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    (*_, third), files = three_versions(store)
    loaded = Store(tmp_path / "state").load(EMPTY, {0: 30})
    assert loaded is not None
    snapshot, found, manifest = loaded
    assert (snapshot.version, snapshot.algorithm, snapshot.most) == (30, EMPTY.algorithm, EMPTY.most)
    assert (manifest.version, manifest.positions) == (30, {0: 30})
    assert snapshot.match(EVENTS) == third.match(EVENTS) == [[], ["s1"], ["s2"], [], ["s4"], ["s5"], [], []]
    assert [gone.tolist() for gone in snapshot.removed] == [[0], [1], []]
    assert tuple(found) == snapshot.parts
    assert list(found.values()) == [files[part] for part in third.parts]


def test_a_version_of_nothing_is_a_version(tmp_path: Path) -> None:
    store = Store(tmp_path)
    saved(store, EMPTY.of([], 7), {})
    loaded = store.load(EMPTY, {0: 7})
    assert loaded is not None
    assert (loaded[0].version, loaded[0].parts, loaded[1]) == (7, (), {})


def test_the_last_two_manifests_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    three_versions(store)
    assert [name for name in names(store) if name.startswith("version")] == [f"version-{v:020d}" for v in (20, 30)]


def test_rejected_changes_that_the_oldest_manifest_does_not_have_are_remembered(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (*_, third), files = three_versions(store)
    store.reject([(0, 29), (0, 30), (0, 39), (0, 40), (1, 0)])
    saved(store, third.of([], 40), files)
    assert store.rejected() == {(0, 30), (0, 39), (0, 40), (1, 0)}


def test_a_version_that_is_saved_again_takes_the_place_of_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (_, _, third), files = three_versions(store)
    saved(store, third, files, positions={0: 29})
    loaded = store.load(EMPTY, {0: 30})
    assert loaded is not None
    assert loaded[2].positions == {0: 29}
    assert [name for name in names(store) if name.startswith("version")] == [f"version-{v:020d}" for v in (20, 30)]


SPOILT: dict[str, Callable[[Path], object]] = {
    "another byte": spoil,
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-64]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize(
    ("spoilt", "left"),
    [
        (["version 30"], 20),
        (["part 30"], 20),
        (["version 30", "version 20"], None),
        (["version 30", "part 20"], None),
        (["part 10"], None),  # both versions have it
    ],
    ids=str,
)
def test_of_what_is_spoiled_the_version_before_it_is_used(
    spoil: Callable[[Path], None], spoilt: list[str], left: int | None, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    versions, files = three_versions(store)
    for kind, version in map(str.split, spoilt):
        number = int(version)
        part = versions[number // 10 - 1].parts[-1]
        spoil(files[part] if kind == "part" else tmp_path / f"version-{number:020d}")
    loaded = store.load(EMPTY, {0: 30})
    assert (loaded and loaded[0].version) == left
    if loaded:
        assert loaded[0].match(EVENTS) == versions[1].match(EVENTS)
    store.clean()  # a spoiled manifest does not keep the job from going on
    again = store.load(EMPTY, {0: 30})
    assert (again and again[0].version) == left
    store.delete({})


def test_rejections_since_a_version_that_is_too_old_to_be_used_are_forgotten(tmp_path: Path) -> None:
    store, files = Store(tmp_path), dict[Part, Path]()
    first = grown(EMPTY, 0, version=10)
    saved(store, first, files, written_at=time.time() - 25 * 3600)
    store.reject([(0, 15), (0, 25)])
    second = grown(first, 1, version=20)
    saved(store, second, files)
    assert store.rejected() == {(0, 25)}
    assert len([*tmp_path.glob("version-*")]) == 1


@pytest.mark.parametrize(
    ("last", "committed", "left"),
    [
        ({}, {0: 30}, 30),
        ({}, {0: 29}, 20),
        ({}, {0: 19}, None),
        ({}, {}, None),
        ({"positions": {0: 20, 1: 10}}, {0: 30, 1: 10}, 30),
        ({"positions": {0: 20, 1: 10}}, {0: 30, 1: 9}, 20),
        ({"positions": {0: 20, 1: 10}}, {0: 30}, 20),
        ({"positions": {}}, {}, 30),
        ({"shards": 2}, {0: 30}, 20),
        pytest.param({"age_s": 23 * 3600}, {0: 30}, 30, id="23 hours old"),
        pytest.param({"age_s": 25 * 3600}, {0: 30}, 20, id="25 hours old"),
        pytest.param({"age_s": -30}, {0: 30}, 30, id="by a clock ahead by half a minute"),
        pytest.param({"age_s": -3600}, {0: 30}, 20, id="by a clock ahead by an hour"),
    ],
    ids=str,
)
def test_a_version_that_does_not_fit_is_not_used(
    last: dict[str, Any], committed: dict[int, int], left: int | None, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    (_, _, third), files = three_versions(store)
    others = {name: value for name, value in last.items() if name != "age_s"}
    saved(store, third, files, written_at=time.time() - last.get("age_s", 0), **others)
    loaded = store.load(EMPTY, committed)
    assert (loaded and loaded[0].version) == left


def test_time_passes_for_saved_versions(tmp_path: Path) -> None:
    store = Store(tmp_path)
    three_versions(store)
    assert store.load(EMPTY, {0: 30}, now=time.time() + 23 * 3600) is not None
    assert store.load(EMPTY, {0: 30}, now=time.time() + 25 * 3600) is None


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (Snapshot(algorithm="scan"), "counting"),  # until the kernels of `counting` are compiled
        (Snapshot(algorithm="counting"), ""),
        (Snapshot(algorithm="ocm"), "counting"),
        (Snapshot(algorithm="ocm", options={"bits": 8}), "ocm"),
    ],
    ids=["stand-in", "the same", "another", "other options"],
)
def test_a_job_with_another_algorithm_or_other_options_scans_what_was_saved_until_it_is_indexed_anew(
    other: Snapshot, kept: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    snapshot = grown(Snapshot(algorithm=kept or "counting"), 0, 1, 2, version=30)
    saved(store, snapshot, {})
    loaded = store.load(other, {0: 30})
    assert loaded is not None
    usable = scanned_where_unfit(loaded[0])
    assert [part.algorithm for part in usable.parts] == ["scan" if kept else "counting"]
    assert usable.match(EVENTS) == snapshot.match(EVENTS)
    due = usable.parts[usable.due()]
    assert len(due) == (usable.algorithm != usable.parts[0].algorithm)


def test_a_state_that_another_version_of_sluice_saved_is_not_opened_and_gives_way_to_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(packing, "_FORMAT", packing._FORMAT - 1)
        three_versions(store)
    assert store.load(EMPTY, {0: 30}) is None  # so all of the topic is read
    store.clean()
    fields = [fields_of(record) for record in caplog.records]
    assert [f["file"] for f in fields] == [f"version-{v:020d}" for v in (30, 20)]
    assert all(f["error"].endswith("was written by another version") for f in fields)
    saved(store, grown(EMPTY, 6, version=40), {})
    loaded = store.load(EMPTY, {0: 40})
    assert loaded is not None
    assert loaded[0].version == 40
    store.clean()
    assert [name[-2:] for name in names(store) if name.startswith("version")] == ["40"]


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("target", ["version", "part"])
@pytest.mark.parametrize("form", [3, 4, 5])
def test_a_program_in_the_place_of_saved_state_does_not_run_and_gives_way_to_a_new_state(
    form: int, target: str, tmp_path: Path
) -> None:
    store, ran = Store(tmp_path / "state"), tmp_path / "ran"
    _, files = three_versions(store)
    bomb = pickle.dumps(Bomb(ran), 5)
    for path in [*files.values()] if target == "part" else store.directory.glob("version-*"):
        flat_file.write(path, {"format": form}, {"0": np.frombuffer(bomb, np.uint8)})
    assert store.load(EMPTY, {0: 30}) is None  # so all of the topic is read
    assert not ran.exists()
    store.forget()
    saved(store, grown(EMPTY, 6, version=40), {})
    loaded = store.load(EMPTY, {0: 40})
    assert loaded is not None
    assert loaded[0].match(EVENTS)[6] == ["s6"]
    pickle.loads(bomb)
    assert ran.exists()


def test_a_part_in_the_place_of_a_manifest_is_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (*_, third), files = three_versions(store)
    (tmp_path / f"version-{30:020d}").write_bytes(files[third.parts[0]].read_bytes())
    loaded = store.load(EMPTY, {0: 30})
    assert loaded is not None
    assert loaded[2].version == 20


def test_what_a_crash_left_is_cleaned_and_what_manifests_name_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (first, second, third), files = three_versions(store)
    before = names(store)
    assert len(before) == 2 + 3 + 1
    packing.write(store.new_path(), first.parts[0])  # written, and no manifest names it yet
    (tmp_path / f"{store.new_path().name}.17.part").write_bytes(b"half")
    (tmp_path / f"version-{40:020d}.17.part").write_bytes(b"half")
    (tmp_path / "slice-1").write_bytes(b"left")
    assert len(names(store)) == len(before) + 4
    store.clean()
    assert names(store) == before
    loaded = store.load(EMPTY, {0: 20})
    assert loaded is not None
    assert loaded[0].match(EVENTS) == second.match(EVENTS)
    assert files.keys() == {*third.parts}


def test_retired_parts_go_once_no_manifest_names_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (_, second, third), files = three_versions(store)
    part = third.parts[1]
    lasting = third.of([(third.parts[0], third.removed[0])], 40)
    assert store.delete({part: files[part]}) == []
    saved(store, lasting, files)
    assert store.delete({part: files[part]}) == []  # version 30 has it
    assert files[part].exists()
    saved(store, lasting.of([(lasting.parts[0], np.empty(0, np.int32))], 50), files)
    assert store.delete({part: files[part]}) == [part]
    assert not files[part].exists()
    assert store.delete({part: files[part]}) == [part]  # gone before, as after a failure between two parts
    assert files[third.parts[0]].exists()
    loaded = store.load(EMPTY, {0: 50})
    assert loaded is not None
    assert loaded[0].version == 50
    assert second.match(EVENTS) == [[], ["s1"], ["s2"], ["s3"], [], [], [], []]  # its readers keep what they have


def test_a_query_that_begins_anew_finds_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    three_versions(store)
    store.forget()
    assert names(store) == ["rejected"]
    assert store.load(EMPTY, {0: 30}) is None


def test_a_manifest_that_was_spoiled_is_not_one_of_those_that_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (_, _, third), files = three_versions(store)
    spoil(tmp_path / "version-00000000000000000030")
    saved(store, grown(third, 6, version=40), files)
    assert sorted(path.name[-2:] for path in tmp_path.glob("version-*")) == ["20", "40"]


def test_a_manifest_that_cannot_be_opened_for_want_of_descriptors_keeps_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    (_, _, third), files = three_versions(store)
    before = names(store)

    def scarce(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("streaming.state.store.packing.read", scarce)
        save = partial(saved, store, grown(third, 6, version=40), files)
        for work in (store.clean, partial(store.delete, files), save):
            with pytest.raises(OSError, match="Too many open files"):
                work()
    assert {*names(store)} >= {*before}
    loaded = store.load(EMPTY, {0: 40})
    assert loaded is not None
    assert loaded[0].version == 40


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_without_what_was_rejected_no_version_is_used(
    spoil: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Changes after it would count that were rejected; statuses tell of these when all of the topic is read."""
    store = Store(tmp_path)
    three_versions(store)
    store.reject([(0, 29), (0, 31)])
    spoil(tmp_path / "rejected")
    again = Store(tmp_path)
    assert again.load(EMPTY, {0: 30}) is None
    assert [fields_of(record)["file"] for record in caplog.records] == ["rejected"]
    again.forget()
    again.reject([(0, 33)])
    saved(again, grown(EMPTY, 6, version=32), {})
    store = Store(tmp_path)
    assert store.rejected() == {(0, 33)}
    loaded = store.load(EMPTY, {0: 32})
    assert loaded is not None
    assert loaded[0].version == 32


def test_a_version_that_was_checked_by_other_bounds_is_not_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path, bounds=7)
    saved(store, grown(EMPTY, 0, version=10), {}, bounds=7)
    assert Store(tmp_path, bounds=7).load(EMPTY, {0: 30}) is not None
    assert Store(tmp_path).load(EMPTY, {0: 30}) is None
    assert [fields_of(record)["reason"] for record in caplog.records] == ["subscriptions.tenants has changed"]
