"""Log lines: the same names for people and for programs."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters

from streaming.driver.pipeline import log as batch_log
from streaming.log import error_fields
from streaming.log_events import BOUND, EVENTS
from streaming.monitoring import logs
from streaming.version import VERSION
from tests.unit.streaming.monitoring.test_monitoring import report

ONE = {"oversize": 1}
WITH_ZONE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger("sluice")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def batch_line(capsys: pytest.CaptureFixture[str], format: str, dead_letters: Mapping[str, int] = ONE) -> str:
    logs.configure(format, "info", "orders")
    batch_log.info("batch_finished", **report(1e9, (5.0,), dead_letters=dead_letters).fields())
    captured = capsys.readouterr()
    assert captured.out == ""  # that is for data
    assert captured.err.count("\n") == 1
    return captured.err


def names(text: str) -> list[str]:
    return re.findall(r" ([a-z_]+)=", text)


def test_a_batch_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(batch_line(capsys, "json"))
    assert (line["event"], line["level"], line["event_count"], line["match_count"]) == ("batch_finished", "info", 1, 3)
    assert line["dead_letter_counts"] == {"oversize": 1}
    assert re.fullmatch(WITH_ZONE, line["timestamp"])
    assert line["timestamp"].endswith("+00:00")
    absent = {"publish_error_counts", "state_version", "subscription_count", "segment_count"}  # from this report
    assert line.keys() - {*logs.HEAD, *BOUND} == {*EVENTS["batch_finished"].fields} - absent


def test_a_line_of_json_names_the_query_the_version_and_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(batch_line(capsys, "json"))
    assert (line["query"], line["version"], line["pid"]) == ("orders", VERSION, os.getpid())


def test_the_line_for_people_has_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    text, of_json = batch_line(capsys, "text"), json.loads(batch_line(capsys, "json"))
    assert {*names(text)} < of_json.keys()
    assert re.match(rf"{WITH_ZONE} info batch_finished batch_id=1 event_count=1 ", text)
    assert " dead_letter_counts=oversize:1 " in text
    assert "dead_letter_counts" not in batch_line(capsys, "text", {})


def test_the_line_for_people_of_a_batch_in_which_nothing_unusual_happened_is_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = report(1e9, (5.0,), dead_letters={})
    usual.counts.update(dict.fromkeys(usual.counts, 0) | {"changes": 2, "matches": 0})
    usual.state = {"version": 1, "subscriptions": 2, "segments": 3}
    logs.configure("text", "info")
    batch_log.info("batch_finished", **usual.fields())
    shown = names(capsys.readouterr().err)
    assert len(shown) <= 10
    assert {"match_count", "subscription_count", "duration_ms"} <= {*shown}  # though there are no matches


def test_a_warning_has_a_sentence_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = EVENTS["state_save_failed"].meaning
    for format, expected in (("text", f'message="{sentence}"'), ("json", f'"message":"{sentence}"')):
        logs.configure(format, "info")
        batch_log.warning("state_save_failed", **error_fields(OSError("full")))
        assert expected in capsys.readouterr().err


def test_where_the_name_suffices_there_is_no_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("text", "info")
    batch_log.info("job_stopped")
    assert capsys.readouterr().err.endswith(" info job_stopped\n")


def test_an_error_has_its_type_and_its_text() -> None:
    assert error_fields(OSError("full")) == {"error_type": "OSError", "error": "full"}
    assert error_fields(OSError(), "no space") == {"error_type": "OSError", "error": "no space"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.5, "1.5"),
        (None, "-"),
        ({}, "-"),
        ("", "-"),
        ([], "-"),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('"', '"\\""'),
        ("a\nb", '"a\\nb"'),
        ("ä", "ä"),
        ("a\x9bb", '"a\\u009bb"'),
        ("a\u202eb", '"a\\u202eb"'),
        (["a", "b"], "a,b"),
        ({"p50": 1.0, "max": None}, "p50:1.0,max:-"),
    ],
)
def test_the_end_of_a_value_can_be_seen(capsys: pytest.CaptureFixture[str], value: object, shown: str) -> None:
    logs.configure("text", "info")
    batch_log.info("x", value=value, other=1)
    assert capsys.readouterr().err.endswith(f" x value={shown} other=1\n")


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str], format: str) -> None:
    logs.configure(format, "warning")
    batch_log.info("batch_finished")
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
    fields = {"from": 1, "to": None, "name": "a", "level_of": "b"}
    batch_log.warning("100 % of %s", **fields)
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "100 % of %s"
    assert {name: line[name] for name in fields} == fields


def test_lines_of_the_standard_library_s_loggers_are_written_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    log = logging.getLogger("sluice.matching")
    log.info("built %s", "hem")
    assert json.loads(capsys.readouterr().err)["event"] == "built hem"
    log.info("built %s", "hem", extra={"event": "index_chosen"})
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["message"]) == ("index_chosen", "built hem")


def test_the_end_of_a_connection_to_the_jvm_is_no_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logs.configure("text", "info")
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def end() -> None:
            connection, _ = server.accept()
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            connection.close()

        ended = pool.submit(end)
        client = GatewayClient(gateway_parameters=GatewayParameters(*server.getsockname()))
        assert client.send_command("c\n", retry=False) == "x"  # its word for an error
        ended.result()
    call = logging.getLogger("py4j.clientserver")  # which calls our code for Spark
    for error in (ConnectionRefusedError(111, "Connection refused"), ValueError("ours")):
        call.error("it failed", exc_info=error)
    logging.getLogger().warning("of somebody else")
    assert caplog.messages == ["it failed", "of somebody else"]
    assert "ValueError: ours" in caplog.text
