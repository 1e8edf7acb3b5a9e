"""The copy of the saved state elsewhere: another process has it, whenever the one before it was killed."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError

from config import Settings
from matchers.index.snapshot import Part, Snapshot
from streaming.driver import assembly
from streaming.errors import Fenced, JobError, StorageFailed
from streaming.state.remote import Copy, Directory
from streaming.state.restore import Restored
from streaming.state.store import Store
from tests.unit.streaming.state.test_store import EMPTY, grown, saved


class Killed(BaseException):
    pass


class Raised(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """An error that Spark's JVM raised."""

    def __init__(self, exception: str) -> None:
        self.java_exception = SimpleNamespace(toString=lambda: exception)


@pytest.mark.parametrize(
    ("exception", "later"),
    [
        ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"', False),
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", False),
        ("java.lang.NoClassDefFoundError: software/amazon/awssdk/auth/credentials/AwsCredentialsProvider", False),
        ("java.net.ConnectException: listObjects() on s3a://bucket/sluice/state: Connection refused", True),
    ],
)
def test_a_file_system_that_spark_lacks_will_not_come_but_one_that_fails_may_answer_later(
    exception: str, later: bool
) -> None:
    directory = Directory.__new__(Directory)
    directory.url = "s3a://bucket/sluice"
    with pytest.raises(JobError, match="s3a://bucket/sluice: ") as raised, directory._failing():
        raise Raised(exception)
    assert raised.value.retry == later
    assert ("add the package" in str(raised.value)) != later


@dataclass
class DyingDirectory:
    """A directory. After so many writes the process is killed, in the middle of one; None: it is not."""

    directory: Path
    lives: int | None = None
    unreadable: frozenset[str] = frozenset()  # names begin so
    deletes: bool = True
    url = "there://"

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    def put(self, file: Path, name: str) -> None:
        content = file.read_bytes()
        if self._dies():
            (self.directory / name).write_bytes(content[: len(content) // 2])
            raise Killed
        (self.directory / name).write_bytes(content)

    def get(self, name: str, file: Path) -> None:
        if name.startswith(tuple(self.unreadable)):
            file.write_bytes(b"half")
            raise StorageFailed("a block of it is lost")
        shutil.copy(self.directory / name, file)

    def delete(self, name: str) -> None:
        if self._dies():
            raise Killed
        if not self.deletes:
            raise StorageFailed("it is away")
        (self.directory / name).unlink(missing_ok=True)

    def _dies(self) -> bool:
        if self.lives is None:
            return False
        self.lives -= 1
        return self.lives < 0


class Host:
    """A process that takes over: a store in a local directory of its own, and what it found."""

    def __init__(
        self, tmp_path: Path, lives: int | None = None, unreadable: frozenset[str] = frozenset(), *, owns: bool = False
    ) -> None:
        there = tmp_path / "elsewhere"
        there.mkdir(exist_ok=True)
        local = tmp_path / f"host{len(list(tmp_path.iterdir()))}"
        local.mkdir()
        self.elsewhere = DyingDirectory(there, unreadable=unreadable)
        self.owns = owns  # the query, as Kafka has it, once another process has come here
        self.store = Store(local, Copy(self.elsewhere, local, lambda: self.owns))
        self.elsewhere.lives = lives
        loaded = self.store.load(EMPTY, {0: 1_000})
        self.files: dict[Part, Path] = {} if loaded is None else loaded[1]
        self.snapshot: Snapshot = EMPTY if loaded is None else loaded[0]

    def save(self, snapshot: Snapshot) -> None:
        saved(self.store, snapshot, self.files)


FIRST = grown(EMPTY, 0, 1, version=10)
SECOND = grown(FIRST, 2, 3, remove=("s0",), version=20)
JOINED = grown(EMPTY, 1, 2, 3, version=20)  # as after a compaction: other parts of the same version
THIRD = grown(SECOND, 4, 5, version=30)


def test_another_host_has_what_was_saved(tmp_path: Path) -> None:
    one = Host(tmp_path)
    for snapshot in (FIRST, SECOND, THIRD):
        one.save(snapshot)
    one.store.reject([(0, 25), (0, 31)])
    other = Host(tmp_path)
    assert (other.snapshot.version, other.snapshot.removed[0].tolist()) == (30, [0])
    assert len(other.snapshot) == len(THIRD)
    assert other.store.rejected() == {(0, 25), (0, 31)}
    other.store.clean()
    manifests = [name for name in other.elsewhere.names() if name.startswith("version")]
    assert len(manifests) == 2
    assert len([name for name in other.elsewhere.names() if name.startswith("part")]) == 3


@pytest.mark.parametrize("then", [SECOND, JOINED], ids=["later", "joined"])
def test_a_process_that_is_killed_leaves_a_whole_version(tmp_path: Path, then: Snapshot) -> None:
    before = {10, 20} if then is SECOND else {20}
    for lives in range(100):
        directory = tmp_path / str(lives)
        directory.mkdir()
        one = Host(directory)
        one.save(FIRST)
        if then is JOINED:
            one.save(SECOND)
        one.store.reject([(0, 15), (0, 25)])
        one.elsewhere.lives = lives
        try:
            one.save(then)
            one.store.reject([(0, 26)])
        except Killed:
            pass
        other = Host(directory)
        assert other.snapshot.version in before
        assert len(other.snapshot) == (2 if other.snapshot.version == 10 else 3)
        assert {(0, 25)} <= other.store.rejected() <= {(0, 15), (0, 25), (0, 26)}
        if one.elsewhere.lives >= 0:
            assert other.snapshot.version == 20
            assert (0, 26) in other.store.rejected()
            break
        other.save(THIRD)  # what is left over does not disturb it
        assert Host(directory).snapshot.version == 30
    assert lives > 3  # each of its writes was the last one


def test_a_process_that_was_replaced_changes_nothing_any_more(tmp_path: Path) -> None:
    one = Host(tmp_path)
    one.save(FIRST)
    other = Host(tmp_path)
    other.save(SECOND)
    there = other.elsewhere.names()
    with pytest.raises(Fenced):
        one.save(THIRD)
    with pytest.raises(Fenced):
        one.store.reject([(0, 25)])
    assert other.elsewhere.names() == there
    assert Host(tmp_path).snapshot.version == 20


def test_a_process_that_was_replaced_before_it_came_here_does_not_end_its_successor(tmp_path: Path) -> None:
    Host(tmp_path).save(SECOND)
    last = Host(tmp_path, owns=True)
    last.store.reject([(0, 25)])
    replaced = Host(tmp_path)  # it claimed the query before the last one did, and comes here later
    replaced.store.reject([(0, 26)])
    replaced.save(JOINED)
    replaced.save(grown(JOINED, 6, version=21))  # which deletes the parts of SECOND
    last.save(grown(last.snapshot, 4, 5, version=30))
    with pytest.raises(Fenced):
        replaced.save(JOINED)
    with pytest.raises(Fenced):
        replaced.store.reject([(0, 27)])
    other = Host(tmp_path)
    assert (other.snapshot.version, len(other.snapshot)) == (30, len(THIRD))
    assert other.store.rejected() == {(0, 25)}
    kinds = Counter(name.partition("-")[0] for name in other.elsewhere.names())
    assert kinds == {"owner": 1, "part": 3, "rejected": 1, "version": 2}


def test_rejections_that_could_not_be_deleted_go_with_the_next_ones(tmp_path: Path) -> None:
    one = Host(tmp_path)
    one.store.reject([(0, 15)])
    one.elsewhere.deletes = False
    with pytest.raises(StorageFailed):
        one.store.reject([(0, 16)])
    one.elsewhere.deletes = True
    one.store.reject([(0, 17)])
    assert len([name for name in one.elsewhere.names() if name.startswith("rejected")]) == 1
    assert Host(tmp_path).store.rejected() == {(0, 15), (0, 16), (0, 17)}


def lent(one: Host) -> tuple[Copy, Path]:
    """A part that is in no manifest yet, and lent to executors."""
    one.save(FIRST)
    assert one.store.copy is not None
    part = one.store.new_path()
    part.write_bytes(b"a part that no manifest names yet")
    assert one.store.copy.lent(part.name) is None
    one.store.copy.lend(part)
    assert one.store.copy.lent(part.name) == f"there:///{part.name}"
    return one.store.copy, part


def test_what_executors_still_fetch_is_kept_until_it_is_given_back(tmp_path: Path) -> None:
    one = Host(tmp_path)
    copy, part = lent(one)
    copy.lend(part)
    one.save(SECOND)
    assert (one.elsewhere.directory / part.name).read_bytes() == part.read_bytes()
    copy.back(part.name)
    one.save(THIRD)
    assert part.name not in one.elsewhere.names()
    assert Host(tmp_path).snapshot.version == 30


def test_a_start_lends_the_segments_that_it_uses_and_no_others(tmp_path: Path) -> None:
    Host(tmp_path).save(SECOND)
    other = Host(tmp_path)
    used, _ = other.snapshot.parts
    restored = Restored(
        snapshot=EMPTY.of([(used, other.snapshot.removed[0])], 20),
        files=other.files,
        positions={},
        first_start=False,
        slices=(),
        chosen=(),
    )
    spark, unused = cast(Any, SimpleNamespace(master="spark://host:7077", broadcast=None)), cast(Any, None)
    assembly.state(Settings(), restored, other.store, unused, spark, None)
    assert other.store.copy is not None
    assert other.store.copy._lent == {other.files[used].name}


def test_a_part_that_a_killed_process_lent_goes_with_the_next_one(tmp_path: Path) -> None:
    one = Host(tmp_path)
    _, part = lent(one)
    Host(tmp_path).store.clean()
    assert part.name not in one.elsewhere.names()


def test_a_state_that_is_built_anew_forgets_the_copy_but_not_what_was_rejected(tmp_path: Path) -> None:
    one = Host(tmp_path)
    one.save(FIRST)
    one.store.reject([(0, 15)])
    one.store.forget()
    other = Host(tmp_path)
    assert other.snapshot is EMPTY
    assert other.store.rejected() == {(0, 15)}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0 7\n", None], ids=["empty", "no text", "lines", "missing"])
def test_rejections_that_cannot_be_read_elsewhere_mean_a_state_that_is_built_anew(
    content: bytes | None, tmp_path: Path
) -> None:
    one = Host(tmp_path)
    one.save(FIRST)
    one.store.reject([(0, 15)])
    (there,) = (tmp_path / "elsewhere").glob("rejected-*")
    there.unlink() if content is None else there.write_bytes(content)
    other = Host(tmp_path)
    assert other.snapshot is EMPTY
    other.store.forget()
    other.save(SECOND)
    assert Host(tmp_path).snapshot.version == 20


def test_a_part_that_is_missing_elsewhere_does_not_keep_the_job_from_going_on(tmp_path: Path) -> None:
    one = Host(tmp_path)
    one.save(FIRST)
    one.save(SECOND)
    (tmp_path / "elsewhere" / one.files[SECOND.parts[-1]].name).unlink()
    other = Host(tmp_path)
    assert other.snapshot.version == 10
    other.store.clean()
    other.save(THIRD)
    assert Host(tmp_path).snapshot.version == 30


def test_a_file_that_cannot_be_read_elsewhere_costs_its_version_and_not_the_start(tmp_path: Path) -> None:
    one = Host(tmp_path)
    for snapshot in (FIRST, SECOND):
        one.save(snapshot)
    newest = one.files[SECOND.parts[1]].name
    other = Host(tmp_path, unreadable=frozenset({newest}))
    assert other.snapshot.version == 10
    other.store.clean()
    assert newest not in other.elsewhere.names()


def test_rejections_that_cannot_be_read_cost_the_saved_state_and_not_the_start(tmp_path: Path) -> None:
    one = Host(tmp_path)
    one.save(FIRST)
    one.store.reject([(0, 25)])
    assert Host(tmp_path, unreadable=frozenset({"rejected"})).snapshot is EMPTY


def test_a_file_system_that_returns_no_file_at_all_is_waited_for(tmp_path: Path) -> None:
    Host(tmp_path).save(FIRST)
    with pytest.raises(StorageFailed, match="a block of it is lost"):
        Host(tmp_path, unreadable=frozenset({"part", "version"}))


def test_a_part_that_could_not_be_lent_goes_with_the_next_update(tmp_path: Path) -> None:
    one = Host(tmp_path, lives=0)
    assert one.store.copy is not None
    part = one.store.new_path()
    part.write_bytes(b"content")
    with pytest.raises(Killed):
        one.store.copy.lend(part)
    assert not one.store.copy._lent
