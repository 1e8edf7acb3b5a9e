"""Settings that are rejected before Spark starts."""

from __future__ import annotations

import logging
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark import SparkContext, accumulators

from streaming.driver import session
from streaming.errors import JobError, SparkFailed
from tests.support.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("jars", "options", "reason"),
    [
        ([], {}, "no jars in"),
        (["a.jar"], {"spark.io.encryption.enabled": "true"}, "spark.io.encryption.enabled"),
        (["a.jar"], {"spark.speculation": "true"}, "spark.speculation must be false"),
        (["a.jar"], {"spark.task.maxFailures": "4"}, "spark.task.maxFailures must be 1"),
        (["a.jar"], {"spark.stage.maxConsecutiveAttempts": "4"}, "spark.stage.maxConsecutiveAttempts must be 1"),
    ],
)
def test_a_cluster_that_cannot_work_is_rejected(
    tmp_path: Path, jars: list[str], options: dict[str, str], reason: str
) -> None:
    for jar in jars:
        (tmp_path / jar).touch()
    with pytest.raises(JobError, match=reason):
        session.start("q", "spark://127.0.0.1:1", options, tmp_path, tmp_path)


def submits(script: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark start by this script of the shell; there is a jar in `home`."""
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    (home / "a.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))


@pytest.mark.parametrize(
    ("end", "error", "reason"),
    [
        ("kill -9 $$", SparkFailed, r"was killed while it started \(exit code -9\)"),
        ("exit 137", SparkFailed, r"was killed while it started \(exit code 137\)"),
        ("exit 1", JobError, r"3 times, with exit code 1; .* JAVA_HOME \(Java 17 or newer\)"),
    ],
)
def test_a_jvm_that_is_killed_while_it_starts_may_be_tried_again_and_one_that_ends_by_itself_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, error: type[JobError], reason: str
) -> None:
    submits(end, tmp_path, monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda s: None)
    with pytest.raises(JobError, match=reason) as raised:
        session.start("q", "local[1]", {}, tmp_path, tmp_path)
    assert type(raised.value) is error


def test_a_jvm_can_be_ended_while_a_thread_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submits(f"exec sleep {PATIENCE_S}", tmp_path, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(session.start, "q", "local[1]", {}, tmp_path, tmp_path)
        while not starting.done():
            session.end_jvm()  # nothing while there is none
            wait([starting], 0.01)
        with pytest.raises(SparkFailed, match=r"exit code -9"):
            starting.result()


@pytest.mark.parametrize("master", ["local[*]", "spark://h:7077"])
def test_the_ui_of_a_session_that_somebody_else_makes_is_theirs_to_switch(master: str) -> None:
    assert "spark.ui.enabled" not in session.defaults(master)
    assert session.TUNING["spark.ui.enabled"] == "false"


class Gateway:
    def __init__(self, proc: subprocess.Popen[bytes] | None) -> None:
        self.proc = proc
        self.ended = False

    def shutdown(self) -> None:
        self.ended = True


def test_a_jvm_is_ended_for_the_class_archive_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    caplog.set_level(logging.INFO, "sluice")
    writes, *_ = session.class_archive(tmp_path).used_or_written()
    part = writes.partition("=")[2]
    jvm = "import sys; sys.stdin.read(); open(sys.argv[1].partition('=')[2], 'w').close()"
    with subprocess.Popen([sys.executable, "-c", jvm, writes], stdin=subprocess.PIPE) as process:
        gateway = Gateway(process)
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        session.keep_class_archive(tmp_path)
        assert (gateway.ended, process.returncode) == (True, 0)
    assert session.class_archive(tmp_path).exists()
    assert not Path(part).exists()
    assert caplog.messages == ["class_archive_writing", "class_archive_written"]


def test_a_class_archive_that_takes_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("sluice"), "propagate", True)
    monkeypatch.setattr(session, "EXIT_TIMEOUT_S", 0.1)
    writes, *_ = session.class_archive(tmp_path).used_or_written()
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", writes], stdin=subprocess.PIPE
    ) as process:
        monkeypatch.setattr(SparkContext, "_gateway", Gateway(process))
        session.keep_class_archive(tmp_path)
        process.kill()
    assert caplog.messages == ["class_archive_failed"]
    assert not session.class_archive(tmp_path).exists()


def test_a_jvm_that_writes_no_class_archive_or_is_not_ours_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        for gateway in (Gateway(process), Gateway(None)):  # spark-submit started the second
            monkeypatch.setattr(SparkContext, "_gateway", gateway)
            session.keep_class_archive(tmp_path)
            assert not gateway.ended
            assert process.poll() is None


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.s3a.encryption.key", True),
        ("spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", True),
        ("spark.driver.memory", False),
        ("spark.driver.extraClassPath", False),
        ("spark.jars.packages", False),
    ],
)
def test_no_key_of_a_store_is_on_the_command_line_of_the_jvm(name: str, is_secret: bool) -> None:
    assert bool(session.SECRET.search(name)) is is_secret


def test_a_jvm_that_ends_leaves_no_traceback_of_its_accumulators(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as sockets:  # the path of a socket may have 107 bytes: `tmp_path` can be longer
        path = f"{sockets}/updates"
        server = accumulators._start_update_server("", is_unix_domain_sock=True, socket_path=path)
        session._expect_the_end(cast("SparkContext", SimpleNamespace(_accumulatorServer=server)))
        with socket.socket(socket.AF_UNIX) as jvm:
            jvm.connect(path)
        with socket.socket(socket.AF_UNIX) as another:  # it is served next, so the first one has ended
            another.connect(path)
            another.sendall(struct.pack("!i", 0))
            assert another.recv(1) == b"\1"
        server.shutdown()
    assert capsys.readouterr().err == ""
