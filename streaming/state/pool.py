"""A pool of background processes beside the driver; they end when it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from streaming.log import error_fields, logger

log = logger("sluice.state")

BACKGROUND_NICENESS = 19  # what else runs on the machine goes first
EXECUTOR_TRIES = 3  # in a row, that end with a killed process
LOOK_EVERY_S = 0.02  # for processes that are to end


@contextmanager
def processes(n: int, nice: int = 0) -> Iterator[Executor]:
    """A pool of processes; unfinished work is discarded at the end. If a process is killed, another repeats its work,
    so submit only work that may run twice."""
    context = _Spawning()
    pool = RestartingExecutor(lambda: ProcessPoolExecutor(n, context, _begin, (nice,)))
    try:
        yield pool
    finally:
        ending = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
        ending.start()
        while ending.is_alive():
            for child in context.children():  # one may just be starting
                child.kill()  # it may be suspended, and then only this ends it
            ending.join(LOOK_EVERY_S)


class _Spawning(SpawnContext):
    """Spawns processes and keeps them: others of this program are not ours to end."""

    def __init__(self) -> None:
        super().__init__()
        self._children: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  # a class there
        child = SpawnProcess(*args, **options)
        self._children.append(child)
        return child

    def children(self) -> list[SpawnProcess]:
        """Return those that were started."""
        return [child for child in self._children if child.pid is not None]


class RestartingExecutor(Executor):
    """An executor that is replaced when one of its processes is killed, which breaks the whole executor.

    The new one repeats all unfinished work. After EXECUTOR_TRIES executors in a row that broke without finishing any,
    it fails with the error of the last.

    An executor that breaks holds its lock while it says so to those that wait. If it lost its last reference then,
    Python 3.12 and newer would wait for this lock for ever, so all are kept until `shutdown`.
    """

    def __init__(self, made: Callable[[], Executor]) -> None:
        self._made = made
        self._lock = threading.Lock()
        self._executor = made()
        self._replaced: list[Executor] = []
        self._broken = 0  # executors in a row
        self._ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._begin(future, partial(fn, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._ended = True
        for executor in (*self._replaced, self._executor):
            executor.shutdown(wait, cancel_futures=cancel_futures)

    def _begin(self, future: Future[Any], work: Callable[[], Any]) -> None:
        executor = self._executor
        try:
            attempt = executor.submit(work)  # without our lock: it may wait for who is calling us back
        except BrokenExecutor as error:
            self._again(executor, error, future, work)
        except Exception as error:  # it was shut down meanwhile, or the system has no process or memory for it
            future.set_exception(error)
        else:
            attempt.add_done_callback(partial(self._done, executor, future, work))

    def _done(self, executor: Executor, future: Future[Any], work: Callable[[], Any], attempt: Future[Any]) -> None:
        if attempt.cancelled():
            future.cancel()
            future.set_running_or_notify_cancel()
            return
        error = attempt.exception()
        if isinstance(error, BrokenExecutor):
            self._again(executor, error, future, work)
        elif error is not None:
            future.set_exception(error)
        else:
            with self._lock:
                self._broken = 0
            future.set_result(attempt.result())

    def _again(self, executor: Executor, error: BrokenExecutor, future: Future[Any], work: Callable[[], Any]) -> None:
        reason: Exception = error
        with self._lock:
            if executor is self._executor and not self._ended:  # the first to notice
                self._broken += 1
                if self._broken < EXECUTOR_TRIES:
                    log.warning("background_process_replaced", **error_fields(error))
                    try:
                        made = self._made()
                    except OSError as scarce:  # raised here it would be lost: nobody waits for a callback
                        reason = scarce
                    else:
                        self._replaced.append(executor)
                        self._executor = made
            replaced = executor is not self._executor
        if replaced:
            self._begin(future, work)
        else:
            future.set_exception(reason)


def _begin(nice: int) -> None:
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
