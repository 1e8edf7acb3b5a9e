"""The parent of Spark's Python workers: it imports everything once, so that forked workers start warm.

Spark starts this module in place of pyspark.daemon (`spark.python.daemon.module`). A worker collects garbage after
every task, and with numba loaded that took 100 ms, half of its time. What is loaded here is frozen out of it.
"""

import gc
import os
import socket

import pyspark.daemon
import pyspark.worker

import streaming.worker.matching  # noqa: F401
from streaming.process import child
from streaming.publishing import warm_up

_worker = pyspark.daemon.worker
_parent = os.getpid()


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run a worker after the fork. It ends with this parent, without which Spark cannot kill a worker that hangs.

    Spark closes the connection of a worker that is idle for a minute or whose task is cancelled. That is not a fault,
    so it is not logged; Spark itself reports faults."""
    child.die_with_parent()
    if os.getppid() != _parent:
        return 1  # the parent died before this line
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        os._exit(1)  # at once: while its frames end, Python 3.13 and newer complain of what they could not write


if __name__ == "__main__":
    pyspark.daemon.worker = worker  # `manager` calls it by this name
    warm_up.compile()
    gc.freeze()
    pyspark.daemon.manager()
