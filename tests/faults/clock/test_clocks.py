"""The clock of a running process jumps as it is set, that of the driver or that of the workers; no other does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.clock.clocks import ROLES, Clocks
from tests.faults.clock.hook.sitecustomize import DAEMON, DRIVER, WORKERS

SECONDS = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.time_ns(), time.monotonic(), flush=True)"


@pytest.mark.parametrize(("argument", "own"), [("run", DRIVER), (DAEMON, WORKERS)])
def test_a_process_has_the_clock_of_its_role(argument: str, own: int, tmp_path: Path) -> None:
    clocks = Clocks(tmp_path / "clocks")
    with subprocess.Popen(
        [sys.executable, "-c", SECONDS, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, **clocks.environment},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for role in ROLES:
            for hours in (0, -5, 7):
                clocks.set(role, 3600.0 * hours)
                before_s, before = time.time(), time.monotonic()
                process.stdin.write("\n")
                seconds, nanoseconds, monotonic = map(float, process.stdout.readline().split())
                passed_s = time.monotonic() - before
                ahead_s = 3600.0 * hours if role == own else 0.0
                assert 0 <= seconds - before_s - ahead_s <= passed_s + 1
                assert 0 <= nanoseconds / 1e9 - before_s - ahead_s <= passed_s + 1
                assert before <= monotonic <= before + passed_s
            clocks.set(role, 0.0)
        process.stdin.close()
