"""A thread pool that matchers share: work in ranges or tasks, the first of them on the caller's thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")


def shares(n: int, threads: int) -> list[tuple[int, int]]:
    """Divide 0 .. n into a range for each thread; none is empty unless n is 0."""
    parts = max(min(n, threads), 1)
    return [(n * t // parts, n * (t + 1) // parts) for t in range(parts)]


def over(n: int, threads: int, do: Callable[[int, int], T]) -> list[T]:
    """Call do(begin, end) for the range of each thread; returns the results."""
    return run([partial(do, begin, end) for begin, end in shares(n, threads)])


def run(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run all tasks at once, the first on the caller's thread; returns their results."""
    others = [pool(len(tasks) - 1).submit(task) for task in tasks[1:]]
    mine = [task() for task in tasks[:1]]
    return mine + [other.result() for other in others]


def as_they_come(tasks: Iterable[Callable[[], object]], threads: int) -> None:
    """Run tasks on other threads while the caller's thread creates more; then it runs the tasks that have not begun."""
    begun = []
    for task in tasks:
        if threads > 1:
            begun.append((pool(threads - 1).submit(task), task))
        else:
            task()
    for done, task in reversed(begun):
        if done.cancel():
            task()
        else:
            done.result()


@cache
def pool(threads: int) -> Executor:
    """The pool of this process. Its threads end with the interpreter as soon as they are idle."""
    return ThreadPoolExecutor(threads, thread_name_prefix="matching")


if hasattr(os, "register_at_fork"):  # a child process inherits the pool, but not its threads; Windows has no fork
    os.register_at_fork(after_in_child=pool.cache_clear)
