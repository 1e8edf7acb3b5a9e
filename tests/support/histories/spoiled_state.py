"""A saved state whose files are spoiled, in a directory or elsewhere, and the job that starts on it."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from matchers import flat_file
from matchers.index.snapshot import Snapshot
from streaming.rows import SUBSCRIPTIONS
from streaming.state.remote import Copy
from streaming.state.store import Store
from tests.property.test_living import LaterJob, Sink
from tests.support.doubles.stage import ALICE, BOB, change
from tests.support.histories import living
from tests.unit.streaming.state.test_remote import DyingDirectory

EMPTY = Snapshot(algorithm="scan", most=4)
QUOTA = 2  # subscriptions of a subscriber
CAROL = {"subscriber": "carol", "pattern": {"x": [{"exists": True}]}}
WRONG = {"subscriber": "?", "pattern": {}}
EVENTS: list[dict[str, Any]] = [{"x": 1}, {"x": 2}, {}]
Change = tuple[str, Any, int, int]  # id, document, partition, timestamp


class Spoil(NamedTuple):
    """A fault in a file: one of them in the order of names, by a kind of KINDS; `a` and `b` are any numbers."""

    file: int
    kind: str
    a: int
    b: int


def _another_byte(content: bytes, a: int, b: int) -> bytes:
    if not content:
        return b"x"
    at = a % len(content)
    return content[:at] + bytes([content[at] ^ (b % 255 + 1)]) + content[at + 1 :]


def _another_format(content: bytes, a: int, b: int) -> bytes:
    """Write the content as another version of Sluice would have, with right checksums."""
    try:
        about, arrays = flat_file.parsed(content, "")
    except Exception:  # it is no such file, or was spoiled before
        return b"%d\n" % a + content
    about["format"] = (1_000 + b % 3, None, "9", -1)[a % 4]
    return b"".join(flat_file.laid_out(about, arrays))


def _another_header(content: bytes, a: int, b: int) -> bytes:
    """A header that says something impossible, with a checksum that is right."""
    begin = len(flat_file.MAGIC) + 8
    size = int.from_bytes(content[begin - 8 : begin - 4], "little")
    values: tuple[Any, ...] = (None, -1, "x", [], 1.5, 2**70, {})
    try:
        header = json.loads(content[begin : begin + size])
        places = [(header, name) for name in header]
        places += [(place, name) for place in header["arrays"] for name in place]
        place, name = places[a % len(places)]
        place[name] = values[b % len(values)]
        text = json.dumps(header).encode()
    except Exception:  # it is no such file, or was spoiled before
        text = b"[" * 5_000
    begins = len(text).to_bytes(4, "little") + zlib.crc32(text).to_bytes(4, "little")
    return flat_file.MAGIC + begins + text + content[begin + size :]


KINDS: dict[str, Callable[[bytes, int, int], bytes | None]] = {
    "another byte": _another_byte,
    "cut": lambda content, a, b: content[: a % max(1, len(content))],
    "empty": lambda content, a, b: b"",
    "missing": lambda content, a, b: None,
    "more": lambda content, a, b: content + b"0 7\n" * (1 + b % 9),
    "another format": _another_format,
    "another header": _another_header,
    "zeros": lambda content, a, b: bytes(len(content)),
    "no file of ours": lambda content, a, b: b"\xff\x00 0 1\n" * (1 + b % 99),
}


@dataclass
class Saved:
    """The files that a crashed job has left, and the subscriptions in force at that time."""

    world: Sink
    files: Mapping[str, bytes]
    subscriptions: dict[str, tuple[str, int]]
    version: int
    matches: list[list[str]]  # of EVENTS
    remote: bool


def _write(world: Sink, *changes: Change) -> None:
    for id, document, partition, timestamp in changes:
        log = world.topics[SUBSCRIPTIONS, partition]
        log.append(change(len(log), id, document, partition) | {"timestamp": timestamp})


def _batch(world: Sink, job: LaterJob, *changes: Change) -> None:
    _write(world, *changes)
    job.batch([row for at, log in world.topics.items() for row in log[job.state.positions.get(at, 0) :]], 100)


@contextmanager
def _started(world: Sink, directory: Path, elsewhere: Path | None) -> Iterator[LaterJob]:
    """A job on the saved state in a directory, or on a copy elsewhere that it brings to the directory."""
    with pytest.MonkeyPatch.context() as patch:
        world.install(patch)
        patch.setattr("streaming.state.compaction.Compactor.save_if_due", lambda *_: None)
        if elsewhere is not None:
            directory.mkdir(parents=True)
            patch.setattr(living, "Store", lambda local: Store(local, Copy(DyingDirectory(elsewhere), local)))
        job = LaterJob(world, EMPTY, directory)
        try:
            yield job
        finally:
            job.end()


def _matches(job: LaterJob) -> list[list[str]]:
    return [sorted(ids) for ids in job.state.snapshot.match(EVENTS)]


def _stop(job: LaterJob) -> None:
    job.later.shutdown()
    job.state.close()


@cache
def saved(remote: bool) -> Saved:
    """Two versions, and batches after them, with rejections before and after each."""
    with tempfile.TemporaryDirectory() as directory:
        return _saved(Path(directory), remote)


def _saved(directory: Path, remote: bool) -> Saved:
    world, there = Sink(quota=QUOTA), directory / "there"
    world.add_partition()
    there.mkdir(parents=True)

    def started(number: int) -> Any:
        return _started(world, directory / f"host{number}" if remote else there, there if remote else None)

    _write(world, ("kept", ALICE, 0, 1), ("moved", BOB, 1, 1), ("gone", CAROL, 2, 1))
    with started(0) as job:
        _batch(world, job, ("more", ALICE, 1, 2), ("rejected early", ALICE, 0, 2))
        _stop(job)
    with started(1) as job:
        _batch(world, job, ("gone", None, 0, 3), ("moved", CAROL, 0, 2), *((f"c{i}", CAROL, i, 3) for i in range(3)))
        _stop(job)
    with started(2) as job:
        _batch(world, job, ("rejected", ALICE, 2, 4), ("wrong", WRONG, 0, 4), ("b", BOB, 0, 4), ("kept", CAROL, 1, 4))
        _batch(world, job, ("b", None, 1, 4), ("b2", BOB, 0, 5), ("c0", BOB, 0, 5), ("rejected again", ALICE, 1, 5))
        found, version = job.subscriptions(), job.state.snapshot.version
        matches = _matches(job)
    assert {status["id"] for status in world.said() if status["status"] == "rejected"} >= {"rejected", "rejected again"}
    files = {path.name: path.read_bytes() for path in there.iterdir()}
    return Saved(world, files, found, version, matches, remote)


def start(state: Saved, directory: Path, spoils: Sequence[Spoil]) -> bool:
    """Start on the spoiled files, change something, save and start again. Returns whether the saved state was used."""
    world, there = deepcopy(state.world), directory / "there"
    there.mkdir(parents=True)
    files: dict[str, bytes | None] = dict(state.files)
    for spoil in spoils:
        name = sorted(files)[spoil.file % len(files)]
        if (content := files[name]) is not None:
            files[name] = KINDS[spoil.kind](content, spoil.a, spoil.b)
    for name, content in files.items():
        if content is not None:
            (there / name).write_bytes(content)

    def started(number: int) -> Any:
        return _started(world, directory / f"host{number}" if state.remote else there, there if state.remote else None)

    with started(0) as job:
        used = any(path.name in state.files for path in job.compactor._files.values())
        assert job.subscriptions() == state.subscriptions
        assert job.state.snapshot.version == state.version
        assert _matches(job) == state.matches
        _batch(world, job, ("later", BOB, 0, 9), ("c1", None, 1, 9))
        after = job.subscriptions()
        assert after != state.subscriptions
        _stop(job)
    with started(1) as job:
        assert job.subscriptions() == after
    return used
