"""Compile the kernels of all algorithms into numba's cache, so that no two workers of pytest compile the same one."""

from __future__ import annotations

import os

from matchers.registry import runnable
from streaming.precompile import kernels
from streaming.state.pool import processes


def main() -> None:
    with processes(os.cpu_count() or 1) as pool:
        kernels.compile(kernels.needed(runnable(), replays=True), {}, pool)


if __name__ == "__main__":
    main()
