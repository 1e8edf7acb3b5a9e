"""Named arrays in one file are read back as written; damaged files are rejected."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from matchers import MatchingError
from matchers.flat_file import ALIGN, MAGIC, read, write

ARRAYS: dict[str, np.ndarray] = {
    "none": np.zeros(0, np.int64),
    "small": np.arange(3, dtype=np.uint8),
    "words": np.arange(100, dtype=np.uint64) << np.uint64(40),
    "values": np.array([np.inf, -0.0, 5e-324, 1.5]),
}


def written(path: Path) -> Path:
    write(path, {"kind": "ä test", "n": 3}, ARRAYS)
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    about, arrays = read(written(tmp_path / "index"))
    assert about == {"kind": "ä test", "n": 3}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].tobytes() == array.tobytes()


def test_arrays_are_mapped_read_only_and_aligned(tmp_path: Path) -> None:
    _, arrays = read(written(tmp_path / "index"))
    for array in arrays.values():
        base: np.ndarray | None = array
        while not isinstance(base, np.memmap):
            assert base is not None
            base = base.base
        assert not array.flags.writeable
        assert array.flags.aligned
        assert array.ctypes.data % ALIGN == 0 or not len(array)


def test_no_arrays_at_all(tmp_path: Path) -> None:
    write(tmp_path / "index", {}, {})
    assert read(tmp_path / "index") == ({}, {})


def test_writing_replaces_the_file_and_leaves_no_part(tmp_path: Path) -> None:
    path = written(tmp_path / "index")
    _, before = read(path)
    write(path, {}, {"other": np.zeros(5)})
    assert before["words"].tolist() == ARRAYS["words"].tolist()  # who has mapped the old one keeps it
    assert list(read(path)[1]) == ["other"]
    with pytest.raises(TypeError):
        write(path, {"no JSON": object()}, {})
    assert list(read(path)[1]) == ["other"]
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_a_file_that_is_written_twice_at_a_time_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"

    def write_meanwhile(descriptor: int) -> None:
        monkeypatch.undo()
        write(path, {}, {"other": np.zeros(5)})

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    written(path)
    assert read(path, check=True)[0] == {"kind": "ä test", "n": 3}
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("left", [0, 1, 7, 8, 9, 15, 16, 17, 100, -64, -1])
def test_a_file_that_was_cut_off_is_rejected(left: int, tmp_path: Path) -> None:
    path = written(tmp_path / "index")
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(MatchingError, match=r"index: .*(not a saved index|save the index again)"):
        read(path)


def header(content: object) -> bytes:
    return raw_header(json.dumps(content).encode())


def raw_header(text: bytes) -> bytes:
    return MAGIC + len(text).to_bytes(4, "little") + zlib.crc32(text).to_bytes(4, "little") + text


FOREIGN = {
    "a text": b"hello, world, this is no index",
    "another version": MAGIC[:-1] + b"\x01" + bytes(100),
    "a header of no length": MAGIC + bytes(100),
    "a header beyond the end": MAGIC + b"\xff" * 100,
    "a header that is no JSON": raw_header(b"\xff" * 20),
    "a header with another checksum": MAGIC + (2).to_bytes(4, "little") + bytes(4) + b"{}",
    "a header that is a list": header([1]),
    "a header that lacks its fields": header({"bytes": 0}),
    "an array beyond the end": header(
        {"about": {}, "bytes": 0, "checksum": 0, "arrays": [{"name": "a", "type": "<f8", "length": 9, "at": 0}]}
    ),
    "an array whose length is a text": header(
        {"about": {}, "bytes": 0, "checksum": 0, "arrays": [{"name": "a", "type": "<f8", "length": "x", "at": 0}]}
    ),
    "an array whose name is a list": header(
        {"about": {}, "bytes": 0, "checksum": 0, "arrays": [{"name": [], "type": None, "length": 0, "at": 0}]}
    ),
    "content that is a list": header({"about": [1], "bytes": 0, "checksum": 0, "arrays": []}),
    "an array of no type": header(
        {"about": {}, "bytes": 0, "checksum": 0, "arrays": [{"name": "a", "type": "?!", "length": 0, "at": 0}]}
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_something_else_is_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(MatchingError, match=r"index: .*(not a saved index|save the index again)"):
        read(path)


def test_a_file_that_is_not_there_is_an_OSError(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "index")


@pytest.mark.parametrize("name", ["words", "values", "small"])
def test_a_check_notices_one_changed_bit_of_an_array(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "index")
    whole = bytearray(path.read_bytes())
    whole[whole.index(ARRAYS[name].tobytes())] ^= 4
    path.write_bytes(whole)
    read(path)
    with pytest.raises(MatchingError, match="index: its checksum is wrong"):
        read(path, check=True)


def test_a_header_is_checked_always(tmp_path: Path) -> None:
    path = written(tmp_path / "index")
    whole = path.read_bytes()
    for at in range(whole.index(b"values") + 6):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(MatchingError, match=r"index: .*(not a saved index|save the index again)"):
            read(path)
