"""Start processes from one that has loaded their code: a fork server, as multiprocessing has it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from streaming.log import logger
from streaming.process.child import die_with_parent, rename

log = logger("sluice.supervision")

TIED = "streaming.process.tied"
LOST = 255  # multiprocessing's exit code for a process whose fork server was killed
START_EVERY_S = 60.0  # one that cannot start must not take the cores


class ForkServer:
    """A process that imports `module` and then forks others. It ends with the thread that has started it; what it has
    forked ends with it.

    `run` is called in a forked process, with its command line; it has to be a function of a module. `environment` is
    added to that of the fork server. What it forks has the one of this process.
    """

    def __init__(self, module: str, run: Callable[[list[str]], None], environment: Mapping[str, str]) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([TIED, module])
        self._module, self._run, self._environment = module, run, environment
        self._start_s = 0.0  # monotonic
        self._asking: threading.Thread | None = None
        self._has_loaded = False

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded its code, and still runs."""
        server: Any = forkserver._forkserver
        if not self._has_loaded or server._forkserver_pid is None:
            return False
        try:
            return os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:  # another one is started at this moment
            return False

    def load(self) -> None:
        """Start it, if it does not run, and return at once; it is ready when it has loaded its code. Call it again and
        again."""
        if (self._asking is not None and self._asking.is_alive()) or self.is_ready:
            return
        self._has_loaded = False
        if time.monotonic() >= self._start_s:
            self._start()

    def start(self, command: list[str], progress: int) -> Forked:
        """Fork a process; call only if it is ready. `progress`: a file descriptor, whose number there follows the
        command line. Raises OSError or EOFError if the fork server was killed."""
        written = Connection(os.dup(progress), readable=False)
        try:
            process = self._context.Process(target=_begin, args=(self._run, command, written, dict(os.environ)))
            process.start()
        finally:
            written.close()
        return Forked(process)

    def _start(self) -> None:
        self._start_s = time.monotonic() + START_EVERY_S
        before = dict(os.environ)
        os.environ.update(self._environment)
        try:
            forkserver.ensure_running()
            self._asking = threading.Thread(target=self._ask, name="sluice-fork-server", daemon=True)
            self._asking.start()
        except (OSError, RuntimeError) as error:  # a full disk, no more threads
            _failed(str(error))
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _ask(self) -> None:
        """Let it fork a process, for which it has to be loaded."""
        began = time.monotonic()
        with suppress(OSError, EOFError):
            process = self._context.Process(target=_look, args=(self._module,))
            process.start()
            process.join()
            self._has_loaded = process.exitcode == 0
        if self._has_loaded:
            log.info("restart_prepared", duration_s=round(time.monotonic() - began, 1))
        else:
            _failed("it was killed, or cannot import the code")


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


def _failed(reason: str) -> None:
    log.warning("restart_unprepared", reason=reason, retry_s=START_EVERY_S)


def _look(module: str) -> None:
    """Exit code 1 unless the fork server has imported its modules: it goes on without those that it cannot import."""
    sys.exit(0 if _is_tied() and module in sys.modules else 1)


def _is_tied() -> bool:
    """Whether the parent is the fork server, and ends with its own parent."""
    tied: Any = sys.modules.get(TIED)
    return tied is not None and os.getppid() == tied.PID


def _begin(
    run: Callable[[list[str]], None], command: list[str], progress: Connection, environment: dict[str, str]
) -> None:
    os.setsid()
    die_with_parent()
    if not _is_tied():
        os._exit(LOST)  # the fork server was killed before
    command = [*command, f"--progress={progress.fileno()}"]
    rename([sys.executable, *command])  # before the environment changes, beside which the command line lies in memory
    os.environ.clear()
    os.environ.update(environment)
    _leave_resource_tracker()
    try:
        run(command)
    finally:
        threads: Any = threading
        threads._shutdown()  # as an interpreter does it; multiprocessing ends its processes without these
        atexit._run_exitfuncs()


def _leave_resource_tracker() -> None:
    """Let this process start one of its own when it needs one, which removes what it leaves when it is killed."""
    tracker: Any = resource_tracker._resource_tracker
    if tracker._fd is not None:
        os.close(tracker._fd)
        tracker._fd = None
