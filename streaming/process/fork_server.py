"""Start processes from one that has loaded their code: a fork server, as multiprocessing has it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from streaming.process.child import die_with_parent, rename

TIED = "streaming.process.tied"
LOST = 255  # multiprocessing's exit code for a process whose fork server was killed


class ForkServer:
    """A process that imports `module` and then forks others. It ends with this one; what it has forked ends with it.

    `run` is called in a forked process, with its command line; it has to be a function of a module.
    """

    def __init__(self, module: str, run: Callable[[list[str]], None]) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([TIED, module])
        self._run = run
        self.is_loading = False

    def load(self) -> None:
        """Start it, if it does not run; it loads its code meanwhile. Call in a thread that lives as long as it."""
        forkserver.ensure_running()
        self.is_loading = True

    def start(self, command: list[str], progress: int) -> Forked:
        """Fork a process, once the code is loaded. `progress`: a file descriptor, whose number there follows the
        command line. Raises OSError or EOFError if the fork server was killed."""
        written = Connection(os.dup(progress), readable=False)
        try:
            process = self._context.Process(target=_begin, args=(self._run, command, written))
            process.start()
        finally:
            written.close()
        return Forked(process)


class Forked:
    """A forked process; what of subprocess.Popen its parent needs."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid: int = process.pid

    def poll(self) -> int | None:
        code = self._process.exitcode
        return -signal.SIGKILL if code == LOST else code

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> int | None:
        self._process.join()
        return self.poll()


def _begin(run: Callable[[list[str]], None], command: list[str], progress: Connection) -> None:
    os.setsid()
    die_with_parent()
    command = [*command, f"--progress={progress.fileno()}"]
    rename([sys.executable, *command])
    try:
        run(command)
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends its processes without them
