"""The interface of the library: events alone, as bytes and from several threads; patterns; versions."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from http import HTTPStatus
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from matchers import Index, MatchingError
from matchers.algorithms.scan import Scan
from matchers.algorithms.tiles import Tiles
from matchers.index import single, values
from matchers.index.fields import Fields
from matchers.index.json_event import parsed
from matchers.index.skeletons import Skeletons, joined
from matchers.index.templates import FEWEST_DOCUMENTS
from matchers.language import naive
from matchers.language.parsing import parse
from matchers.library import FEW_EVENTS
from tests.support.generators import workloads

pytestmark = pytest.mark.kernels


class Side(StrEnum):
    BUY = "BUY"


PATTERNS = {
    "ibm": {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]},
    "suffix": {"symbol": [{"suffix": "M"}]},
    "middle": {"symbol": [{"wildcard": "I*B*M"}]},
    "same element": {"legs": {"a": [1], "b": [2]}},
    "none": {"note": [{"exists": False}]},
}
EVENTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"symbol": "IBM", "price": 150.0}, ["ibm", "middle", "none", "suffix"]),
    ({"symbol": "IBM", "price": [5, 150], "note": "x"}, ["ibm", "middle", "suffix"]),
    ({"symbol": "I\n\u00e9BM", "price": 10**300}, ["middle", "none", "suffix"]),
    ({"legs": [{"a": 1, "b": 3}, {"a": 2, "b": 2}]}, ["none"]),
    ({"legs": [{"a": 1, "b": 3}, {"a": 1, "b": 2}]}, ["none", "same element"]),
    ({}, ["none"]),
]


@pytest.mark.parametrize("algorithm", ["scan", "tiles"])
def test_an_event_alone_matches_as_in_a_batch_and_as_bytes(algorithm: str) -> None:
    index = Index.build(PATTERNS, algorithm=algorithm)
    for event, expected in EVENTS:
        text = json.dumps(event).encode()
        for given in (event, text):
            assert index.match([given]) == [expected]
            assert index.match([given] * (FEW_EVENTS + 1)) == [expected] * (FEW_EVENTS + 1)
        assert index.match([text, event]) == [expected] * 2
        assert index.match([text, event] * FEW_EVENTS) == [expected] * (2 * FEW_EVENTS)


@pytest.mark.parametrize("event", ['{"symbol": "IBM"}', None, 5, [], ["symbol"], bytearray(b"{}")])
@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_what_is_neither_a_document_nor_bytes_is_no_event(n: int, event: Any) -> None:
    index = Index.build(PATTERNS)
    for events in ([event] * n, [b"{}", *[event] * n]):
        with pytest.raises(TypeError, match=f"the bytes of a JSON object, not {type(event).__name__}"):
            index.match(events)
    with pytest.raises(TypeError, match="the bytes of a JSON object"):
        index.explain(event, "ibm")


@pytest.mark.parametrize("events", [{"symbol": "IBM"}, b'{"symbol": "IBM"}', '{"symbol": "IBM"}'])
def test_a_forgotten_list_of_events_is_rejected(events: Any) -> None:
    with pytest.raises(TypeError, match=r"for one write match\(\[event\]\)"):
        Index.build(PATTERNS).match(events)


@pytest.mark.parametrize("ids", ["ab", b"ab"])
def test_one_id_in_the_place_of_a_list_is_rejected(ids: Any) -> None:
    with pytest.raises(MatchingError, match=r"update takes a list of ids; for one write remove=\[id\], not a"):
        Index.build({"a": {}, "b": {}}).update(remove=ids)


def nested(levels: int) -> Any:
    node: Any = []
    for _ in range(levels - 1):
        node = [node]
    return node


def test_what_is_wrong_with_the_arguments_is_said() -> None:
    listed: Any = [{"x": [1]}]
    with pytest.raises(MatchingError, match=r"patterns by id, such as .*, not a list"):
        Index.build(listed)
    numbered: Any = {1: {"x": [1]}}
    with pytest.raises(MatchingError, match="the id of a subscription must be a string, not 1"):
        Index.build(numbered)
    with pytest.raises(TypeError, match=r"not numpy.bool; its item\(\) is Python's"):
        Index.build(PATTERNS).match([{"symbol": np.bool_(True)}])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"symbol": NaN}', "NaN is not a JSON value"),
        (b'{"symbol": "\xff"}', "not JSON"),
        (b"[1]", "JSON object"),
        (b"5", "JSON object"),
        (b'{"symbol": ' + b"[" * 100_000, "nested deeper than 64"),
        (b'{"symbol": ' + b"[" * 64 + b"]" * 64 + b"}", "nested deeper than 64"),
        (b'{"other": ' + b'{"x": ' * 64 + b"1" + b"}" * 64 + b"}", "nested deeper than 64"),
        (b'{"symbol": 1e999}', "beyond all doubles"),
        (b'{"other": -1e999}', "beyond all doubles"),
        (b'{"symbol": ' + b"9" * 400 + b"}", "beyond all doubles"),
        (b'{"symbol": 1e999, "symbol": 1}', "beyond all doubles"),
        (b'{"symbol": "\\ud800"}', r"\\ud800 is an unpaired surrogate"),
        (b'{"symbol": "\\uDFFFa"}', r"\\uDFFF is an unpaired surrogate"),
        (b'{"symbol": "\\ud83d\\u0041"}', r"\\ud83d is an unpaired surrogate"),
        (b'{"symbol": "\\ude00\\ud83d"}', r"\\ude00 is an unpaired surrogate"),
        (b'{"\\ud800": 1}', r"\\ud800 is an unpaired surrogate"),
        (b'{"symbol": "\\ud800", "symbol": 1}', r"\\ud800 is an unpaired surrogate"),
        (b'{"symbol": "\xed\xa0\x80"}', "not JSON"),
    ],
)
@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_bytes_that_are_no_event_are_rejected(n: int, text: bytes, reason: str) -> None:
    index = Index.build(PATTERNS)
    with pytest.raises(MatchingError, match=reason):
        index.match([b'{"symbol": "IBM"}'] * (n - 1) + [text])
    assert index.match([{"symbol": "IBM"}]) == [["middle", "none", "suffix"]]


@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"symbol": "\ud800"}, "an unpaired surrogate"),
        ({"symbol": ["a", {"x": 1}, "a\udfff"]}, "an unpaired surrogate"),
        ({"symbol": nested(64)}, "nested deeper than 64"),
        ({"symbol": nested(100_000)}, "nested deeper than 64"),
    ],
    ids=["half a pair", "in an array", "65 levels", "100,001 levels"],
)
def test_a_document_that_is_no_event_is_rejected(n: int, event: dict[str, Any], reason: str) -> None:
    index = Index.build(PATTERNS)
    with pytest.raises(MatchingError, match=reason):
        index.match([{"symbol": "IBM"}] * (n - 1) + [event])
    assert index.match([{"symbol": nested(63)}] * n) == [["none"]] * n


@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_an_event_may_have_64_levels_and_pairs_of_surrogates(n: int) -> None:
    index = Index.build({"s": {"x": ["\U0001f600", "\\ud800"]}})
    deep = b"[" * 62 + b'{"y": "\\n"}' + b"]" * 62
    for text in (b'"\\ud83d\\ude00"', b'"\\uD83D\\uDE00"', b'"\\\\ud800"', b'["' + b"\\u00e9" * 9 + b'", "\\\\ud800"]'):
        assert index.match([b'{"x": ' + text + b', "z": ' + deep + b"}"] * n) == [["s"]] * n


@pytest.mark.parametrize("n", [1, 2 * FEWEST_DOCUMENTS])
@pytest.mark.parametrize(
    "pattern", [{"x": ["\ud800"]}, {"\ud800": ["a"]}, {"x": {"a\udfff": [1]}}, {"x": [{"prefix": "\ud800"}]}]
)
def test_patterns_with_half_of_a_pair_of_surrogates_are_rejected(n: int, pattern: Any) -> None:
    """Alone and among many of one shape."""
    with pytest.raises(MatchingError, match="without unpaired surrogates"):
        Index.build({f"s{i}": pattern for i in range(n)})


@pytest.mark.parametrize("n", [2, FEW_EVENTS + 1])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        (b"{", MatchingError, "an event is not JSON"),
        ({"symbol": "\ud800"}, MatchingError, "an event has an unpaired surrogate"),
        ({"symbol": {1}}, TypeError, "an event has strings, numbers"),
        (5, TypeError, "an event is a dict"),
    ],
)
def test_an_error_in_a_list_of_events_names_the_first_wrong_one(
    event: Any, kind: type[Exception], reason: str, at: int, n: int
) -> None:
    index = Index.build(PATTERNS)
    with pytest.raises(kind, match=f"^{reason}"):
        index.match([event])
    with pytest.raises(kind, match=f"^event {at}: {reason}"):
        index.match([b"{}"] * at + [event] * (n - at))


@pytest.mark.parametrize(
    "value",
    [Decimal(150), np.int64(150), np.True_, {150}, datetime(2026, 1, 1, tzinfo=UTC), "\ud800", nested(64)],
    ids=["a decimal", "numpy's integer", "numpy's truth", "a set", "a date", "half a pair", "65 levels"],
)
def test_an_explanation_rejects_the_events_that_match_rejects(value: Any) -> None:
    index = Index.build(PATTERNS)
    event = {"price": value, "symbol": "IBM"}
    with pytest.raises((TypeError, MatchingError)) as rejected:
        index.match([event])
    for id in ("ibm", "suffix"):
        with pytest.raises(rejected.type, match=re.escape(str(rejected.value))):
            index.explain(event, id)


@pytest.mark.parametrize("subscriptions", [{}, PATTERNS], ids=["none", "some"])
@pytest.mark.parametrize(
    ("algorithm", "options", "reason"),
    [
        ("tiles", {"treads": 2}, "options of tiles: .*unexpected keyword argument 'treads'"),
        ("tiles", {"threads": "2"}, "options of tiles: "),
        ("tiles", {"threads": 1.5}, r"threads must be an integer, not 1\.5"),
        ("wpa_rein", {"threads": 2.0}, r"threads must be an integer, not 2\.0"),
        ("ocm", {"bits": np.float64(64)}, "bits must be an integer, not "),
        ("tiles", {"tile": 0}, "threads and fewest must be 1 or more"),
        ("scan", {"threads": 2}, "options of scan: "),
        ("auto", {"attributes": 0}, "attributes of an event must be above 0"),
        ("scam", {"threads": 2}, "unknown algorithm 'scam'"),
    ],
)
def test_options_are_checked_when_an_index_is_built(
    algorithm: str, options: dict[str, Any], reason: str, subscriptions: dict[str, Any]
) -> None:
    with pytest.raises(MatchingError, match=f"^{reason}"):
        Index.build(subscriptions, algorithm, **options)


@pytest.mark.parametrize("options", [{}, {"threads": 2}], ids=["no options", "options"])
@pytest.mark.parametrize("algorithm", [None, 5, ["tiles"]])
def test_an_algorithm_that_is_no_text_is_unknown(algorithm: Any, options: dict[str, Any]) -> None:
    with pytest.raises(MatchingError, match=f"^unknown algorithm {re.escape(repr(algorithm))}; "):
        Index.build(PATTERNS, algorithm, **options)


@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_a_value_that_json_does_not_know_is_rejected(n: int) -> None:
    with pytest.raises(TypeError, match="not set"):
        Index.build(PATTERNS).match([{"symbol": {1}}] * n)


def test_of_a_repeated_name_the_last_counts() -> None:
    assert Index.build({"s": {"x": [2]}}).match([b'{"x": 1, "x": 2}', b'{"x": 2, "x": 1}']) == [["s"], []]


def test_bytes_alone_are_matched_by_elements_of_arrays_and_with_any_number_of_values() -> None:
    index = Index.build({"both": {"a": {"x": [1], "y": [2]}}, "x": {"a": {"x": [1]}}})
    apart, together = b'{"a":[{"x":1,"y":3},{"x":9,"y":2}]}', b'{"a":[{"x":1,"y":2},{"x":9,"y":3}]}'
    assert index.match([apart, together, apart]) == [["x"], ["both", "x"], ["x"]]
    one = Index.build({"s": {"x": [{"prefix": "a"}], "$not": {"x": [{"text-length": [">", 3]}]}}})
    assert one.match([b'{"x":["abcd","z"]}', b'{"x":["abc","z"]}']) == [[], ["s"]]
    several = Index.build({"last": {"x": [9_999]}, "none": {"x": [10_000]}, "z": {"z": [{"exists": False}]}})
    for n in (10, 300, 10_000, 5):
        event = json.dumps({"x": list(range(10_000 - n, 10_000))}, separators=(",", ":")).encode()
        assert several.match([event]) == [["last", "z"]]


def test_an_event_may_hold_more_than_the_last_one_did() -> None:
    index = Index.build({"s": {"x": [{"numeric": [">", 4_998]}]}}, algorithm="tiles")
    for n in (1, 5_000, 2, 5_000):
        event = {"x": list(range(n))}
        assert index.match([event, json.dumps(event).encode()]) == [["s"] * (n == 5_000)] * 2


def test_an_event_has_no_texts_of_a_longer_one_before() -> None:
    index = Index.build({"folded": {"t": [{"equals-ignore-case": "ab"}]}, "u": {"u": ["c"]}})
    for event, expected in [({"t": "ab" * 5_000}, []), ({"t": "AB"}, ["folded"]), ({"u": "c"}, ["u"]), ({}, [])]:
        assert index.match([event, json.dumps(event).encode()]) == [expected] * 2


@pytest.mark.parametrize(
    ("element", "n"),
    [({}, 201), (5, 201), ([], 201), ({"f0": {}}, 201), ({"f0": {"z": 1}}, 200 + 10_000), ({"y": 1}, 201)],
    ids=["an empty object", "a number", "an empty array", "an empty field", "a field", "another field"],
)
def test_a_field_that_many_elements_lack_is_read_as_absent_once(element: Any, n: int) -> None:
    fields = Fields.of([("items", f"f{i}") for i in range(200)] + [("items", "f0", "z")])
    event = {"items": [element] * 10_000}
    assert np.diff(values.read_documents([event, {}, event], fields).offsets).tolist() == [n, 0, n]


@pytest.mark.parametrize("algorithm", ["scan", "tiles"])
def test_threads_match_at_the_same_time(algorithm: str) -> None:
    r = Random(3)
    index = Index.build({f"s{i}": {"x": [{"numeric": [">", i]}], "y": [i % 3]} for i in range(300)}, algorithm)
    events = [{"x": r.randrange(300), "y": r.randrange(3)} for _ in range(400)]
    expected = index.match(events)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda event: index.match([json.dumps(event).encode()])[0], events))
    assert found == expected


@pytest.mark.parametrize("pattern", [{"x": ("a",)}, {"x": {5: ["a"]}}, {5: ["a"]}, {"x": [{"prefix": ("a",)}]}])
def test_what_json_would_change_is_not_compiled_by_its_json(pattern: Any) -> None:
    """JSON writes a tuple as a list and 5 as "5"; the language knows neither."""
    with pytest.raises(MatchingError, match="'bad'"):
        Index.build({f"s{i}": {"x": ["a"]} for i in range(2 * FEWEST_DOCUMENTS)} | {"bad": pattern})


def test_a_pattern_may_be_any_mapping() -> None:
    index = Index.build({"s": MappingProxyType({"x": [MappingProxyType({"prefix": "a"})]})})
    assert index.match([{"x": "ab"}]) == [["s"]]
    assert all(line.held for line in index.explain(b'{"x": "ab"}', "s"))


def test_a_pattern_that_is_changed_later_changes_nothing() -> None:
    pattern = {"x": [1]}
    index = Index.build({"s": pattern})
    pattern["x"][0] = 2
    assert index.match([{"x": 1}]) == [["s"]]
    assert index.explain({"x": 1}, "s")[0].held


def test_a_small_part_beside_a_longer_one_is_scanned() -> None:
    index = Index.build({f"s{i}": {"x": [i]} for i in range(40)}, algorithm="tiles").update(add={"t": {"x": [1]}})
    assert [type(part.matcher) for part in index.snapshot.parts] == [Tiles, Scan]
    assert index.match([{"x": 1}]) == [["s1", "t"]]


def test_added_subscriptions_wait_for_the_first_use_and_the_last_of_an_id_counts() -> None:
    index = Index.build({"s0": {"x": [0]}})
    versions = [index]
    for n in range(1, 200):
        added = {f"s{n}": {"x": [n]}, "last": {"x": [n]}}
        versions.append(versions[-1].update(add=added))
        added["last"]["x"][0] = -1  # what was added is not looked at again
        with pytest.raises(MatchingError, match="'bad'"):
            versions[-1].update(add={"bad": {"x": []}})
        if n % 50 == 0:
            assert versions[-1].match([{"x": n}, {"x": -1}]) == [["last", f"s{n}"], []]
    assert [version.version for version in versions] == list(range(1, 201))
    for n in (199, 7, 120):
        assert versions[n].match([{"x": n}, {"x": 0}, {"x": n + 1}]) == [["last", f"s{n}"], ["s0"], []]
        assert len(versions[n]) == n + 2
    copy = pickle.loads(pickle.dumps(versions[60]))
    assert (copy.version, copy.match([{"x": 60}])) == (61, [["last", "s60"]])
    assert "last" not in str(versions[60].update(remove=["last"]).match([{"x": 60}]))


def test_versions_share_their_parts_and_stay_as_they_are() -> None:
    first = Index.build({f"s{i}": {"x": [i % 5]} for i in range(40)}, algorithm="tiles")
    before = first.match([{"x": 1}])
    second = first.update(add={"s1": {"x": [2]}, "t": {"x": [1]}}, remove=["s6"])
    assert second.snapshot.parts[0] is first.snapshot.parts[0]
    assert first.match([{"x": 1}]) == before
    assert second.match([{"x": 1}]) == [sorted({*before[0], "t"} - {"s1", "s6"})]
    assert (len(first), len(second)) == (40, 40)
    with pytest.raises(MatchingError, match="cannot explain 's6'"):
        second.explain({"x": 1}, "s6")
    with pytest.raises(MatchingError, match="cannot remove 's6'"):
        second.update(remove=["s6"])


def test_an_index_that_was_copied_matches_as_before() -> None:
    index = Index.build(PATTERNS, algorithm="tiles")
    index.match([{}])
    assert pickle.loads(pickle.dumps(index)).match([event for event, _ in EVENTS]) == [ids for _, ids in EVENTS]


def test_one_workspace_serves_events_of_all_kinds() -> None:
    r = Random(5)
    patterns = {f"s{i}": workloads.pattern(r) for i in range(60)}
    index = Index.build(patterns, algorithm="tiles")
    events = [workloads.event(r) for _ in range(200)]
    alone = [index.match([event])[0] for event in events]
    assert alone == index.match(events)


def others(i: int) -> dict[str, Any]:
    """Return conditions that give each of 64 patterns a shape of its own, and eight of them each member."""
    return {f"y{i % 8}": [{"exists": False}], f"z{i // 8}": [{"exists": False}]}


TWICE = [  # patterns whose conditions on one field all have to hold
    lambda i: {"x": [f"a{i}", "c"], "$not": {"$not": {"x": [f"b{i}", "c"]}}},
    lambda i: {"x": [f"a{i}", "c"], "$not": {"$not": {"x": [f"b{i}", "c"]}}, **others(i)},
    lambda i: {"$not": {"$or": [{"$not": {"x": [f"a{i}", "c"]}}, {"$not": {"x": [f"b{i}", "c"]}}]}},
]


@pytest.mark.parametrize("pattern", TWICE)
def test_two_conditions_on_one_field_both_have_to_hold(pattern: Callable[[int], Any]) -> None:
    patterns = {f"s{i}": pattern(i) for i in range(64)} | {"other": {"y": [1]}}
    index = Index.build(patterns).update({"late": {"x": ["a0"]}})
    assert index.match([{"x": "a0"}, {"x": "b0"}, {"x": ["a0", "b0"]}]) == [["late"], [], ["late"]]
    assert index.match([{"x": "c"}]) == [sorted(patterns.keys() - {"other"})]


@pytest.mark.parametrize("status", [HTTPStatus.NOT_FOUND, np.float64(404)])
@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_numbers_of_other_types_are_numbers_where_a_match_is_looked_at_alone(status: Any, n: int) -> None:
    index = Index.build({"s": {"status": [404], "path": [{"wildcard": "/a*b*c"}]}})
    assert index.match([{"status": status, "path": "/a1b2c"}] * n) == [["s"]] * n


@pytest.mark.parametrize("n", [1, 64])
@pytest.mark.parametrize("more", [lambda i: {}, others])
def test_an_operator_in_place_of_a_field_is_rejected_however_many_there_are(n: int, more: Callable[[int], Any]) -> None:
    after = {"time": [">=", "2026-01-01T00:00:00Z"]}
    with pytest.raises(MatchingError, match="an operator stands in a list"):
        Index.build({f"s{i}": {"x": after, **more(i)} for i in range(n)})


@pytest.mark.parametrize("n", [1, FEW_EVENTS + 1])
def test_an_event_as_bytes_is_parsed_once_for_all_that_are_looked_at_one_by_one(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parses = 0

    def counted(event: bytes) -> Any:
        nonlocal parses
        parses += 1
        return parsed(event)

    for module in (single, values):
        monkeypatch.setattr(module, "parsed", counted)
    index = Index.build({f"s{i}": {"x": [{"wildcard": f"*a*{i}*"}]} for i in range(10, 50)})
    assert index.match([b'{"x": "a17"}'] * n) == [["s17"]] * n
    assert 0 < parses <= n


@pytest.mark.parametrize("n", [1, 2 * FEWEST_DOCUMENTS])
@pytest.mark.parametrize(
    "value",
    [10**5_000, {"numeric": [10**5_000]}, {"prefix": [10**5_000]}, {"between": [10**5_000]}],
    ids=["bare", "numeric", "prefix", "between"],
)
def test_an_integer_of_thousands_of_digits_is_rejected_by_its_id(n: int, value: Any) -> None:
    with pytest.raises(MatchingError, match="'bad'"):
        Index.build({"bad": {"x": [value]}} | {f"s{i}": {"x": [i]} for i in range(n)})


def test_an_event_that_is_a_list_with_such_an_integer_is_rejected() -> None:
    with pytest.raises(TypeError):
        Index.build({"s": {"x": [1]}}).match([[10**5_000]])  # type: ignore[list-item]


@pytest.mark.parametrize("n", [1, 2 * FEWEST_DOCUMENTS])
@pytest.mark.parametrize("text", [Side.BUY, np.str_("BUY")])
@pytest.mark.parametrize("pattern", [["BUY"], [{"compare-field": ["=", "y"]}], [{"compare-field": ["<=", "y"]}]])
def test_a_text_of_another_class_is_that_text(n: int, text: str, pattern: Any) -> None:
    index = Index.build({"s": {"x": pattern}})
    for event in ({"x": text, "y": "BUY"}, {"x": "BUY", "y": text}, {"x": text, "y": text}):
        assert index.match([event] * n) == [["s"]] * n
        assert naive.matches(parse({"x": pattern}), event)


def test_few_of_the_sizes_of_events_are_kept() -> None:
    index = Index.build({"s": {"x": [1]}})
    for n in (1, 2, 3_000, 3_001):
        assert index.match([{"x": [1] * n}]) == [["s"]]
    with pytest.raises(MatchingError):
        index.update(remove=[5, "zz"])  # type: ignore[list-item]  # one is no id


def test_a_text_with_more_values_than_any_json_is_no_document() -> None:
    many = Skeletons.of(*joined([b'1""' * 5]))
    assert (many.shape.tolist(), len(many.number)) == ([-1], 0)
