"""Compile the kernels of a job before it is measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache

from rig.child import HOME
from streaming.errors import JobError


@cache  # once is enough
def compile_kernels(algorithm: str, tell: Callable[[str], None]) -> None:
    """Compile the kernels of a job with this algorithm, in a process of its own. Raises JobError."""
    tell(f"compiling the kernels of {algorithm}, if any are left")
    command = [sys.executable, str(HOME / "run_stream.py"), "warm", algorithm]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JobError(f"run_stream.py warm ended with exit code {done.returncode}:\n{done.stderr[-2_000:]}")
