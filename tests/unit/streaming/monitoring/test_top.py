"""`top` on a terminal: the figures of the status, and the message if no job runs."""

from __future__ import annotations

import fcntl
import http.server
import io
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from commands import HOME
from commands import top as top_command
from rig.broker import free_port
from streaming.errors import NotRunning
from streaming.monitoring import status, top
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.verdicts import BROKER_S
from streaming.monitoring.view import JobView, Lag, Trouble
from streaming.monitoring.web.server import Server
from streaming.process import checkpoint
from streaming.process.supervision import TRY_AGAIN
from tests.support.patience import PATIENCE_S
from tests.unit.streaming.monitoring.test_monitoring import ABOUT, HOSTILE, TOPICS, Asked, busy

LEAVES = b"\x1b[?1049l"  # a terminal's other screen; what it showed there last is written again, and stays
NASTY = f"[bold]\x1b[2J\r\n\t\N{RIGHT-TO-LEFT OVERRIDE}{HOSTILE}"


def text(view: JobView, columns: int = 200) -> str:
    """Return the view as lines, as a terminal gets them."""
    console = Console(width=columns, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(top.render(json.loads(status.as_json(status.document(view)))))
    return captured.get()


def rows(view: JobView) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text(view).splitlines()]


def new() -> JobView:
    """Return the view of a job that has just started."""
    return Monitor(replace(ABOUT, past=None), TOPICS, Asked()).view()


def hostile() -> JobView:
    view = busy()
    lag = (Lag(NASTY, 0, 0, 5),)
    troubles = (Trouble(0.0, NASTY, NASTY, {NASTY: NASTY}),)
    about = replace(view.about, query=NASTY, algorithm=NASTY, codec=NASTY)
    figures = replace(view.figures, dead_letters={NASTY: 3})
    return replace(
        view, about=about, phase=NASTY, figures=figures, lag=lag, troubles=troubles, resident_bytes={NASTY: 1}
    )


@pytest.mark.parametrize(
    "row",
    [
        ["orders", "running", "for", "0", "s", "alive", "ready", "scan,", "json,", "Sluice", "0.1.0"],
        ["events/s", "0", "3", "since", "the", "start"],
        ["deliveries/s", "0", "6", "since", "the", "start"],
        ["records", "behind", "4", "last", "batch", "1970-01-12", "13:46:40", "UTC"],
        ["subscriptions", "0", "0", "segments,", "0", "bytes,", "version", "0"],
        ["changes", "0", "0", "rejected,", "2", "deliveries", "over", "quota"],
        ["dead", "letters", "3", "oversize", "3"],
        ["published", "by", "tasks", "2.0", "kB", "Produce", "NOT_LEADER_FOR_PARTITION", "2"],
        ["restarts", "2", "last", "after", "exit", "code", "-9"],
        ["workers", "lost", "0"],
        ["memory", "5", "bytes", "JVM", "5", "bytes,", "heap", "1", "bytes", "of", "2", "bytes"],
        ["latency,", "last", "5", "min", "p50", "p95", "p99", "max"],
        ["total", "202", "ms", "3.00", "s", "3.00", "s", "3.00", "s"],
        ["events", "0", "4"],
        ["subs", "0", "0"],
    ],
    ids=lambda row: row[0],
)
def test_it_shows_what_the_status_says(row: list[str]) -> None:
    assert row in rows(busy())


@pytest.mark.parametrize(
    "row",
    [
        ["the", "state", "is", "being", "restored"],
        ["state", "-", "restoring"],
        ["dead", "letters", "0"],
        ["restarts", "-"],
        ["memory", "-"],
        ["total", "-", "-", "-", "-"],
        ["records", "behind", "-", "no", "batch", "yet"],
    ],
    ids=lambda row: " ".join(row),
)
def test_what_there_is_nothing_of_yet_is_said(row: list[str]) -> None:
    assert row in rows(new())


@pytest.mark.parametrize("seconds", [1, BROKER_S + 1])
def test_why_the_broker_does_not_answer_is_said_once(seconds: float) -> None:
    view = busy()
    broker = replace(view.broker, error="the broker is away", answered_at=view.now - seconds)
    assert text(replace(view, broker=broker)).count("the broker is away") == 1


def test_texts_from_outside_stay_texts_on_their_lines() -> None:
    found = text(hostile())
    assert [c for c in found if not c.isprintable() and c != "\n"] == []
    tame = text(replace(hostile(), troubles=(Trouble(0.0, "x", "x", {}),), lag=(Lag("x", 0, 0, 5),)))
    assert len(found.splitlines()) - len(tame.splitlines()) in (0, 1)  # a long line is folded
    assert "[bold]" in found


def test_of_many_partitions_those_that_are_furthest_behind_are_shown() -> None:
    found = rows(replace(busy(), lag=tuple(Lag("events", n, 0, n) for n in range(100))))
    assert [row for row in found if row and row[0] == "events"] == [
        ["events", str(n), str(n)] for n in range(99, 89, -1)
    ]
    assert ["90", "others", f"{sum(range(90)):,}"] in found


def test_few_partitions_keep_their_places() -> None:
    found = rows(replace(busy(), lag=tuple(Lag("events", n, 0, n) for n in range(10))))
    assert [row for row in found if row and row[0] == "events"] == [["events", str(n), str(n)] for n in range(10)]


def test_what_matters_most_fits_a_terminal_of_24_lines() -> None:
    trouble = Trouble(0.0, "warning", "workers_lost", {"row_count": 3})
    view = replace(busy(), lag=tuple(Lag("events", n, 0, n) for n in range(100)), troubles=(trouble,) * 9)
    first = text(view, 80).splitlines()[:24]
    for word in ("records behind", "dead letters", "total", "workers_lost: row_count: 3"):
        assert any(word in line for line in first)


# --- where it asks ---


def test_while_the_broker_stands_still_the_lag_is_unknown() -> None:
    view = busy()
    silent = replace(view, broker=replace(view.broker, error="no answer"))
    expected = ["records", "behind", "unknown", "unknown", "since", "1970-01-12", "13:46:40", "UTC"]
    assert expected in rows(silent)


@contextmanager
def saying(code: int, body: bytes, **headers: str) -> Iterator[str]:
    """A server that is no job; its address."""

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("end", ["", "/", "/status.json"])
def test_the_status_is_that_of_the_job(end: str) -> None:
    view = busy()
    with Server("127.0.0.1", 0, lambda: view) as server:
        assert top.fetch(server.url + end) == json.loads(status.as_json(status.document(view)))


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (200, b"<html>", "it has no status"),
        (200, b'{"job": {}}', "it has no status"),
        (200, b"[]", "it has no status"),
        (200, b"[" * 100_000, "it has no status"),
        (404, b"", "HTTP 404"),
        (302, b"", "HTTP 302"),
        (500, b"", "HTTP 500"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_another_server_is_taken_for_no_job(code: int, body: bytes, message: str) -> None:
    with saying(code, body, Location="/elsewhere") as url, pytest.raises(NotRunning, match=message):
        top.fetch(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *(
            (url, "is not the address of a job; write http://HOST:PORT")
            for url in ("", "nonsense\x1b[2J", "ftp://127.0.0.1")
        ),
        ("http://", "'http://' is not the address of a job; write http://HOST:PORT"),
        ("http://127.0.0.1:99999999", "no job answers at http://127.0.0.1:99999999"),
    ],
)
def test_what_is_no_address_is_said(url: str, message: str) -> None:
    with pytest.raises(NotRunning, match=message) as raised:
        top.fetch(url)
    assert "\x1b" not in str(raised.value)


def test_the_checkpoint_says_where_the_job_answers(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=r"monitoring: No such file or directory: no job runs on this checkpoint"):
        checkpoint.announcement(str(tmp_path))
    with checkpoint.announced(str(tmp_path), "http://127.0.0.1:1"):
        assert checkpoint.announcement(str(tmp_path)) == "http://127.0.0.1:1"
    with pytest.raises(NotRunning, match="not a local directory"):
        checkpoint.announcement("s3://bucket/checkpoint")


def test_a_job_that_is_started_again_is_found_again() -> None:
    where = ""
    looks = top.poll(lambda: where, 0.0, threading.Event())
    for _ in range(2):
        with Server("127.0.0.1", 0, busy) as server:
            where = server.url
            assert isinstance(next(looks), dict)
        assert isinstance(next(looks), NotRunning)


def test_if_none_runs_at_first_that_is_an_error_which_may_pass() -> None:
    with pytest.raises(NotRunning) as raised:
        next(top.poll(lambda: f"http://127.0.0.1:{free_port()}", 0.0, threading.Event()))
    assert raised.value.retry


# --- the command ---


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(HOME / "run_stream.py"), "top", "--every", "0.1", *arguments]


@contextmanager
def started(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def test_where_no_terminal_is_it_looks_once_where_the_checkpoint_says(tmp_path: Path) -> None:
    with Server("127.0.0.1", 0, busy) as server, checkpoint.announced(str(tmp_path), server.url):
        flags = ("--set", f"query.checkpoint={tmp_path}")
        done = subprocess.run(command(*flags), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "orders  running for" in done.stdout
        assert "\x1b" not in done.stdout
        done = subprocess.run(command(*flags, "--json", "--once"), capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert json.loads(done.stdout)["job"]["query"] == "orders"


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:{}"])
def test_where_no_job_runs_the_exit_code_says_try_again(tmp_path: Path, url: str | None) -> None:
    where = [] if url is None else ["--url", url.format(free_port())]
    done = subprocess.run(
        command("--set", f"query.checkpoint={tmp_path}", *where), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (TRY_AGAIN, "")
    assert ("no job runs" if url is None else "no job answers") in done.stderr


def ends(process: subprocess.Popen[bytes]) -> None:
    """End it by Ctrl-C, without an error."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)  # reads both: a full pipe would hold up the process
    assert (process.returncode, errors) == (0, b"")


def test_json_goes_on_until_ctrl_c() -> None:
    with (
        Server("127.0.0.1", 0, busy) as server,
        started("--url", server.url, "--json", stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["job"]["query"] for _ in range(3)] == ["orders"] * 3
        ends(process)


def login() -> None:
    """Makes standard input the terminal whose Ctrl-C is for this process."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def seen(terminal: int, enough: Callable[[bytes], bool]) -> bytes:
    found = b""
    while not enough(found):
        found += os.read(terminal, 65_536)
    return found


@pytest.mark.parametrize("key", [b"\x03", b"q"], ids=["ctrl-c", "q"])
def test_on_a_terminal_it_is_drawn_again_and_again_until_a_key_and_leaves_the_terminal_as_it_was(key: bytes) -> None:
    ours, its = pty.openpty()
    before = termios.tcgetattr(its)
    try:
        with Server("127.0.0.1", 0, busy) as server:
            env = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
            with started("--url", server.url, stdin=its, stdout=its, env=env, preexec_fn=login) as process:
                seen(ours, lambda found: found.count(b"orders") >= 3)
                os.write(ours, b"x" + key)
                last = seen(ours, lambda found: b"\x1b[?25h" in found and b"subs" in found.partition(LEAVES)[2])
                assert process.wait(PATIENCE_S) == 0
                assert process.stderr is not None
                assert process.stderr.read() == b""
        assert b"x" not in last.rpartition(LEAVES)[2].replace(b"max", b"").replace(b"exit", b"").replace(
            b"executor", b""
        )
        assert termios.tcgetattr(its) == before
    finally:
        os.close(ours)
        os.close(its)


def test_a_keyboard_that_is_closed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    stop = threading.Event()
    with top_command._keys(stop):
        assert not stop.is_set()
