"""The documents are true: their code, examples, commands and links."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from matchers import Index, MatchingError
from matchers.language import naive
from matchers.language.parsing import parse
from matchers.library import FEW_EVENTS
from streaming.codecs import Undecodable, decode_event
from streaming.documents.subscriptions import read_change
from tests.support.documents import DOCUMENTS, HOME, anchors, blocks, links, prose, steps


@pytest.mark.parametrize("document", ["README.md", "docs/architecture.md", "docs/library.md", "matchers/README.md"])
def test_every_python_block_gives_what_its_comments_say(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(document, "python"):
        names: dict[str, object] = {}
        exec(block, names)
        message = 0
        for line in block.splitlines():
            code, hash_mark, comment = line.partition("  #")
            if not hash_mark or "=" in code.split("(")[0]:
                continue
            message += 1
            capsys.readouterr()
            result = eval(code.strip(), names)
            printed = capsys.readouterr().out.strip()
            assert (printed or repr(result).replace("'", '"')) == comment.strip(" #")
        assert message


def test_the_language_examples_are_accepted() -> None:
    subscription, pattern = blocks("SUBSCRIPTIONS.md", "json")
    assert read_change(b"s1", subscription.encode()).subscription.subscriber == "alice"
    parse(json.loads(pattern))


def rows(header: str) -> list[list[str]]:
    """The cells of all tables of SUBSCRIPTIONS.md that have this header."""
    lines = (HOME / "SUBSCRIPTIONS.md").read_text().splitlines()
    found = []
    for start in [i for i, line in enumerate(lines) if line.startswith(header)]:
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def in_backticks(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def test_every_rule_has_an_example_that_is_so() -> None:
    examples = rows("| pattern | yes | no |")
    assert len(examples) > 40
    for pattern, yes, no in examples:
        (text,) = in_backticks(pattern)
        index = Index.build({"s": json.loads(text)})
        for cell, expected in ((yes, [["s"]]), (no, [[]])):
            for event in map(json.loads, in_backticks(cell)):
                assert index.match([event]) == expected, (pattern, event)
                assert naive.matches(parse(json.loads(text)), event) is bool(expected[0])


def test_what_is_no_event() -> None:
    for value, reason in rows("| value | reason |"):
        with pytest.raises(Undecodable) as error:
            decode_event(in_backticks(value)[0].encode())
        assert reason.split(":")[0] in str(error.value)
        for n in (1, FEW_EVENTS + 1):
            with pytest.raises(MatchingError, match=r"not JSON|is a JSON object, not|nested deeper than 64 levels"):
                Index.build({"s": {}}).match([in_backticks(value)[0].encode()] * n)


def test_the_truth_table() -> None:
    lines = (HOME / "SUBSCRIPTIONS.md").read_text().splitlines()
    (header,) = [line for line in lines if line.startswith("| event's")]
    entries = {
        "numeric >= 0": {"numeric": [">=", 0]},
        'prefix ""': {"prefix": ""},
        'suffix "5"': {"suffix": "5"},
        "wildcard *": {"wildcard": "*"},
        "text-length = 1": {"text-length": ["=", 1]},
        "numeric-text > 0": {"numeric-text": [">", 0]},
        'text >= "2"': {"text": [">=", "2"]},
        "time >= 1970": {"time": [">=", "1970-01-01T00:00:00Z"]},
        "cidr 0.0.0.0/0": {"cidr": "0.0.0.0/0"},
        "anything-but 5": {"anything-but": 5},
        'anything-but suffix "5"': {"anything-but": {"suffix": "5"}},
        "compare-field = y": {"compare-field": ["=", "y"]},
        "compare-field >= y": {"compare-field": [">=", "y"]},
        "exists true": {"exists": True},
        "exists false": {"exists": False},
    }
    columns = [in_backticks(cell)[0] for cell in header.strip("|").split("|")[1:]]
    negated: dict[str, dict[str, Any]] = {"$not 5": {"$not": {"x": [5]}}}
    patterns = [negated.get(c) or {"x": [entries[c] if c in entries else json.loads(c)]} for c in columns]
    table = rows("| event's")
    assert len(table) == 13
    for value, *cells in table:
        for event in [{}] if value == "absent" else [{"x": json.loads(text)} for text in in_backticks(value)]:
            event["y"] = 5
            found = ["yes" if naive.matches(parse(p), event) else "no" for p in patterns]
            assert found == cells, value


# Which test runs the commands of a document; `make` and what needs root or an engine are looked at below.
RUN_BY = {
    "README.md": "",
    "CONTRIBUTING.md": "",
    "docker/README.md": "tests/containers/test_compose.py",
    "docs/benchmarks.md": "tests/bench/test_matchers.py",
    "docs/how-to/checkpoint-by-url.md": "tests/integration/deploy/test_s3.py",
    "docs/how-to/connect.md": "tests/integration/commands/test_tutorial.py",
    "docs/how-to/spark-submit.md": "tests/integration/deploy/test_submit.py",
    "docs/permissions.md": "tests/support/doubles/secured.py",
    "docs/papers.md": "tests/bench/test_matchers.py",
    "docs/algorithms.md": "tests/unit/matchers/algorithms/test_adding.py",
    "docs/how-to/test-subscriptions.md": "tests/unit/offline/test_offline.py",
    "docs/tutorial.md": "tests/integration/commands/test_tutorial.py",
}


def test_every_command_of_a_document_is_run_by_a_test() -> None:
    assert {document for document in DOCUMENTS if blocks(document, "sh")} == RUN_BY.keys()
    for test in filter(None, RUN_BY.values()):
        assert (HOME / test).exists(), test
    by_make = [document for document, test in RUN_BY.items() if not test]
    assert all(step.command.startswith("make ") for document in by_make for step in steps(document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_make_is_told_it_knows(document: str) -> None:
    known = set(re.findall(r"^([a-z0-9-]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
    text = (HOME / document).read_text()
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.MULTILINE)) <= known


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_link_leads_nowhere(document: str) -> None:
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (HOME / document).parent / path if path else HOME / document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_files_that_a_document_names_are_there(document: str) -> None:
    top = "bench|commands|config|deploy|docker|docs|examples|matchers|offline|rig|streaming|tests"
    for name in re.findall(rf"`((?:{top})/[\w./-]*)`", prose(document)):
        assert (HOME / name).exists(), name
