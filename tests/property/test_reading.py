"""The kernel reads from bytes the same values as the decoder from a document, or leaves the event to it."""

from __future__ import annotations

import json
import struct
from math import isfinite
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import Index, MatchingError
from matchers.index import skeletons
from matchers.index.fields import Fields
from matchers.index.kernels.json import DEPTH
from matchers.index.values import Values, document, joined, read_documents, read_events, read_json_values
from matchers.language.model import Path
from matchers.language.nesting import MAX_LEVELS
from matchers.library import FEW_EVENTS
from streaming.codecs import decode_event
from streaming.rows import HEADERS
from streaming.worker.events.reading import read_events as read_job_events
from tests.support.generators.strategies import json_events

pytestmark = pytest.mark.kernels
PATHS: list[Path] = [("x",), ("x", "x"), ("x", "y"), ("y", "x.y", "é"), ("x.y",), ("é", "é"), ("é", "x")]


def read(events: list[bytes], paths: list[Path]) -> tuple[Values, list[int]]:
    lengths = np.array([len(e) for e in events], np.int64)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    text = np.frombuffer(b"".join(events), np.uint8)
    values, hard = read_json_values(text, begins, ends, Fields.of(paths))
    return values, hard.tolist()


def held(values: Values, event: int) -> list[tuple[Any, ...]]:
    """Path, kind and value, each once. That a field is absent need not be said, unless an array also holds a value."""
    found = set()
    for v in range(values.offsets[event], values.offsets[event + 1]):
        path, kind = int(values.path[v]), int(values.kind[v])
        begin = int(values.start[v])
        what: Any = values.text[begin : begin + int(values.length[v])].tobytes() if kind == 5 else None
        found.add((path, kind, struct.pack("d", values.number[v] + 0.0) if kind == 4 else what))
    there = {path for path, kind, _ in found if kind}
    return sorted((entry for entry in found if entry[0] in there), key=repr)


def check(events: list[bytes], paths: list[Path]) -> int:
    """Check the values of events against their definition; return how many events the kernel read."""
    values, hard = read(events, paths)
    for number, event in enumerate(events):
        if number in hard:
            assert held(values, number) == []
            continue
        document = orjson.loads(event)
        assert isinstance(document, dict)
        expected = read_documents([document], Fields.of(paths))
        assert held(values, number) == held(expected, 0), event
        assert values.several[number] == expected.several[0], event
    return len(events) - len(hard)


written = st.builds(
    json.dumps,
    json_events,
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, None, 1]),
    separators=st.sampled_from([(",", ":"), (" , ", " : ")]),
).map(str.encode)
SPOILERS = [b"", b'"', b",", b"\\", b"0", b"}", b"]", b"e", b"\xed\xa0\x80", b"\\ud800", b"{}"]


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """An event with up to three places in which bytes are replaced, removed or put in."""
    event = draw(written)
    for by in draw(st.lists(st.sampled_from(SPOILERS) | st.binary(min_size=1, max_size=1), min_size=1, max_size=3)):
        at = draw(st.integers(0, len(event)))
        event = event[:at] + by + event[at + draw(st.integers(0, 2)) :]
    return event


@given(events=st.lists(written, min_size=1, max_size=8), paths=st.lists(st.sampled_from(PATHS), unique=True))
def test_what_is_read_from_bytes_is_what_the_document_holds(events: list[bytes], paths: list[Path]) -> None:
    check(events, paths)


@given(events=st.lists(spoiled(), min_size=1, max_size=8))
def test_spoiled_bytes_are_left_or_read_as_any_other_reader_does(events: list[bytes]) -> None:
    check(events, PATHS)


def digits(fewest: int, most: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=fewest, max_size=most)


whole = (digits(1, 25) | digits(15, 20)).map(lambda text: text.lstrip("0") or "0")
bits = st.binary(min_size=8, max_size=8).map(lambda eight: struct.unpack("d", eight)[0])
numbers = st.one_of(
    bits.filter(isfinite).map(repr),
    st.floats(-1000, 1000).map(repr),
    st.builds("{}e{}".format, whole, st.integers(-330, 330)),
    st.builds("-{}.{}".format, whole, digits(1, 12)),
    whole,
    st.builds("{}.5".format, st.integers(2**53, 2**54 - 1)),
)


@given(numbers=st.lists(numbers, min_size=1, max_size=8))
def test_numbers_are_read_to_the_last_bit(numbers: list[str]) -> None:
    check([f'{{"x": [{n}], "z": {n}}}'.encode() for n in numbers], [("x",)])


@pytest.mark.parametrize("number", ["7254656076277653429e-53", "5474601078393962203e-161", "9475014545230071786e-168"])
def test_numbers_for_which_64_bits_of_a_power_of_ten_are_not_enough(number: str) -> None:
    assert check([f'{{"x": {number}}}'.encode()], [("x",)]) == 1


@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_a_number_with_an_exponent_beyond_what_the_kernel_counts_is_left(n: int) -> None:
    event = b'{"x": 0.' + b"0" * 100_100 + b"1e100200}"
    assert check([event], [("x",)]) == 0
    assert skeletons.Skeletons.of(*skeletons.joined([event])).shape.tolist() == [-1]
    assert Index.build({"s": {"x": [1e99]}}).match([event] * n) == [["s"]] * n


TAKEN = [
    b"{}",
    b' \t\r\n{ "x" : 1 } \n',
    b'{"x": 0, "y": -0.0, "z": 1E+2}',
    b'{"x": 1.7976931348623157e280, "z": [[1, [{"x": {}}]], {}]}',
    b'{"x": [true, false, null, "a", 1]}',
    b'{"z": "\\u00e9\\ud83d\\ude00\\n\\/"}',
    '{"x": "é漢\U0010ffff", "漢": 1}'.encode(),
    b'{"y": {"x.y": 5}, "x": {"z": 1}}',
    b'{"x": [], "z": ' + b"[" * 60 + b"]" * 60 + b"}",
    b'{"x": 9007199254740993}',
    b'{"x": 0.1, "z": 123456789012345678}',
    b'{"z": 1, "z": 2}',
]
LEFT = [
    b"",
    b" ",
    b"[]",
    b"1",
    b'"x"',
    b"null",
    b"{} {}",
    b"{},",
    b"{",
    b"}",
    b'{"x"}',
    b'{"x":}',
    b'{"x":1,}',
    b'{,"x":1}',
    b'{"x":1 "y":2}',
    b'{"x":[1,]}',
    b'{"x":[,1]}',
    b'{"x":[1}',
    b'{"z":{]}',
    b"{x:1}",
    b'{"x":01}',
    b'{"x":+1}',
    b'{"x":1.}',
    b'{"x":.5}',
    b'{"x":1e}',
    b'{"x":-}',
    b'{"x":NaN}',
    b'{"x":Infinity}',
    b'{"z":tru}',
    b'{"z":truex}',
    b'{"x":"a',
    b'{"x":"\x01"}',
    b'{"z":"\\x"}',
    b'{"z":"\\ud800"}',
    b'{"z":"\\udc00"}',
    b'{"z":"\\u12g4"}',
    b'{"z":"\xff"}',
    b'{"z":"\xc0\x80"}',
    b'{"z":"\xed\xa0\x80"}',
    b'{"z":"\xf5\x80\x80\x80"}',
    b'{"z":"\xe6\xbc"}',
    b'\xef\xbb\xbf{"x":1}',
    b'{"z":1e999}',
    b'{"x":1,"x":2}',
    b'{"y":{"x.y":1},"y":{}}',
    b'{"\\u0078":1}',
    b'{"x":"\\n"}',
    b'{"x":[[1]]}',
    b'{"x":[{"x":1}]}',
    b'{"x":12345678901234567890123}',
    b'{"z":' + b"[" * 64 + b"]" * 64 + b"}",
]


def test_the_kernel_reads_as_many_levels_as_an_event_may_have() -> None:
    assert DEPTH == MAX_LEVELS


def test_what_the_kernel_takes_and_what_it_leaves() -> None:
    assert check(TAKEN, [("x",), ("y", "x.y"), ("漢",)]) == len(TAKEN)
    assert check(LEFT, [("x",), ("y", "x.y")]) == 0
    for event in [*TAKEN, *LEFT]:
        for end in range(len(event)):
            check([event[:end]], PATHS)


NASTY_TEXTS = [
    *(rb"\ud83d\ude00", rb"\ud83d", rb"\ude00", rb"\uD83D\u0041", rb"\\ud83d", rb"\\\ud83d", rb"\u0000"),
    *(rb"\udbff\udfff", rb"\ud83d\n", rb"\ud83d\ud83d\ude00"),
    *(b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98\x80", b"\x7f", b"\x1f"),
]
NASTY_NUMBERS = [
    *(b"1e999", b"-1e999", b"1e308", b"1.7976931348623157e308", b"1.7976931348623159e308", b"1e-999", b"-0"),
    *(b"9" * 308, b"1" + b"0" * 308, b"9" * 309, b"-" + b"9" * 400, b"0." + b"9" * 400, b"1" * 300 + b"e10"),
    *(b"1e0000000009", b"0e99999999", b"-0.0e5", b"9007199254740993", b"18446744073709551616"),
    *(b"01", b"+1", b"1.", b".5", b"NaN", b"Infinity", b"0x1"),
]
VALUES = st.one_of(
    st.sampled_from(NASTY_NUMBERS),
    st.lists(st.sampled_from(NASTY_TEXTS), max_size=3).map(lambda pieces: b'"' + b"".join(pieces) + b'"'),
    st.integers(60, 66).map(lambda n: b"[" * n + b"]" * n),
    st.integers(60, 66).map(lambda n: b'{"x":' * n + b"1" + b"}" * n),
    st.sampled_from([b"true", b"tru", b"null", b"{}", b"[]", b"[1,[2]]", b'{"x":1,"x":2}', b""]),
)
NAMES = st.sampled_from([b"x", b"y", b"z", rb"\u0078", rb"\ud83d", rb"\ud83d\ude00", b"\xed\xa0\x80"])


@st.composite
def nasty(draw: st.DrawFn) -> bytes:
    """JSON objects of values that readers take differently; some have a name twice."""
    fields = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))
    return b"{" + b",".join(b'"' + name + b'":' + value for name, value in fields) + b"}" + draw(AFTER)


AFTER = st.sampled_from([b"", b"", b"", b" \n", b"\x00", b"{}", b"\x0b"])


@given(events=st.lists(nasty() | spoiled(), min_size=1, max_size=8))
def test_the_library_and_the_job_take_the_same_bytes_for_events(events: list[bytes]) -> None:
    """The library and the job read the same values from these bytes: alone, in a batch, and whole."""
    fields = Fields.of(PATHS)
    rows = pa.record_batch({"value": pa.array(events, pa.binary()), "headers": pa.array([None] * len(events), HEADERS)})
    job = read_job_events(rows, fields, decode_event, "events")
    index = Index.build({"s": {"x": [{"suffix": "a"}], "y": [{"prefix": "a"}]}})
    for number, event in enumerate(events):
        if number in job.undecodable:
            for read_it in (
                index.match,
                lambda events: index.match(events * (FEW_EVENTS + 1)),
                lambda e: document(e[0]),
            ):
                with pytest.raises(MatchingError):
                    read_it([event])
            continue
        index.match([event])
        index.match([event] * (FEW_EVENTS + 1))
        alone, _ = read_events([event], fields)
        assert held(alone, 0) == held(job.values, number) == held(read_documents([document(event)], fields), 0), event
        assert alone.several[0] == job.values.several[number]


def test_a_name_with_a_quote_is_not_taken_for_the_end_of_another() -> None:
    assert check([b'{"a"b": 1}', b'{"a\\"b": 1}'], [('a"b',), ("a",)]) == 0


def test_events_that_another_reader_took_are_put_in_their_places() -> None:
    paths = [("x",), ("x", "y")]
    documents: list[dict[str, Any]] = [{"x": "a"}, {"x": [{"y": 1}, {"y": "b\n"}]}, {}, {"x": ["c", None]}]
    values, hard = read([json.dumps(d).encode() for d in documents], paths)
    assert hard == [1]
    whole = joined(values, np.array(hard), read_documents([documents[1]], Fields.of(paths)))
    expected = read_documents(documents, Fields.of(paths))
    assert [held(whole, e) for e in range(4)] == [held(expected, e) for e in range(4)]
    assert whole.several.tolist() == [False, True, False, True]
