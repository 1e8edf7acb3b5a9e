"""Compile the kernels of all algorithms into numba's cache, so that no two workers of pytest compile the same one."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from matchers.algorithms import runnable
from streaming.driver import warm_up

COMMON = "scan"  # has the fewest kernels beside those that all share
LONG = ("tiles", "ada_rein")  # go first, so that no processor waits for them at the end


def main() -> None:
    warm_up.cache(COMMON)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        list(processes.map(warm_up.cache, sorted(runnable(), key=lambda name: name not in LONG)))


if __name__ == "__main__":
    main()
