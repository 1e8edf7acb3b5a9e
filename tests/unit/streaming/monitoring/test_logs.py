"""Log lines: the same names for people and for programs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping

import pytest

from streaming.driver.pipeline import log as batch_log
from streaming.monitoring import logs
from tests.unit.streaming.monitoring.test_monitoring import report

ONE = {"oversize": 1}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger("sluice")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def batch_line(capsys: pytest.CaptureFixture[str], format: str, dead_letters: Mapping[str, int] = ONE) -> str:
    logs.configure(format, "info")
    batch_log.info("batch", **report(1e9, (5.0,), dead_letters=dead_letters).fields())
    captured = capsys.readouterr()
    assert captured.out == ""  # that is for data
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_batch_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(batch_line(capsys, "json"))
    assert (line["event"], line["level"], line["events"], line["matches"]) == ("batch", "info", 1, 3)
    assert line["dead_letters"] == {"oversize": 1}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_the_line_for_people_has_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    of_json = json.loads(batch_line(capsys, "json"))
    text = batch_line(capsys, "text")
    names = re.findall(r" ([a-z_]+)=", text)
    assert names == [name for name in of_json if name not in ("time", "level", "event", "latencies")]
    assert " info batch batch=1 events=1 " in text
    assert " dead_letters=oversize:1 " in text
    assert " dead_letters=- " in batch_line(capsys, "text", {})


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str], format: str) -> None:
    logs.configure(format, "warning")
    batch_log.info("batch")
    assert capsys.readouterr().err == ""


def test_an_exception_is_in_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    try:
        raise ValueError("a\nb")
    except ValueError:
        batch_log.exception("broken")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["exception"].endswith("ValueError: a\nb")) == ("broken", True)


def test_fields_may_have_any_name_and_a_message_any_character(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    batch_log.warning("100 % of %s", **{"from": 1, "to": None, "name": "a", "level_of": "b"})
    line = json.loads(capsys.readouterr().err)
    assert {**line, "time": ""} == {
        "time": "",
        "level": "warning",
        "event": "100 % of %s",
        "from": 1,
        "to": None,
        "name": "a",
        "level_of": "b",
    }


def test_lines_of_the_standard_library_s_loggers_are_written_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    logging.getLogger("sluice.matching").info("built %s", "hem")
    assert json.loads(capsys.readouterr().err)["event"] == "built hem"
