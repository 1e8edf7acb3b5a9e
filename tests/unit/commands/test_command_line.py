"""Properties of all commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from commands import HOME
from run_stream import app

TABLES = ("bench sweep", "bench choices", "bench search")
# Theirs is JSON anyway, or an address; the job's own lines are `log.format`.
WITHOUT_JSON = ("run", "broker", "schema", "translate", "jars", "warm", "subscriptions export", *TABLES)
OFFLINE = ("demo", "broker", "jars", "schema", "translate", "validate", "match", "explain", "test", "bench")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, listed in group.commands.items():
        command = listed.make_context(name, [], resilient_parsing=True).command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


GROUP = get_command(app)
assert isinstance(GROUP, TyperGroup)
LISTED = GROUP.commands  # as the command line lists them, before one is called
COMMANDS = dict(commands(GROUP))


@pytest.mark.parametrize("name", LISTED)
def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with(name: str) -> None:
    own = LISTED[name].make_context(name, [], resilient_parsing=True).command
    assert own.help is not None
    assert own.help.split("\n\n")[0] == LISTED[name].help


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "config show",
        "schema",
        *(f"{name} --help" for name in ("topics list", "produce", "subscribe", "subscriptions list", "dlq list")),
        *(f"{name} --help" for name in ("consume", "tap", "top", "doctor", "broker", "run", "subscribers")),
    ],
)
def test_a_command_that_computes_nothing_does_not_import_what_does(arguments: str) -> None:
    command = [sys.executable, "-X", "importtime", "run_stream.py", *arguments.split()]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported & {"numpy", "numba", "pyspark", "pyarrow", "matplotlib", "bench"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_flag_has_its_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert not [p.name for p in command.params if not p.help and not getattr(p, "hidden", False)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_json_and_takes_the_settings(name: str) -> None:
    flags = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    assert ("--json" in flags) is (name not in WITHOUT_JSON)
    assert ({"--config", "--bootstrap-servers", "--set"} <= flags) is (name.split()[0] not in OFFLINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topics", "list", "--set", "events"), "--set takes section.key=value, not 'events'"),
        (("doctor", "--set", "event.topic=x"), "event"),
        (("subscriptions", "list", "--limit", "0"), "Invalid value for '--limit'"),
        (("tap",), "Missing argument"),
        (("consume", "alice", "-n", "9223372036854775808"), "Invalid value for '--count'"),
        (("produce", "--rate", "inf"), "Invalid value for '--rate'"),
        (("replay", "s1", "--from", "1h", "--rate", "inf"), "Invalid value for '--rate'"),
        (("replay", "\udcff", "--from", "1h"), "an id must be UTF-8"),
        (("backtest", "\udcff", "--from", "1h"), "the pattern is not JSON"),
        (("warm", "nosuch"), "unknown algorithm 'nosuch'"),
        (
            ("subscribe", "f.jsonl", "--id", "a", "--subscriber", "b", "--pattern", "{}"),
            "write either the subscriptions of a file or a single one",
        ),
        (("subscribe", "--id", "", "--subscriber", "", "--pattern", ""), "needs --id, --subscriber and --pattern"),
        (("topics", "list", "--config", "hdfs:///a.toml"), "which only `run` under spark-submit can read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_is_rejected_before_any_broker_is_asked(arguments: tuple[str, ...], message: str) -> None:
    rejected = CliRunner().invoke(app, arguments, env={"COLUMNS": "250"})
    assert rejected.exit_code != 0
    assert message in rejected.output or message in str(rejected.exception)


@pytest.mark.parametrize(
    "arguments",
    [("schema",), ("match", "examples/subscriptions.jsonl", "examples/stock_events.jsonl")],
    ids=lambda a: a[0],
)
def test_who_has_read_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "run_stream.py", *arguments]
        done = subprocess.run(command, cwd=HOME, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">&-", 0, b""),
        (">/dev/full", 2, b"error: standard output cannot be written: No space left on device"),
        (">/dev/null 2>&-", 0, b""),
        ("<&-", 0, b""),
    ],
)
def test_output_that_cannot_be_written_is_an_error_and_one_that_is_closed_is_none(
    redirection: str, code: int, message: bytes
) -> None:
    command = f"{sys.executable} {HOME / 'run_stream.py'} schema {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=HOME, capture_output=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (code, message)


def test_a_file_does_not_get_the_number_of_a_closed_stream() -> None:
    code = "import run_stream, os; run_stream._open_closed_streams(); print(os.open('/', os.O_RDONLY) > 2)"
    command = f'{sys.executable} -c "{code}" 2>&- <&-'
    done = subprocess.run(["bash", "-c", command], cwd=HOME, capture_output=True, check=True)
    assert done.stdout == b"True\n"


def test_what_is_started_has_the_streams_that_were_closed() -> None:
    code = "import run_stream, os; run_stream._open_closed_streams(); print(*map(os.get_inheritable, range(3)))"
    command = f'{sys.executable} -c "{code}" 2>&- <&-'
    done = subprocess.run(["bash", "-c", command], cwd=HOME, capture_output=True, check=True)
    assert done.stdout == b"True True True\n"
