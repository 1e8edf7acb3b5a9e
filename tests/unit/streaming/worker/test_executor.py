"""The executor that a worker finds above itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streaming.worker.executor import executor_of

DAEMON = b"python\0-m\0streaming.worker.daemon\0"
BACKEND = b"java\0-cp\0x\0org.apache.spark.executor.CoarseGrainedExecutorBackend\0--executor-id\x0012\0--hostname\0h\0"
SUBMIT = b"java\0org.apache.spark.deploy.SparkSubmit\0pyspark-shell\0"


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ({9: DAEMON, 8: BACKEND}, "12"),
        ({9: BACKEND}, "12"),
        ({9: DAEMON, 8: SUBMIT}, "driver"),
        ({9: DAEMON, 8: b"java\0--executor-id"}, "unknown"),
        ({9: DAEMON}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_executor_is_that_of_the_nearest_jvm(tmp_path: Path, commands: Mapping[int, bytes], expected: str) -> None:
    for process, command in commands.items():
        (tmp_path / str(process)).mkdir()
        (tmp_path / str(process) / "cmdline").write_bytes(command)
        (tmp_path / str(process) / "stat").write_text(f"{process} (a (b) c) S {process - 1} 1 1")
    assert executor_of(9, tmp_path) == expected
