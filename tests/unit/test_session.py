"""Settings that are refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.driver import session
from streaming.errors import JobError, SparkFailed


@pytest.mark.parametrize(
    ("jars", "options", "reason"),
    [
        ([], {}, "no jars in"),
        (["a.jar"], {"spark.io.encryption.enabled": "true"}, "spark.io.encryption.enabled"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused(
    tmp_path: Path, jars: list[str], options: dict[str, str], reason: str
) -> None:
    for jar in jars:
        (tmp_path / jar).touch()
    with pytest.raises(JobError, match=reason):
        session.start("q", "spark://127.0.0.1:1", options, tmp_path, tmp_path, True)


@pytest.mark.parametrize(
    ("end", "error", "reason"),
    [
        ("kill -9 $$", SparkFailed, r"was killed while it started \(exit code -9\)"),
        ("exit 137", SparkFailed, r"was killed while it started \(exit code 137\)"),
        ("exit 1", JobError, r"3 times, with exit code 1; .* Java 17 or newer \(JAVA_HOME\)"),
    ],
)
def test_a_jvm_that_is_killed_while_it_starts_may_be_tried_again_and_one_that_ends_by_itself_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, error: type[JobError], reason: str
) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\n{end}\n")
    submit.chmod(0o755)
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(session.time, "sleep", lambda s: None)
    with pytest.raises(JobError, match=reason) as raised:
        session.start("q", "local[1]", {}, tmp_path, tmp_path, True)
    assert type(raised.value) is error
