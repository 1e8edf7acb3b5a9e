"""Compile the kernels of a job: those without which it cannot run, and those of the index in its settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from matchers.errors import MatchingError
from streaming.driver.starting import warm_up
from streaming.errors import JobError
from streaming.log import logger
from streaming.monitoring.view import BUILDING, COMPILING, LOADING
from streaming.precompile import kernels, marker
from streaming.precompile.kernels import CompiledKernels
from streaming.state.pool import processes
from streaming.state.state import FALLBACK_ALGORITHM, Index

if TYPE_CHECKING:
    from config.model import Matching

log = logger("sluice.job")


def ahead(algorithm: str, options: Mapping[str, Any], stop: threading.Event, nice: int = 0) -> bool:
    """Compile the kernels of an algorithm on all cores, and those that every job needs, and wait for them; return False
    if told to stop while another process compiles."""
    if kernels.is_ready(algorithm):
        return True
    with marker.alone(stop) as is_alone:
        if is_alone and (stages := kernels.needed([algorithm])):
            cores = os.cpu_count() or 1
            algorithms = [name for stage in stages for name in stage]
            log.info("kernels_compiling", algorithms=algorithms, estimate_s=kernels.estimate_s(stages, cores))
            with processes(cores, nice) as compilers:
                kernels.compile(stages, {algorithm: options}, compilers, _say)
    return is_alone


def index(
    chosen: Matching,
    spark: SparkSession,
    compilers: Executor,
    preparing: Callable[[str, int, int], None],
    stop: threading.Event,
) -> Index:
    """The index of the settings, once it can be used without waiting; that of FALLBACK_ALGORITHM if told to stop while
    another process compiles. `preparing` is called with each step, and with how many of how many algorithms are
    compiled. Raises JobError."""
    try:
        with marker.alone(stop) as is_alone:
            if not is_alone:
                return FALLBACK_ALGORITHM, {}
            _compile(chosen, compilers, preparing)
        compilers.shutdown()  # each would keep half a gigabyte
        preparing(LOADING, 0, 0)
        warm_up.index(spark, chosen.algorithm, chosen.options)
    except (MatchingError, TypeError) as error:
        raise JobError(f"matching.algorithm = {chosen.algorithm!r} cannot be used: {error}") from error
    preparing(BUILDING, 0, 0)
    return chosen.algorithm, chosen.options


def _compile(chosen: Matching, compilers: Executor, preparing: Callable[[str, int, int], None]) -> None:
    stages = kernels.needed([chosen.algorithm])
    compiling = [name for stage in stages for name in stage]
    log.info(
        "index_preparing",
        algorithms=compiling,
        fallback_algorithm=FALLBACK_ALGORITHM,
        estimate_s=kernels.estimate_s(stages, os.cpu_count() or 1),
    )
    done = count(1)

    def say(compiled: CompiledKernels) -> None:
        _say(compiled)
        preparing(COMPILING, next(done), len(compiling))

    preparing(COMPILING, 0, len(compiling))
    kernels.compile(stages, {chosen.algorithm: chosen.options}, compilers, say)


def _say(compiled: CompiledKernels) -> None:
    log.info("kernels_compiled", algorithm=compiled.name, kernel_count=compiled.kernels, cpu_s=round(compiled.cpu_s, 1))
