"""The commands that need no broker: match, explain, validate, test."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import run_stream
from offline import files, yaml
from offline.files import InputError
from tests.support.documents import steps
from tests.support.patience import PATIENCE_S

HOME = Path(__file__).resolve().parents[3]
WATCHLIST = str(HOME / "examples" / "watchlist.jsonl")
ALICE = '{"id": "s1", "subscriber": "alice", "pattern": {"symbol": ["IBM"], "price": [{"numeric": [">", 100]}]}}'
BOB = '{"id": "s2", "subscriber": "bob", "pattern": {"symbol": ["IBM", "GE"]}}'
CAROL = '{"id": "s3", "subscriber": "carol", "pattern": {}}'
EXPIRED = '{"id": "s4", "subscriber": "dave", "pattern": {}, "expires_at": "2020-01-01T00:00:00Z"}'
PAUSED = '{"id": "s5", "subscriber": "erin", "pattern": {}, "paused": true}'
IBM = '{"symbol": "IBM", "price": 150}'

Said = tuple[int, str, str]  # exit code, standard output, standard error
Sluice = Callable[..., Said]


@pytest.fixture
def sluice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Sluice:
    """The command line, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, stdin: bytes | None = b"") -> Said:
        monkeypatch.setattr(sys, "argv", ["run_stream.py", *arguments])
        monkeypatch.setattr(sys, "stdin", None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            run_stream.main()
        message = capsys.readouterr()
        return int(ended.value.code or 0), message.out, message.err

    return run


def write(name: str, *lines: str | bytes) -> str:
    Path(name).write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return name


# match


def test_each_event_has_a_line_with_who_gets_it(sluice: Sluice) -> None:
    write("s.jsonl", ALICE, BOB)
    write("e.jsonl", IBM, '{"symbol": "GE"}', '{"symbol": "X"}')
    assert sluice("match", "s.jsonl", "e.jsonl") == (
        0,
        "line 1: alice (s1), bob (s2)\nline 2: bob (s2)\nline 3: nobody\n",
        "",
    )


def test_match_as_json(sluice: Sluice) -> None:
    write("s.jsonl", ALICE, BOB.replace("bob", "alice"))
    code, out, _ = sluice("match", "--json", "s.jsonl", stdin=f"{IBM}\n{{}}".encode())
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"event": 1, "deliveries": {"alice": ["s1", "s2"]}},
        {"event": 2, "deliveries": {}},
    ]


@pytest.mark.parametrize("events", [[], ["-"]])
def test_events_come_from_standard_input_too(sluice: Sluice, events: list[str]) -> None:
    write("s.jsonl", BOB)
    assert sluice("match", "s.jsonl", *events, stdin=IBM.encode())[1] == "line 1: bob (s2)\n"
    write("e.jsonl", IBM)
    assert sluice("match", "-", "e.jsonl", stdin=BOB.encode())[1] == "line 1: bob (s2)\n"


def test_what_is_wrong_is_named_and_the_rest_goes_on(sluice: Sluice) -> None:
    write("s.jsonl", BOB, '{"id": "s9", "subscriber": "x"}', "{", CAROL)
    write("e.jsonl", IBM, b'{"a": "\xff"}', "[]", '{"a":', '{"a": ' + "[" * 100 + "]" * 100 + "}", "{}")
    code, out, err = sluice("match", "s.jsonl", "e.jsonl")
    assert code == 1
    assert out == "line 1: bob (s2), carol (s3)\nline 6: carol (s3)\n"
    assert err.splitlines() == [
        "s.jsonl, line 2: id s9: pattern is missing; write {} for every event",
        "s.jsonl, line 3: not JSON: unexpected end of data at character 2",
        "e.jsonl, line 2: not UTF-8: byte 8 of the line is 0xff",
        "e.jsonl, line 3: not a JSON object but an array",
        "e.jsonl, line 4: not JSON: unexpected end of data at character 6",
        "e.jsonl, line 5: nested deeper than 64",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n \r\n\t\n", []),
        (b"{}", [1]),
        (b"{}\n{}", [1, 2]),
        (b"{}\r\n\r\n{}\r\n", [1, 3]),
        (b"\xef\xbb\xbf{}\n{}\n", [1, 2]),
    ],
)
def test_lines_end_in_any_way_and_blank_ones_count_but_say_nothing(
    sluice: Sluice, text: bytes, lines: list[int]
) -> None:
    write("s.jsonl", CAROL)
    write("e.jsonl", text)
    assert sluice("match", "s.jsonl", "e.jsonl") == (0, "".join(f"line {n}: carol (s3)\n" for n in lines), "")


def test_lines_of_any_length_are_whole_and_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = b"a\n\nbbbbbbb\nccccccccccccccccccc\r\n\n\nd"
    (tmp_path / "f").write_bytes(text)
    for size in range(1, len(text) + 2):
        monkeypatch.setattr(files, "CHUNK_BYTES", size)
        assert list(files.lines(tmp_path / "f")) == [(1, b"a"), (3, b"b" * 7), (4, b"c" * 19), (7, b"d")]


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as f:
        for _ in range(200):
            f.write((b" " * 2_000 + b"{}\n") * 75)  # 30 MB
    tracemalloc.start()
    try:
        assert sum(1 for batch in files.batches(tmp_path / "f") if batch) > 50
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_what_comes_through_a_pipe_is_answered_before_the_pipe_ends(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(CAROL)
    command = [sys.executable, str(HOME / "run_stream.py"), "match", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"{}\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"line 1: carol (s3)\n"
        process.stdin.close()
    assert process.returncode == 0


def test_a_later_subscription_of_the_same_id_replaces_the_earlier_unless_it_is_rejected(sluice: Sluice) -> None:
    write("s.jsonl", BOB, CAROL, BOB.replace("bob", "erin"), CAROL.replace("{}", "5"))
    assert sluice("match", "s.jsonl", stdin=IBM.encode())[1] == "line 1: carol (s3), erin (s2)\n"


def test_what_has_expired_by_now_does_not_count(sluice: Sluice) -> None:
    write("s.jsonl", EXPIRED, EXPIRED.replace("2020", "9020").replace("s4", "s5"))
    assert sluice("match", "s.jsonl", stdin=b"{}")[1] == "line 1: dave (s5)\n"
    code, out, _ = sluice("explain", "s.jsonl", "{}", "--id", "s4")
    assert (code, out.splitlines()[0]) == (1, "s4 (dave): expired 2020-01-01 00:00:00.000Z")


def test_what_is_paused_matches_nothing_and_is_said_to_be(sluice: Sluice) -> None:
    write("s.jsonl", PAUSED, PAUSED.replace("true", "false").replace("s5", "s6"))
    assert sluice("match", "s.jsonl", stdin=b"{}")[1] == "line 1: erin (s6)\n"
    code, out, _ = sluice("explain", "s.jsonl", "{}", "--id", "s5")
    assert (code, out.splitlines()) == (1, ["s5 (erin): paused", "    held     {}: every event"])
    (told,) = json.loads(sluice("explain", "--json", "s.jsonl", "{}", "--id", "s5")[1])["subscriptions"]
    assert (told["matches"], told["expired"], told["paused"]) == (False, False, True)
    assert sluice("validate", "s.jsonl") == (0, "", "s.jsonl, line 1: note: id s5: paused\n2 of 2 accepted\n")


def test_a_case_of_a_paused_subscription_says_that_it_is_paused(sluice: Sluice) -> None:
    write("s.jsonl", PAUSED, EXPIRED)
    write("c.yaml", "subscriptions: s.jsonl", "cases:", "  - {event: {x: 1}, matches: [s4]}")
    assert sluice("test", "c.yaml")[:2] == (0, "1 passed, 0 failed\n")
    write("c.yaml", "subscriptions: s.jsonl", "cases:", "  - {event: {x: 1}, matches: [s4, s5]}")
    code, out, _ = sluice("test", "c.yaml")
    assert code == 1
    assert "    missing s5 (erin): paused\n        held     {}: every event\n" in out


def test_no_subscriptions_match_nothing(sluice: Sluice) -> None:
    write("s.jsonl", "")
    assert sluice("match", "s.jsonl", stdin=IBM.encode()) == (0, "line 1: nobody\n", "")


@pytest.mark.parametrize("algorithm", ["naive", "counting"])
def test_every_algorithm_gives_the_same(sluice: Sluice, algorithm: str) -> None:
    events = (HOME / "examples" / "stock_events.jsonl").read_bytes().splitlines()[:5]
    of = str(HOME / "examples" / "subscriptions.jsonl")
    assert sluice("match", of, stdin=b"\n".join(events)) == sluice(
        "match", of, "--algorithm", algorithm, stdin=b"\n".join(events)
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("match", "none.jsonl"), "none.jsonl: cannot be read: No such file or directory"),
        (("match", "."), ".: cannot be read: Is a directory"),
        (("match", WATCHLIST, "none"), "none: cannot be read: No such file"),
        (("match", "-"), "cannot both come from standard input"),
        (("match", WATCHLIST, "--algorithm", "scam"), "unknown algorithm 'scam'; did you mean 'scan'?"),
        (("explain", "-", "-"), "cannot both come from standard input"),
        (("explain", WATCHLIST, "none.json"), "none.json: cannot be read: No such file"),
        (("explain", WATCHLIST, "{"), "EVENT: not JSON: "),
        (("explain", WATCHLIST, "-"), "standard input: not JSON: "),
        (("explain", WATCHLIST, "{}", "--id", "s11"), "no subscription has the id 's11'; did you mean 's1'?"),
        (
            ("explain", WATCHLIST, "{}", "--subscriber", "bo"),
            "subscriber 'bo' has no subscription; did you mean 'bob'?",
        ),
        (("explain", WATCHLIST, "{}", "--id", "s1", "--subscriber", "bob"), "subscription 's1' is not bob's"),
        (("explain", "/dev/null", "{}"), "there is no subscription to explain"),
        (("validate", "none.jsonl"), "none.jsonl: cannot be read"),
        (("validate",), "Missing argument"),
        (("test", "."), ".: cannot be read: Is a directory"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_2(sluice: Sluice, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = sluice(*arguments)
    assert (code, out) == (2, "")
    assert reason in err


def test_a_closed_standard_input_is_said(sluice: Sluice) -> None:
    code, _, err = sluice("match", WATCHLIST, stdin=None)
    assert code == 2
    assert "standard input is closed" in err


# explain


def test_an_explanation_has_a_line_for_each_predicate_and_ends_with_the_near_misses(sluice: Sluice) -> None:
    assert sluice("explain", WATCHLIST, '{"symbol": "IBM", "price": 250, "venue": "NASDAQ"}') == (
        0,
        """s1 (alice): does not match
    held     symbol: wanted "IBM"; found "IBM"
    not held price: wanted > 100 and <= 200; found 250
s2 (bob): matches
    held     venue: wanted prefix "NASDAQ"; found "NASDAQ"
s3 (carol): matches
    held     one of 2:
        1. held     venue: wanted anything but "NYSE"; found "NASDAQ"
        2. not held price: wanted < 10; found 250
s4 (alice): does not match
    not held symbol: wanted prefix "MS"; found "IBM"

near misses:
    s1 (alice): price: wanted > 100 and <= 200; found 250
    s4 (alice): symbol: wanted prefix "MS"; found "IBM"
""",
        "",
    )


def test_an_explanation_of_one_subscription_or_one_subscribers(sluice: Sluice) -> None:
    code, out, _ = sluice("explain", WATCHLIST, IBM, "--id", "s1")
    assert (code, out.splitlines()[0], len(out.splitlines())) == (0, "s1 (alice): matches", 3)
    code, out, _ = sluice("explain", WATCHLIST, "{}", "--subscriber", "alice")
    assert code == 1
    assert [line.split()[0] for line in out.splitlines() if "(alice):" in line] == ["s1", "s4", "s4"]
    write("s.jsonl", CAROL)
    assert sluice("explain", "s.jsonl", "{}")[1] == "s3 (carol): matches\n    held     {}: every event\n"


def test_the_event_may_be_text_a_file_or_standard_input(sluice: Sluice) -> None:
    write("s.jsonl", ALICE)
    write("e.json", b"\xef\xbb\xbf", IBM.replace(",", ",\r\n"), "")
    expected = sluice("explain", "s.jsonl", IBM)
    assert expected[0] == 0
    assert sluice("explain", "s.jsonl", "e.json") == expected
    assert sluice("explain", "s.jsonl", "-", stdin=IBM.encode()) == expected
    write("e.json", IBM, IBM)
    assert "it takes one event, a JSON object" in sluice("explain", "s.jsonl", "e.json")[2]


def test_an_explanation_as_json(sluice: Sluice) -> None:
    code, out, _ = sluice("explain", "--json", WATCHLIST, '{"symbol": ["A", "IBM"], "venue": null}')
    told = json.loads(out)
    assert code == 0
    assert told["matches"] is True
    alice, bob, carol, _ = told["subscriptions"]
    assert alice == {
        "id": "s1",
        "subscriber": "alice",
        "matches": False,
        "expired": False,
        "paused": False,
        "predicates": [
            {"field": ["symbol"], "held": True, "wanted": ['"IBM"'], "found": "IBM", "all_found": ["A", "IBM"]},
            {"field": ["price"], "held": False, "wanted": ["> 100 and <= 200"], "all_found": []},
        ],
        "near_miss": True,
    }
    assert bob["predicates"][0]["found"] is None
    (one_of,) = carol["predicates"]
    assert one_of["held"] is True
    assert [[part["held"] for part in parts] for parts in one_of["one_of"]] == [[True], [False]]


def test_what_a_person_wrote_stays_on_its_line(sluice: Sluice) -> None:
    write("s.jsonl", json.dumps({"id": "a\nb [red]:smile:", "subscriber": "x", "pattern": {"x": ["\n"]}}))
    assert sluice("match", "s.jsonl", stdin=b'{"x": "\\n"}')[1] == 'line 1: x ("a\\nb [red]:smile:")\n'
    write("s.jsonl", json.dumps({"id": "[red]:smile:", "subscriber": "x", "patern": 5}))
    assert sluice("match", "s.jsonl")[2].startswith("s.jsonl, line 1: id [red]:smile:: unknown key 'patern'; did you")


# validate


def test_what_would_be_rejected_is_told_with_its_place_and_reason(sluice: Sluice) -> None:
    write("a.jsonl", ALICE, BOB.replace('"GE"', '{"prefx": "G"}'), "", CAROL)
    write("b.json", "[", BOB, ",", "5", "]")
    write("c.json", CAROL.replace(",", ",\n").replace('"s3"', "3"))
    assert sluice("validate", "a.jsonl", "b.json", "c.json") == (
        1,
        "a.jsonl, line 2: id s2: field symbol: unknown operator 'prefx'; did you mean 'prefix'?\n"
        'b.json, document 2: not a JSON object; a subscription is {"id": ..., "subscriber": ..., "pattern": {...}}\n'
        "c.json: id must be a string of 1 to 200 characters\n",
        "3 of 6 accepted\n",
    )


def test_a_document_that_the_job_rejects_for_its_size_is_rejected(sluice: Sluice) -> None:
    long = {"id": "s", "subscriber": "a", "pattern": {"x": ["é" * 600_000]}}
    write("s.jsonl", json.dumps(long, ensure_ascii=False))
    write("s.json", json.dumps([long]))
    for file in ("s.jsonl", "s.json"):
        code, out, _ = sluice("validate", file)
        assert (code, "bytes; the maximum is 1,000,000" in out) == (1, True)


def test_validate_as_json_ends_with_a_summary(sluice: Sluice) -> None:
    write("a.jsonl", CAROL, CAROL, '{"id": "s9"}')
    code, out, err = sluice("validate", "--json", "a.jsonl")
    assert (code, err) == (1, "")
    rejected, summary = map(json.loads, out.splitlines())
    assert (rejected["file"], rejected["line"], rejected["id"]) == ("a.jsonl", 3, "s9")
    assert rejected["reason"].startswith("subscriber must be")
    note = {"file": "a.jsonl", "line": 2, "id": "s3", "note": "replaces the document of a.jsonl, line 1"}
    assert summary == {"accepted": 2, "rejected": 1, "notes": [note]}


def test_duplicates_and_what_has_expired_are_notes_and_no_errors(sluice: Sluice) -> None:
    write("a.jsonl", ALICE, EXPIRED)
    write("b.jsonl", ALICE)
    assert sluice("validate", "a.jsonl", "b.jsonl") == (
        0,
        "",
        "a.jsonl, line 2: note: id s4: expired 2020-01-01 00:00:00.000Z\n"
        "b.jsonl, line 1: note: id s1: replaces the document of a.jsonl, line 1\n"
        "3 of 3 accepted\n",
    )


@pytest.mark.parametrize(
    ("text", "code", "summary"),
    [
        (b"", 0, "0 of 0 accepted"),
        (b"[]", 0, "0 of 0 accepted"),
        (ALICE.encode() + b"\n\n" + BOB.encode(), 0, "2 of 2 accepted"),  # lines after all
        (ALICE.encode() + b"\n{", 1, "1 of 2 accepted"),
        (b'[\n{"id": 5,\n]', 1, "0 of 1 accepted"),
        (b"\xff", 1, "0 of 1 accepted"),
        (b"[" * 2_000, 1, "0 of 1 accepted"),
    ],
)
def test_a_json_file_holds_one_document_or_an_array_or_lines(
    sluice: Sluice, text: bytes, code: int, summary: str
) -> None:
    write("a.json", text)
    found, _, err = sluice("validate", "a.json")
    assert (found, err) == (code, f"{summary}\n")


def test_subscriptions_nested_deeply_are_rejected(sluice: Sluice) -> None:
    deep = '{"x": ' * 900 + "[1]" + "}" * 900
    write("a.jsonl", CAROL.replace("{}", deep), CAROL.replace('"carol"', "[" * 1_000 + "]" * 1_000))
    code, out, err = sluice("validate", "a.jsonl")
    assert (code, err) == (1, "0 of 2 accepted\n")
    first, second = out.splitlines()
    assert first.endswith("is nested deeper than 32 objects")
    assert second.endswith("not a deeply nested value")


# test

INLINE = f"subscriptions: {{s1: {{subscriber: alice, pattern: {{symbol: [IBM]}}}}, s2: {BOB}, s3: {CAROL}}}\n"


def test_a_case_says_who_must_be_among_the_matches_and_who_not(sluice: Sluice) -> None:
    write(
        "cases.yaml",
        INLINE,
        "cases:",
        "- {name: exactly, event: {symbol: IBM}, matches: [s3, s1, s2]}",
        "- {name: by subscriber, event: {symbol: GE}, deliveries: {bob: [s2], carol: [s3], alice: []}}",
        "- {name: some, event: {symbol: GE}, contains: [s3], excludes: [s1]}",
    )
    assert sluice("test", "cases.yaml") == (0, "3 passed, 0 failed\n", "")


def test_a_failed_case_says_what_was_expected_what_was_found_and_why(sluice: Sluice) -> None:
    write(
        "cases.yaml",
        INLINE,
        "cases:",
        "- {name: wrong, event: {symbol: GE}, matches: [s1, s3]}",
        "- {event: {symbol: IBM}, contains: [s1]}",
        "- {event: {}, excludes: [s3]}",
    )
    assert sluice("test", "cases.yaml") == (
        1,
        """failed cases.yaml: wrong
    expected matches: s1, s3
    found bob (s2), carol (s3)
    missing s1 (alice):
        not held symbol: wanted "IBM"; found "GE"
    unexpected s2 (bob):
        held     symbol: wanted "IBM" or "GE"; found "GE"
failed cases.yaml: case 3
    expected excludes: s3
    found carol (s3)
    unexpected s3 (carol):
        held     {}: every event
1 passed, 2 failed
""",
        "",
    )


def test_cases_as_json(sluice: Sluice) -> None:
    write("cases.yaml", INLINE, "cases:", "- {event: {symbol: GE}, matches: [s1, s2, s3]}")
    code, out, _ = sluice("test", "--json", "cases.yaml")
    outcome, summary = map(json.loads, out.splitlines())
    assert code == 1
    assert (outcome["case"], outcome["passed"]) == ("case 1", False)
    assert outcome["expected"] == {"matches": ["s1", "s2", "s3"]}
    assert outcome["found"] == {"bob": ["s2"], "carol": ["s3"]}
    assert [m["id"] for m in outcome["missing"]] == ["s1"]
    assert summary == {"passed": 0, "failed": 1}


def test_subscriptions_of_a_case_are_a_file_beside_it_or_a_list(sluice: Sluice) -> None:
    Path("inner").mkdir()
    write("inner/s.jsonl", BOB)
    write("inner/cases.yaml", "subscriptions: s.jsonl", "cases: [{event: {symbol: GE}, matches: [s2]}]")
    write("cases.yaml", f"subscriptions: [{BOB}]", "cases: [{event: {symbol: GE}, matches: [s2]}]")
    assert sluice("test", "inner/cases.yaml", "cases.yaml") == (0, "2 passed, 0 failed\n", "")


def test_what_has_expired_counts_in_cases(sluice: Sluice) -> None:
    write("cases.yaml", f"subscriptions: [{EXPIRED}]", "cases: [{event: {}, matches: [s4]}]")
    assert sluice("test", "cases.yaml")[0] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a mapping with the keys subscriptions and cases, not nothing"),
        ("[]", "not an empty list"),
        ("case: []", "unknown key 'case'; did you mean 'cases'?"),
        (INLINE, "the key 'cases' is missing"),
        (INLINE + "cases: []", "cases must be a list of at least one case, not an empty list"),
        (INLINE + "cases: [5]", "case 1: must be a mapping with an event and what it matches, not a number"),
        (INLINE + "cases: [{evnt: {}, matches: []}]", "case 1: unknown key 'evnt'; did you mean 'event'?"),
        (INLINE + "cases: [{name: a, matches: []}]", "case 'a': event is missing"),
        (INLINE + "cases: [{event: [], matches: []}]", "event must be a mapping, not an empty list"),
        (INLINE + "cases: [{event: {}}]", "has no expected result; give one of matches, deliveries"),
        (INLINE + "cases: [{event: {}, matches: s1}]", "matches must be a list of ids, such as [s1], not a string"),
        (INLINE + "cases: [{event: {}, matches: [1]}]", "matches: an id must be a string, not a number; put it"),
        (INLINE + "cases: [{event: {}, matches: [s11]}]", "no subscription has the id 's11'; did you mean 's1'?"),
        (INLINE + "cases: [{event: {}, deliveries: [s1]}]", "deliveries must be lists of ids by subscriber"),
        (INLINE + "cases: [{event: {}, deliveries: {bob: [s1]}}]", "deliveries: 's1' is alice's and never bob's"),
        (INLINE + "cases: [{event: {}, deliveries: {bib: []}}]", "subscriber 'bib' has no subscription; did you mean"),
        (INLINE + "cases: [{name: 5, event: {}, matches: []}]", "case 1: name must be a string, not a number"),
        (
            INLINE + f"cases: [{{event: {{x: {'[' * 70}{']' * 70}}}, matches: []}}]",
            "case 1: event is nested deeper than 64",
        ),
        ("subscriptions: 5\ncases: [5]", "subscriptions must be a file, or a list or mapping, not a number"),
        ("subscriptions: none.jsonl\ncases: [5]", "none.jsonl: cannot be read: No such file"),
        ("subscriptions: {s1: {}}\ncases: [5]", "cases.yaml, subscription s1: id s1: subscriber must be"),
        ("subscriptions: [{}]\ncases: [5]", "cases.yaml, subscription 1: id must be a string"),
        ("a: [", "cases.yaml, line 1: not YAML: "),
        ("a: 1\na: 2", "cases.yaml, line 2: duplicate key 'a'"),
        ("a: 1\n---\nb: 2", "not YAML: expected a single document in the stream"),
        ("1: 1", "cases.yaml, line 1: a key must be a string; put '1' in quotes"),
        ("a: !!python/object/apply:os.system [exit]", "the tag '!!python/object/apply:os.system' means nothing"),
        ("a: !!timestamp 2026-01-01", "the tag '!!timestamp' means nothing in JSON"),
        ("a: 1e999", "'1e999' is beyond all doubles"),
        ("a: !!int x", "'x' is not a number"),
        ("a: !!bool maybe", "'maybe' is neither true nor false"),
        ('a: "\\ud800"', "a string has an unpaired surrogate"),
        ("a: \x01", "not YAML: special characters are not allowed"),
        ("a: &a [*a]", "recursive"),
        ("a: " + "[" * 3_000, "nested too deeply"),
        (b"a: \xff", "cases.yaml: not UTF-8: byte 4 is 0xff"),
    ],
)
def test_a_wrong_file_of_cases_is_rejected(sluice: Sluice, text: str | bytes, reason: str) -> None:
    write("cases.yaml", text)
    code, out, err = sluice("test", "cases.yaml")
    assert (code, out) == (2, "")
    assert reason in err


def test_all_that_is_wrong_with_cases_is_told_at_once(sluice: Sluice) -> None:
    write("cases.yaml", INLINE, "cases: [{evnt: {}, matches: [x]}, {event: {}}]")
    assert len(sluice("test", "cases.yaml")[2].splitlines()) == 4


@pytest.mark.parametrize("entry", ["18446744073709551617", '{"numeric": [">", -9223372036854775809]}'])
def test_an_integer_that_no_double_holds_is_rejected_however_long(sluice: Sluice, entry: str) -> None:
    document = f'{{"id": "s1", "subscriber": "a", "pattern": {{"x": [{entry}]}}}}'
    write("s.jsonl", document)
    write("s.json", document)
    write("cases.yaml", f"subscriptions: [{document}]", "cases: [{event: {x: 18446744073709551616}, matches: [s1]}]")
    for command in (["validate", "s.jsonl"], ["validate", "s.json"], ["test", "cases.yaml"]):
        code, out, err = sluice(*command)
        assert code, command
        assert "cannot be held exactly by a double" in out + err


def test_an_integer_beyond_64_bits_in_an_event_is_the_nearest_double(sluice: Sluice) -> None:
    documents = "[{id: s1, subscriber: a, pattern: {x: [18446744073709551616]}}]"
    write("cases.yaml", f"subscriptions: {documents}", "cases: [{event: {x: [18446744073709551617]}, excludes: [s1]}]")
    code, out, _ = sluice("test", "cases.yaml", "--json")
    assert code == 1
    assert json.loads(out.splitlines()[0])["unexpected"][0]["predicates"][0]["found"] == 2.0**64


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (word, word)
            for word in ("NO", "on", "yes", "2026-01-01", "2026-01-01T10:00:00Z", "12:30:45", "007", "0x1F")
        ),
        *((word, word) for word in ("1_000", ".inf", ".nan", "1.2.3", "-a", "a", "s1", "1e", "+", ".")),
        *(("'5'", "5"), ('"true"', "true"), ("true", True), ("False", False), ("null", None), ("~", None), ("", None)),
        *(("5", 5), ("-5", -5), ("0", 0), ("5.0", 5.0), (".5", 0.5), ("1e3", 1e3), ("-1.5E-2", -0.015), ("5.", 5.0)),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551617", 2**64 + 1),
        ("1" + "0" * 300, 10**300),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("{<<: {a: 1, b: 2}, b: 3}", {"a": 1, "b": 3}),
    ],
)
def test_yaml_means_what_json_would(text: str, value: object) -> None:
    found = yaml.load(f"x: {text}".encode(), "f")["x"]
    assert (found, type(found)) == (value, type(value))


def test_the_same_word_is_not_read_in_two_ways() -> None:
    assert yaml.load(b"{on: 1, y: 2}", "f") == {"on": 1, "y": 2}
    with pytest.raises(InputError, match="put 'null' in quotes"):
        yaml.load(b"{null: 1}", "f")


def test_a_file_of_yaml_1_1_is_read_as_yaml_1_2_and_an_anchor_may_be_used_again() -> None:
    assert yaml.load(b"%YAML 1.1\n---\n{a: no, b: 010}\n", "f") == {"a": "no", "b": "010"}
    assert yaml.load(b"[&a 1, &a 2, *a]", "f") == [1, 2, 2]


# documents


def test_the_how_to_shows_what_these_commands_print() -> None:
    shown = list(steps("docs/how-to/test-subscriptions.md"))
    assert len(shown) >= 4
    for step in shown:
        done = subprocess.run(
            ["bash", "-c", step.command.replace("python run_stream.py", f"{sys.executable} run_stream.py")],
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert step.said, step.command
        assert (done.returncode, step.expects(done.stdout)) == (step.code, True), (step.command, done.stdout)


def test_the_example_cases_pass(sluice: Sluice) -> None:
    assert sluice("test", str(HOME / "examples" / "cases.yaml")) == (0, "4 passed, 0 failed\n", "")


def test_the_example_subscriptions_are_accepted(sluice: Sluice) -> None:
    code, _, err = sluice("validate", str(HOME / "examples" / "subscriptions.jsonl"), WATCHLIST)
    assert (code, err) == (0, "1,004 of 1,004 accepted\n")
