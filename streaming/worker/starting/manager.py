"""Fork Spark's Python workers."""

from __future__ import annotations

import os
import socket

from streaming.process import child
from streaming.worker.starting.heartbeats import Heartbeats


def manage() -> None:
    """Fork a worker whenever Spark wants one, until Spark ends this process."""
    import pyspark.daemon as spark

    import streaming.worker.starting.loaded  # noqa: F401

    spark_worker, parent, heartbeats = spark.worker, os.getpid(), Heartbeats()

    def worker(sock: socket.socket, authenticated: bool) -> int:
        """Run a worker after the fork. It ends with this parent, without which Spark cannot kill a worker that hangs.

        Spark closes the connection of a worker that is idle for a minute or whose task is cancelled. That is not a
        fault, so it is not logged; Spark itself reports faults."""
        child.die_with_parent()
        if os.getppid() != parent:
            return 1  # the parent died before this line
        heartbeats.begin()
        try:
            return spark_worker(sock, authenticated)
        except BrokenPipeError:
            os._exit(1)  # at once: while its frames end, Python 3.13 and newer complain of what they could not write

    spark.worker = worker  # `manager` calls it by this name
    heartbeats.watch()
    try:
        spark.manager()
    finally:
        heartbeats.leave()
