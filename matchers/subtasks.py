"""Divide the marking among threads at the granularity of (attribute, width level): WPA-REIN, section 1.7."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

import numpy as np

from matchers.tables import Float64, Int64

T = TypeVar("T")


def allocate(work: Float64, threads: int) -> list[Int64]:
    """Which groups each thread marks, ascending, so that those of one attribute lie side by side.

    The largest group left goes to the thread with the least work. So no two threads differ by more than one group, and
    the most that a thread has is below 4 / 3 of the best there is (Graham). Groups without work are nobody's.
    """
    load = [(0.0, t) for t in range(threads)]
    groups: list[list[int]] = [[] for _ in range(threads)]
    for g in np.argsort(-work, kind="stable")[: np.count_nonzero(work)].tolist():
        least, t = load[0]
        heapq.heapreplace(load, (least + float(work[g]), t))
        groups[t].append(g)
    return [np.array(sorted(own), np.int64) for own in groups]


def shares(n: int, threads: int) -> list[tuple[int, int]]:
    """The ranges of 0 .. n that threads take, none of them empty unless n is 0."""
    parts = max(min(n, threads), 1)
    return [(n * t // parts, n * (t + 1) // parts) for t in range(parts)]


def over(n: int, threads: int, do: Callable[[int, int], T]) -> list[T]:
    """do(begin, end) for the range that each thread takes."""
    return run([partial(do, begin, end) for begin, end in shares(n, threads)])


def run(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """All of them at once, the first on the caller's thread."""
    others = [pool(len(tasks) - 1).submit(task) for task in tasks[1:]]
    mine = [task() for task in tasks[:1]]
    return mine + [other.result() for other in others]


def as_they_come(tasks: Iterable[Callable[[], object]], threads: int) -> None:
    """Do the tasks on other threads while the caller's makes more of them. Then it does those that no other began."""
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
    """One for the process. Its threads end with the interpreter as soon as they are idle."""
    return ThreadPoolExecutor(threads, thread_name_prefix="matching")


os.register_at_fork(after_in_child=pool.cache_clear)  # a child has the pool, but not its threads
