"""Compile the kernels of algorithms in several processes at once.

Every job needs those that publish and those of `scan`, which include all that read events. With these compiled the
algorithms share nothing worth mentioning, so each has a process of its own; one that chooses goes last, and finds those
of its candidates compiled.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from typing import Any, NamedTuple

from numba.core import event

from matchers import ALGORITHMS
from streaming.precompile import dry_run, marker
from streaming.publishing import warm_up as publishing
from streaming.reading import warm_up as reading
from streaming.state.state import FALLBACK_ALGORITHM

PUBLISHING, READING = "publishing", "reading"
BASE = (PUBLISHING, FALLBACK_ALGORITHM)
LONG = ("tiles", "ada_rein")  # go first, so that no processor waits for them at the end
# CPU time of compiling, in s: only for estimates, so another processor may take half or twice as long.
CPU_S = {
    PUBLISHING: 16,
    READING: 3,
    FALLBACK_ALGORITHM: 15,
    "auto": 4,
    "be_tree": 14,
    "counting": 2,
    "hem": 16,
    "ocm": 5,
    "tama": 3,
    "tiles": 39,
}
OTHERS_CPU_S = 15


class CompiledKernels(NamedTuple):
    name: str  # of an algorithm, PUBLISHING or READING
    kernels: int  # that were compiled, each type of their arguments counted; the others were in the cache
    cpu_s: float


def needed(algorithms: Collection[str], *, replays: bool = False) -> list[list[str]]:
    """List what jobs with these algorithms still have to compile, and `replays`, each list after the one before."""
    stages = [*_stages(algorithms), [READING] if replays else []]
    return [left for stage in stages if (left := [name for name in stage if not marker.is_compiled(name)])]


def estimate_s(stages: Sequence[Sequence[str]], cores: int) -> int:
    """Estimate how long compiling what `needed` lists takes on so many free cores."""
    took = [[CPU_S.get(name, OTHERS_CPU_S) for name in stage] for stage in stages]
    return round(sum(max(*stage, sum(stage) / cores) for stage in took if stage))


def is_lasting(algorithm: str) -> bool:
    """Whether a job with this algorithm will never have anything to compile on this machine."""
    return all(marker.is_lasting(name) for stage in _stages([algorithm]) for name in stage)


def _stages(algorithms: Collection[str]) -> list[list[str]]:
    chosen = {other for name in algorithms for other in ALGORITHMS[name].chooses if other in ALGORITHMS}
    wanted = [name for name in sorted({*algorithms, *chosen} - {FALLBACK_ALGORITHM}) if ALGORITHMS[name].runnable()]
    plain = sorted((name for name in wanted if not ALGORITHMS[name].chooses), key=lambda name: name not in LONG)
    return [list(BASE), plain, [name for name in wanted if ALGORITHMS[name].chooses]]


def is_ready(algorithm: str) -> bool:
    """Whether a job with this algorithm has nothing to compile."""
    return not needed([algorithm])


def compile(
    stages: Sequence[Sequence[str]],
    options: Mapping[str, Mapping[str, Any]],
    pool: Executor,
    done: Callable[[CompiledKernels], None] = lambda compiled: None,
) -> None:
    """Compile what `needed` lists; `options` by algorithm. Raises what `dry_run.run` raises."""
    for stage in stages:
        for task in as_completed([pool.submit(_compile, name, options.get(name, {})) for name in stage]):
            done(task.result())


def _compile(name: str, options: Mapping[str, Any]) -> CompiledKernels:
    counter = _Counter()
    gc.disable()  # what a compiler makes lives on; to look through it again and again took a seventh of the time
    began = time.process_time()
    with event.install_listener("numba:compile", counter):
        if name == PUBLISHING:
            publishing.compile()
        elif name == READING:
            reading.compile()
        else:
            dry_run.run(name, options)
    marker.set_compiled(name)
    return CompiledKernels(name, counter.kernels, time.process_time() - began)


class _Counter(event.Listener):
    """Counts our own kernels, and not numba's, of which these consist."""

    kernels = 0

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__ or ""  # numba makes functions that have none
        self.kernels += module.startswith(("matchers.", "streaming."))

    def on_end(self, event: Any) -> None:
        pass
