"""Parts that come back from bytes and from files answer as before, and a spoiled file is refused."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from matchers import MatchingError, flat_file
from matchers.language import parse
from matchers.lowering import lower
from matchers.segment import Segment
from matchers.snapshot import Part, Snapshot
from streaming import packing
from streaming.notes import notes
from streaming.subscriptions import Subscription
from tests import workloads
from tests.property.test_matching import SMALL

pytestmark = pytest.mark.kernels

NAMES = ["scan", "tiles", "tiles, small", "hem", "hem, small", "tama"]
NONE = np.empty(0, np.int32)


def some_part(name: str, n: int = 40) -> Part:
    r = Random(5)
    algorithm, options = SMALL[name]
    lowered = [(f"s{i}", lower(parse(workloads.pattern(r)))) for i in range(n)]
    about = notes([Subscription(id, f"owner{i % 3}", i or None) for i, (id, _) in enumerate(lowered)])
    return Part.of(Segment.build(lowered, about), algorithm, options)


def answers(part: Part, removed: Any = NONE) -> list[list[str]]:
    r = Random(6)
    return Snapshot().of([(part, removed)], 1).match([workloads.event(r) for _ in range(30)])


def arrays_of(thing: Any, name: str = "part") -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(thing, np.ndarray):
        yield name, thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from arrays_of(value, f"{name}.{key}")
    elif isinstance(thing, tuple | list):
        for i, value in enumerate(thing):
            yield from arrays_of(value, f"{name}.{i}")
    elif is_dataclass(thing):
        for key in {f.name for f in fields(thing)} | {*getattr(thing, "__dict__", ())}:
            yield from arrays_of(getattr(thing, key), f"{name}.{key}")


@pytest.mark.parametrize("name", NAMES)
def test_a_part_comes_back_from_bytes_and_from_a_file_and_matches_the_same(name: str, tmp_path: Path) -> None:
    part = some_part(name)
    packing.write(tmp_path / "part", part)
    expected = answers(part)
    assert sum(map(len, expected)) > 30
    removed = np.array([0, 3, 39], np.int32)
    for back in (
        packing.from_bytes(packing.as_bytes(part)),
        packing.read(tmp_path / "part"),
        packing.read(tmp_path / "part", check=True),
    ):
        assert answers(back) == expected
        assert answers(back, removed) == [[id for id in ids if id not in ("s0", "s3", "s39")] for ids in expected]
        assert list(back.segment.notes["subscriber"]) == list(part.segment.notes["subscriber"])
        assert back.segment.notes["expires_at_ms"].tolist() == part.segment.notes["expires_at_ms"].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_came_back_are_read_only_and_of_the_same_types(name: str, tmp_path: Path) -> None:
    """Kernels are compiled for each type of array, so another one would hold up the first batch."""
    part = some_part(name)
    packing.write(tmp_path / "part", part)
    built = dict(arrays_of(part))
    for back in (packing.from_bytes(packing.as_bytes(part)), packing.read(tmp_path / "part")):
        found = dict(arrays_of(back))
        assert found.keys() >= {
            "part.segment.table.low",
            "part.segment.ids._table.0",
            "part.segment.vocabulary.coded.0",
        }
        assert found.keys() == built.keys()
        for at, array in found.items():
            assert not array.flags.writeable, at
            assert array.dtype == built[at].dtype, at
            assert array.flags.c_contiguous, at


@pytest.mark.parametrize("name", ["scan", "tiles"])
def test_a_part_of_nothing_comes_back_and_matches_nothing(name: str, tmp_path: Path) -> None:
    part = some_part(name, n=0)
    packing.write(tmp_path / "part", part)
    assert answers(packing.read(tmp_path / "part", check=True)) == [[]] * 30
    assert answers(packing.from_bytes(packing.as_bytes(part))) == [[]] * 30


def test_threads_that_pack_one_part_write_the_same(tmp_path: Path) -> None:
    part = some_part("scan")
    threads = [threading.Thread(target=packing.write, args=(tmp_path / f"part{i}", part)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_every_flipped_byte_of_a_file_is_noticed(tmp_path: Path) -> None:
    """All but the zeros that fill up an array, which say nothing."""
    path = tmp_path / "thing"
    thing = {"a": np.arange(5), "none": np.empty(0, np.int32), "text": "so"}
    packing.write(path, thing)
    whole = path.read_bytes()
    unnoticed = []
    for at in range(len(whole)):
        for flip in (0x01, 0x10, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                packing.read(path, check=True)
            except MatchingError:
                continue
            unnoticed.append(at)
    assert {whole[at : at + 1] for at in unnoticed} == {b"\0"}
    path.write_bytes(whole)
    assert packing.read(path, check=True)["a"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("left", [0, 8, 16, 17, 200, -64, -1])
def test_a_truncated_part_is_refused(left: int, tmp_path: Path) -> None:
    packing.write(tmp_path / "part", some_part("tiles"))
    (tmp_path / "part").write_bytes((tmp_path / "part").read_bytes()[:left])
    for check in (False, True):
        with pytest.raises(MatchingError, match="part: "):
            packing.read(tmp_path / "part", check=check)


@pytest.mark.parametrize("about", [{}, {"format": 0}, {"format": 99}, {"algorithm": "tiles"}])
def test_a_file_of_another_format_is_refused_before_it_is_unpacked(about: dict[str, Any], tmp_path: Path) -> None:
    flat_file.write(tmp_path / "part", about, {"0": np.frombuffer(b"no pickle", np.uint8)})
    with pytest.raises(MatchingError, match="part: was written by another version"):
        packing.read(tmp_path / "part", check=True)


def test_what_cannot_be_packed_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        packing.write(tmp_path / "part", lambda: None)
    assert not list(tmp_path.iterdir())
