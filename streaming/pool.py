"""Processes beside the driver for work that would hold it up: they end with it, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

BACKGROUND = 19  # nice: what else runs on the machine goes first


@contextmanager
def processes(n: int, nice: int = 0) -> Iterator[Executor]:
    """What they have not done at the end is given up."""
    pool = ProcessPoolExecutor(n, multiprocessing.get_context("spawn"), _begin, (nice,))
    before = set(multiprocessing.active_children())
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
            child.join()


def _begin(nice: int) -> None:
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which tells us
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
