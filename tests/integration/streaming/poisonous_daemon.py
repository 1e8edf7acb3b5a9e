"""Spark's Python workers that die of records with POISON; it replaces `streaming.worker.daemon`."""

import os
import signal
from typing import Any

from pyspark.daemon import manager

from streaming.worker import matching
from streaming.worker.events import matches
from streaming.worker.starting import loaded


def deadly(read: Any, column: Any) -> Any:
    def weak(*arguments: Any) -> Any:
        if any(b"POISON" in (value or b"") for value in column(*arguments).to_pylist()):
            os.kill(os.getpid(), signal.SIGKILL)
        return read(*arguments)

    return weak


if __name__ == "__main__":
    assert loaded  # all that a worker needs
    for module, name, column in (
        (matches, "read_events", lambda rows, *_: rows["value"]),
        (matching, "compile_changes", lambda changes: changes.values),
    ):
        setattr(module, name, deadly(getattr(module, name), column))
    manager()
