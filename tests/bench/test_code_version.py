"""A measurement says which code it is of, and the page names what has changed since."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.papers.code_version import HOME, CodeSources, code_version_of_all
from bench.papers.older_code import report

FILES = {
    "matchers/__init__.py": "from matchers.algorithms import fast\n",
    "matchers/algorithms/__init__.py": "from matchers import algorithms\nfrom matchers.algorithms.fast import match\n",
    "matchers/algorithms/fast/__init__.py": """
from matchers.kernels import rows, mark
MOST: int = 8
def match(events: list) -> int:
    'Match.'
    if not events:
        raise ValueError(f"no events; at most {MOST}") from None
    return rows.count(events, MOST) + mark(events)
class Fast:
    def match(self, events):
        return shared(match(events))
    def alone(self):
        return lambda event: shared(first(rows.count(event, 1)))
def first(events):
    return second(events)
def second(events):
    return events[0]
def shared(events):
    return events
""",
    "matchers/kernels/__init__.py": "from matchers.kernels.marks import mark\n",
    "matchers/kernels/marks.py": "def mark(events):\n    return 1\ndef unused():\n    return 2\n",
    "matchers/kernels/rows.py": "from matchers.kernels.jit import kernel\n@kernel\n"
    "def count(events, most):\n    return most\n",
    "matchers/kernels/jit/__init__.py": "def kernel(function):\n    return function\n",
}


def version(home: Path, changes: dict[str, tuple[str, str]], *, alone: bool = False) -> str:
    for name, text in FILES.items():
        old, new = changes.get(name, ("", ""))
        assert old in text
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text.replace(old, new) if old else text)
    return CodeSources(home).version("fast", alone=alone)


@pytest.mark.parametrize(
    ("file", "old", "new", "is_other"),
    [
        ("algorithms/fast/__init__.py", "MOST: int = 8", "MOST: int = 9", True),
        ("algorithms/fast/__init__.py", "+ mark", "- mark", True),
        ("kernels/rows.py", "return most", "return most + 0", True),
        ("kernels/marks.py", "return 1", "return 3", True),
        ("kernels/marks.py", "return 2", "return 3", False),
        ("kernels/jit/__init__.py", "return function", "return function  or None", False),
        ("algorithms/fast/__init__.py", "if not events", "if events is None", True),
        ("algorithms/fast/__init__.py", "raise ValueError", "raise TypeError", True),
        ("algorithms/fast/__init__.py", 'f"no events; at most {MOST}"', "mark(events), 'no events'", False),
        ("algorithms/fast/__init__.py", "'Match.'", "'Find matches.'", False),
        ("algorithms/fast/__init__.py", "(events: list) -> int", "(events: 'list[int]') -> 'object'", False),
        ("algorithms/fast/__init__.py", "MOST: int = 8", "MOST: 'int' = 8  # lanes", False),
        ("algorithms/fast/__init__.py", "lambda event:", "lambda one, event=None:", False),
        ("algorithms/fast/__init__.py", "return second(events)", "return second(events[:1])", False),
        ("algorithms/fast/__init__.py", "return events[0]", "return events[-1]", False),
        ("algorithms/fast/__init__.py", "return events\n", "return events[:]\n", True),
    ],
)
def test_the_version_is_another_if_what_runs_is_another(
    tmp_path: Path, file: str, old: str, new: str, is_other: bool
) -> None:
    before = version(tmp_path, {})
    assert (version(tmp_path, {f"matchers/{file}": (old, new)}) != before) is is_other


@pytest.mark.parametrize(
    ("old", "new", "is_other"),
    [
        ("rows.count(event, 1)", "rows.count(event, 2)", True),
        ("return second(events)", "return second(events[:1])", True),
        ("return events[0]", "return events[-1]", True),
        ("MOST: int = 8", "MOST: int = 9", True),
        ("def alone(self):", "def alone(self) -> object:\n        'One event.'", False),
    ],
)
def test_what_matches_an_event_alone_counts_if_it_is_asked_for(
    tmp_path: Path, old: str, new: str, is_other: bool
) -> None:
    before = version(tmp_path, {}, alone=True)
    changes = {"matchers/algorithms/fast/__init__.py": (old, new)}
    assert (version(tmp_path, changes, alone=True) != before) is is_other


def test_several_algorithms_have_one_version_in_any_order() -> None:
    assert code_version_of_all(["scan", "hem"]) == code_version_of_all(["hem", "scan", "scan"])
    assert code_version_of_all(["scan", "hem"]) != code_version_of_all(["scan"])


def test_a_definition_may_move(tmp_path: Path) -> None:
    before = version(tmp_path, {})
    (tmp_path / "matchers/kernels/marks.py").rename(tmp_path / "matchers/kernels/bits.py")
    (tmp_path / "matchers/kernels/__init__.py").write_text("from matchers.kernels.bits import mark\n")
    assert CodeSources(tmp_path).version("fast") == before


def test_an_algorithm_that_is_not_there_has_no_version(tmp_path: Path) -> None:
    version(tmp_path, {})
    assert CodeSources(tmp_path).version("slow") == ""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Python 3.11 made the versions in the files")
def test_the_files_of_older_code_are_named() -> None:
    directory = HOME / "docs" / "papers"
    named = (directory / "older-code.txt").read_text()
    assert named == report(directory), "`python -m bench.papers.older_code > docs/papers/older-code.txt` names them"


def test_rows_about_several_algorithms_are_not_named(tmp_path: Path) -> None:
    (tmp_path / "choices.csv").write_text("code,workload,checked\n0123456789,hem,True\n")
    assert report(tmp_path) == ""
