"""The interpreter of executors, compared with the driver's."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from streaming.worker.interpreter import Interpreter, is_ours

OURS = sys.version.split()[0]


@pytest.mark.parametrize(
    ("python", "lacking", "problem"),
    [
        (OURS, {}, ""),
        ("2.7.18", {}, f"executor on h: python3 (Python 2.7.18) is not of the driver's version {OURS}"),
        (OURS, {"numpy": "no such module"}, f"executor on h: python3 (Python {OURS}) lacks numpy (no such module)"),
    ],
)
def test_the_problem_names_host_interpreter_and_package(python: str, lacking: dict[str, str], problem: str) -> None:
    assert Interpreter("h", "python3", python, {}, lacking).problem() == problem


def test_packages_of_other_versions_are_named() -> None:
    import orjson

    same, other = {"orjson": orjson.__version__}, {"orjson": "0.1"}
    assert Interpreter("h", "p", OURS, same, {}).others() == []
    assert Interpreter("h", "p", OURS, other, {}).others() == [f"orjson 0.1, the driver's is {orjson.__version__}"]


@dataclass
class SparkContextDouble:
    master: str
    pythonExec: str  # noqa: N815  # PySpark's name


@pytest.mark.parametrize(
    ("master", "program", "ours"),
    [
        ("local[*]", sys.executable, True),
        ("local", sys.executable, True),
        ("local[1]", "/no/such/python", False),
        ("local-cluster[1,1,1024]", sys.executable, False),
        ("spark://h:7077", sys.executable, False),
    ],
)
def test_only_another_interpreter_is_asked(master: str, program: str, ours: bool) -> None:
    assert is_ours(SparkContextDouble(master, program)) == ours  # type: ignore[arg-type]  # all that is looked at
