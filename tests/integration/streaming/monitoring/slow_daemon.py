"""Spark's Python workers that take two seconds for what Arrow hands them; it replaces `streaming.worker.daemon`."""

import time
from typing import Any

from pyspark.daemon import manager

from streaming.worker import daemon
from streaming.worker.events import matches

PAUSE_S = 2.0


def slow(read: Any) -> Any:
    def slowly(rows: Any, *arguments: Any) -> Any:
        if b"SLOW" in (rows["value"][0].as_py() or b""):
            time.sleep(PAUSE_S)
        return read(rows, *arguments)

    return slowly


if __name__ == "__main__":
    assert daemon  # all that it loads
    name = "read_events"
    setattr(matches, name, slow(getattr(matches, name)))
    manager()
