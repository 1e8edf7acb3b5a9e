"""Packed parts answer as before when loaded from bytes or files; a damaged file is rejected."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from matchers import ALGORITHMS, Matcher, MatchingError, flat_file
from matchers.algorithms import auto
from matchers.algorithms.auto.choosing import Choice
from matchers.algorithms.auto.repeated import Once
from matchers.contract.matcher import AdaptiveMatcher, RatedMatcher
from matchers.index import stored
from matchers.index.segment import Segment
from matchers.index.snapshot import Part, Snapshot
from matchers.language import operators
from matchers.language.lowering import lower
from matchers.language.model import ABSENT, Absent
from matchers.language.parsing import parse
from matchers.papers import pem
from streaming.documents.subscriptions import Subscription
from streaming.index import packing
from streaming.index.notes import notes
from tests.property.test_matching import SMALL
from tests.support.doubles.stage import places
from tests.support.generators import workloads

pytestmark = pytest.mark.kernels

NAMES = ["scan", "tiles", "tiles, small", "hem", "hem, small", "tama"]
NONE = np.empty(0, np.int32)


def some_part(name: str, n: int = 40) -> Part:
    r = Random(5)
    algorithm, options = SMALL[name]
    lowered = [(f"s{i}", lower(parse(workloads.pattern(r)))) for i in range(n)]
    about = notes([Subscription(id, f"owner{i % 3}", i or None) for i, (id, _) in enumerate(lowered)], *places(n))
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
        packing.from_bytes(packing.as_bytes(part), Part),
        packing.read(tmp_path / "part", Part),
        packing.read(tmp_path / "part", Part, check=True),
    ):
        assert answers(back) == expected
        assert answers(back, removed) == [[id for id in ids if id not in ("s0", "s3", "s39")] for ids in expected]
        assert list(back.segment.notes["subscriber"]) == list(part.segment.notes["subscriber"])
        assert list(back.segment.notes["expires_at_ms"]) == list(part.segment.notes["expires_at_ms"])


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_came_back_are_read_only_and_of_the_same_types(name: str, tmp_path: Path) -> None:
    """Kernels are compiled for each type of array, so another one would hold up the first batch."""
    part = some_part(name)
    packing.write(tmp_path / "part", part)
    built = dict(arrays_of(part))
    for back in (packing.from_bytes(packing.as_bytes(part), Part), packing.read(tmp_path / "part", Part)):
        found = dict(arrays_of(back))
        assert found.keys() >= {
            "part.segment.table.low",
            "part.segment.ids._table.0",
            "part.segment.vocabulary.coded.0",
        }
        assert found.keys() == built.keys()
        for at, array in found.items():
            assert not array.flags.writeable, at
            assert not (at.startswith("part.matcher") and built[at].flags.writeable), at
            assert array.dtype == built[at].dtype, at
            assert array.flags.c_contiguous, at


@pytest.mark.parametrize("name", ["scan", "tiles"])
def test_a_part_of_nothing_comes_back_and_matches_nothing(name: str, tmp_path: Path) -> None:
    part = some_part(name, n=0)
    packing.write(tmp_path / "part", part)
    assert answers(packing.read(tmp_path / "part", Part, check=True)) == [[]] * 30
    assert answers(packing.from_bytes(packing.as_bytes(part), Part)) == [[]] * 30


def test_threads_that_pack_one_part_write_the_same(tmp_path: Path) -> None:
    part = some_part("scan")
    threads = [threading.Thread(target=packing.write, args=(tmp_path / f"part{i}", part)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_every_flipped_byte_of_a_file_is_noticed(tmp_path: Path) -> None:
    """Every byte counts but the zeros that fill up an array."""
    path = tmp_path / "thing"
    thing = {"a": np.arange(5), "none": np.empty(0, np.int32), "text": "so"}
    packing.write(path, thing)
    whole = path.read_bytes()
    unnoticed = []
    for at in range(len(whole)):
        for flip in (0x01, 0x10, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                packing.read(path, dict, check=True)
            except MatchingError:
                continue
            unnoticed.append(at)
    assert {whole[at : at + 1] for at in unnoticed} == {b"\0"}
    path.write_bytes(whole)
    assert packing.read(path, dict, check=True)["a"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("left", [0, 8, 16, 17, 200, -64, -1])
def test_a_truncated_part_is_rejected(left: int, tmp_path: Path) -> None:
    packing.write(tmp_path / "part", some_part("tiles"))
    (tmp_path / "part").write_bytes((tmp_path / "part").read_bytes()[:left])
    for check in (False, True):
        with pytest.raises(MatchingError, match="part: "):
            packing.read(tmp_path / "part", Part, check=check)


@pytest.mark.parametrize("about", [{}, {"format": 0}, {"format": 99}, {"algorithm": "tiles"}])
def test_a_file_of_another_format_is_rejected_before_it_is_unpacked(about: dict[str, Any], tmp_path: Path) -> None:
    flat_file.write(tmp_path / "part", about, {"0": np.frombuffer(b"no part", np.uint8)})
    with pytest.raises(MatchingError, match="part: was written by another version"):
        packing.read(tmp_path / "part", Part, check=True)


def test_what_cannot_be_packed_leaves_no_file(tmp_path: Path) -> None:
    for thing in (lambda: None, threading.Lock(), {"a": np.array([None])}, {"a": Path("b")}, {"a": np.array(["b"])}):
        with pytest.raises(TypeError, match="cannot be stored"):
            packing.write(tmp_path / "part", thing)
    assert not list(tmp_path.iterdir())


def test_what_residuals_and_notes_hold_comes_back_equal() -> None:
    patterns = [
        {"a": [{"wildcard": "x*y*z"}], "b": [{"anything-but": {"wildcard": "*é*"}}]},
        {"a": [{"anything-but": [1, "x", None, True]}], "c": [{"wildcard": "ä*a*b"}]},
        {"e": [{"compare-field": [">", ["f", "é"], "<", "g"]}]},
        {"$or": [{"d": [{"cidr": "10.0.0.0/8"}]}, {"d": [{"wildcard": "a*b*"}]}]},
    ]
    lowered = [(f"s{i}", lower(parse(pattern))) for i, pattern in enumerate(patterns)]
    segment = Segment.build(lowered, {"other": np.arange(4)}).prepared()
    assert len(segment.residuals) >= 4
    back = packing.from_bytes(packing.as_bytes(segment), Segment)
    assert back.residuals == segment.residuals
    assert back.vocabulary.columns == segment.vocabulary.columns
    assert back.vocabulary.cuts == segment.vocabulary.cuts


VALUES: list[Any] = [
    *(None, True, 0, -1, 10**40, 0.5, float("inf"), "", "\ud800é", b"", b"\x00\xff", (), [], {}, range(2, 9, 3)),
    *((1, (2, [3, {"a": b"b", 4: None}])), (b"", b"ab", b"c"), [b"a"], ABSENT, {("a", "b"): ((b"a",), ())}),
    *(np.int64(3), np.float64(-0.0), np.bool_(True)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    (back,) = packing.from_bytes(packing.as_bytes([value]), list)
    assert (repr(back), type(back)) == (repr(value), type(value))


def test_an_array_that_is_held_twice_is_written_once_and_shared() -> None:
    a = np.arange(1000).reshape(10, 100)
    packed = packing.as_bytes((a, {"again": a}, a[:0], np.array([(1, 0.5)], [("n", "<i4"), ("x", "<f8")])))
    assert len(packed) < 2 * a.nbytes
    first, mapping, none, records = packing.from_bytes(packed, tuple)
    assert mapping["again"] is first
    assert (first.tolist(), none.shape) == (a.tolist(), (0, 100))
    assert (records["n"].tolist(), records["x"].tolist()) == ([1], [0.5])


def test_a_choice_comes_back_with_the_short_ways_of_what_was_chosen(tmp_path: Path) -> None:
    part = some_part("scan", 90)
    scan, tiles = (ALGORITHMS[name](part.segment.table) for name in ("scan", "tiles"))
    choices = (Choice(1, 2.0, "tiles", 3.5), Choice(64, 2.0, "scan", 0.5), Choice(64, 9.0, "tiles", 1.0))
    chosen = Part(part.segment, auto.Auto(choices, (tiles, scan), "tiles alone, else scan"), "auto", {})
    packing.write(tmp_path / "part", chosen)
    found = packing.read(tmp_path / "part", Part).matcher
    assert isinstance(found, auto.Auto)
    assert (found.choices, found.about) == (choices, "tiles alone, else scan")
    assert len(found.matchers) == 2
    assert found.alone().__qualname__ == tiles.alone().__qualname__
    assert answers(Part(part.segment, found, "auto", {})) == answers(part)
    assert packing.size(chosen) < packing.size(Part(part.segment, tiles, "tiles", {})) + packing.size(
        Part(part.segment, scan, "scan", {})
    )


def test_what_changes_while_it_matches_has_arrays_that_can() -> None:
    balance = pem.Balance((0.5,), np.ones(4))
    back = packing.from_bytes(packing.as_bytes(balance), pem.Balance)
    back.restart((0.7,))
    assert (back.splits, back.times.tolist(), back.lock.locked()) == ((0.7,), [0.0] * 4, False)


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("matchers."):
        yield hint
    for inner in get_args(hint):
        yield from classes_in(inner)


def test_every_matcher_and_all_that_a_part_holds_may_be_stored() -> None:
    storable = stored.known(papers=True).classes
    for kind in storable:
        for hint in get_type_hints(kind).values():
            for inner in classes_in(hint):
                known = getattr(inner, "_is_protocol", False) or [
                    c for c in (*storable, Absent) if issubclass(c, inner)
                ]
                assert known, f"{kind.__name__} holds a {inner.__name__}"
    kinds = {RatedMatcher, AdaptiveMatcher}
    direct = {c for kind in (Matcher, *kinds) for c in kind.__subclasses__()} - kinds
    matchers = {
        c
        for c in direct
        if c.__module__.split(".")[2] in ALGORITHMS
        and c.__module__.startswith(("matchers.algorithms.", "matchers.papers."))
    }
    assert len(matchers - {Once}) == len(ALGORITHMS.keys() - {"translator"})  # these two hold the matcher of another
    assert matchers <= storable
    terms = {c for c in vars(operators).values() if is_dataclass(c) and c.__module__ == operators.__name__}
    assert terms <= storable


def test_names_in_files_are_of_classes_that_may_be_stored_and_each_is_of_one() -> None:
    classes = stored.known(papers=True).classes
    assert stored.NAMES_IN_FILES.keys() <= {f"{kind.__module__}.{kind.__qualname__}" for kind in classes}
    assert len(set(map(stored.name_of, classes))) == len(classes)


LIES: dict[str, tuple[list[Any], Any]] = {
    "a class that is not named": ([["pathlib.Path", "a"]], [0, 1]),
    "a class of the standard library": ([["subprocess.Popen", "args"]], [0, "true"]),
    "a field that there is not": ([["matchers.index.texts.Texts", "text", "start", "at"]], [0, 1, 2, 3]),
    "a field too few": ([["matchers.index.texts.Texts", "text"]], [0, 1]),
    "a value too few": ([["matchers.index.texts.Texts", "text", "start"]], [0, 1]),
    "a layout that there is not": ([], [0, 1]),
    "a tag that there is not": ([], ["call", "os.system", "true"]),
    "a function that is not named": ([], ["function", "os.system"]),
    "an array that there is not": ([], ["array", "a", [1], None]),
    "an array of objects": ([], ["array", "b", [1], [["x", "|O"]]]),
    "an array of another size": ([], ["array", "b", [99], None]),
    "what was never met": ([], ["again", 0]),
    "a list of nothing": ([], []),
    "another class": ([], ["tuple"]),
    "depth": ([], json.loads("[" * 90 + "]" * 90)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_says_what_is_not_so_is_rejected(lie: str, tmp_path: Path) -> None:
    layouts, tree = LIES[lie]
    about = {"format": packing._FORMAT, "layouts": layouts, "tree": tree}
    flat_file.write(tmp_path / "part", about, {"b": np.zeros(8, np.uint8)})
    with pytest.raises(MatchingError, match=r"part: .*; it is corrupted or was written by another version"):
        packing.read(tmp_path / "part", Part, check=True)
