"""Run commands in processes of their own that need not import anything: forked from one that has.

A command on its own spends most of its processor time on imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import run_stream

TIMEOUT_S = 120.0
STREAMS = ("stdin", "stdout", "stderr")  # in the order of their descriptors

_processes = get_context("forkserver")
_processes.set_forkserver_preload([__name__, *run_stream.COMMANDS])


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str


def run(arguments: Sequence[str], environment: Mapping[str, str], stdin: str = "") -> Done:
    """`run_stream.py` with these arguments. Raises TimeoutError after TIMEOUT_S."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "stdin").write_text(stdin)
        process = _processes.Process(target=_command, args=(list(arguments), dict(environment), directory))
        process.start()
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{' '.join(arguments)}: not done after {TIMEOUT_S} s")
        return Done(process.exitcode, *((directory / stream).read_text() for stream in ("stdout", "stderr")))


def _command(arguments: list[str], environment: dict[str, str], directory: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, stream in enumerate(STREAMS):
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR
        opened = os.open(directory / stream, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.lseek(0, 0, os.SEEK_SET)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another in its place
    sys.argv = ["run_stream.py", *arguments]
    run_stream.main()
