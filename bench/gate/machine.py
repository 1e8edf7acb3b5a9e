"""The speed of this machine in this minute, and its name.

The calibration is the CPU time of a fixed loop in four parts, each of which something else slows down: interpreted code
by the processor's frequency, sorting in a core's own caches by a neighbour on the same core, reads at random from the
cache that cores share by neighbours that fill it, reads from memory by neighbours that read. Each part counts with the
least of several turns, so a short disturbance does not count, but a lasting one does, as it does in what is measured.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

HOME = Path(__file__).resolve().parents[2]
TURNS = 15
IN_CACHE = 32_768  # float64: 256 kB
IN_SHARED_CACHE = 1 << 21  # int64: 16 MB
IN_MEMORY = 1 << 24  # int64: 128 MB
READS = 500_000


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int

    @classmethod
    def here(cls) -> Machine:
        try:
            lines = Path("/proc/cpuinfo").read_text().splitlines()
        except OSError:
            lines = []
        said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        model = said.get("model name") or platform.processor() or platform.machine()
        family = f" (family {said['cpu family']}, model {said['model']})" if "cpu family" in said else ""
        return cls(model + family, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} core{'s' * (self.cores != 1)}"


def calibration_s() -> float:
    """CPU seconds of the calibration loop now, in a process of its own. Takes about a second.

    In this process the loop is faster after some points than before them: a sort takes 7.1 ms, and 4.2 ms after
    `match-100k`.
    """
    command = [sys.executable, "-m", "bench.gate.machine"]
    return float(subprocess.run(command, cwd=HOME, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _loop_s() -> float:
    rng = np.random.default_rng(1)
    values = rng.random(IN_CACHE)
    memory = np.arange(IN_MEMORY)  # written, so that every page is there
    near = rng.integers(IN_SHARED_CACHE, size=READS)
    far = rng.integers(IN_MEMORY, size=READS)
    parts: tuple[Callable[[], object], ...] = (
        _interpreted,
        lambda: [np.sort(values, kind="stable") for _ in range(4)],  # the default differs tenfold by processor
        lambda: [memory[near].sum() for _ in range(2)],
        lambda: memory[far].sum(),
    )
    least = [float("inf")] * len(parts)
    for _ in range(TURNS):
        for number, part in enumerate(parts):
            began = process_time()
            part()
            least[number] = min(least[number], process_time() - began)
    return sum(least)


def _interpreted() -> int:
    counts: dict[str, int] = {}
    for number in range(40_000):
        name = str(number % 997)
        counts[name] = counts.get(name, 0) + number
    return len(counts)


if __name__ == "__main__":
    print(_loop_s())  # noqa: T201
