"""Spark's Python workers that take two seconds for what Arrow hands them; it replaces `streaming.worker.daemon`."""

import time
from typing import Any

from pyspark.daemon import manager

from streaming.worker.events import matches
from streaming.worker.starting import loaded

PAUSE_S = 2.0


def slow(read: Any) -> Any:
    def slowly(rows: Any, *arguments: Any) -> Any:
        if b"SLOW" in (rows["value"][0].as_py() or b""):
            time.sleep(PAUSE_S)
        return read(rows, *arguments)

    return slowly


if __name__ == "__main__":
    assert loaded  # all that a worker needs
    name = "read_events"
    setattr(matches, name, slow(getattr(matches, name)))
    manager()
