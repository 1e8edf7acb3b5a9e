"""Spark's Python workers, as far as the process that forks them is concerned."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[4]


@pytest.fixture
def sockets() -> Iterator[str]:
    """The path of a socket may have 107 bytes, and `tmp_path` can be longer."""
    with tempfile.TemporaryDirectory() as directory:
        yield directory


@pytest.mark.skipif(sys.platform == "win32", reason="Spark forks no workers there")
def test_a_worker_whose_connection_spark_closes_ends_without_a_trace(sockets: str) -> None:
    """Spark closes the connection of a worker that was idle for a minute."""
    environment = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": sockets,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_REUSE_WORKER": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "streaming.worker.daemon", "pyspark.worker"],
        cwd=HOME,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        (length,) = struct.unpack(">i", daemon.stdout.read(4))
        path = daemon.stdout.read(length)
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(path)
            (worker,) = struct.unpack(">i", spark.recv(4))
        with suppress(ProcessLookupError):
            while True:
                os.kill(worker, 0)
                time.sleep(0.01)
        daemon.stdin.close()
        assert daemon.stderr.read() == b""
