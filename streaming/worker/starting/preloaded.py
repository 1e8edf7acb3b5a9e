"""Fork the parent of Spark's Python workers from a process that has loaded their code already.

Spark starts that parent, the daemon, once it has a context, and then waits until its code is loaded, for two seconds.
On one Linux machine the driver has a process (`served`) that loads it while Spark's JVM starts. What Spark starts gives
its streams and its environment to that process (`hand_over`), which forks the daemon. If a daemon is lost, the next one
is there at once.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from streaming.process.child import die_with_parent, rename
from streaming.worker.executor import PRELOAD, on_cluster
from streaming.worker.starting.manager import manage

ADDRESS = "PRELOADED_WORKERS"  # the variable by which Spark's environment names the process
LOADED = "streaming.worker.starting.loaded"
CODE = Path(__file__).resolve().parents[3]
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}  # as Spark sets it for what it starts: libraries read it when they are loaded
# Options of Spark with which the daemon would be another program, or have another environment when it starts.
OTHERS = ("spark.pyspark.python", "spark.python.daemon.module", "spark.executorEnv.", "spark.task.cpus")
ANSWER_S = 60.0  # loading included
HERE = b"+"


@contextmanager
def served(master: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Start the process, and give its address, or "" where Spark's daemon cannot be forked from it.

    A process that has loaded the code itself is forked. Call in the main thread.
    """
    if sys.platform != "linux" or on_cluster(master) or any(name.startswith(OTHERS) for name in options):
        yield ""
        return
    address = f"sluice-{secrets.token_hex(16)}"
    with ExitStack() as stack:
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"\0{address}")
                listener.listen()
                start = _forked if LOADED in sys.modules else _executed
                command = [sys.executable, "-m", "streaming.worker.daemon", PRELOAD, str(listener.fileno())]
                stack.enter_context(start(command, listener))
        except OSError:  # such as a limit on processes: the daemon loads its code itself
            address = ""
        yield address


@contextmanager
def _executed(command: list[str], listener: socket.socket) -> Iterator[None]:
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        cwd=CODE,
        env={**os.environ, **ENVIRONMENT},
        pass_fds=[listener.fileno()],
        preexec_fn=die_with_parent,
    ) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _forked(command: list[str], listener: socket.socket) -> Iterator[None]:
    read, written = os.pipe()
    if not (process := os.fork()):
        with _then_exit():
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.dup2(read, 0)
            rename(command)
            _close_all_but(only := listener.detach())
            serve(only, manage)
    os.close(read)
    try:
        yield
    finally:
        os.close(written)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


@contextmanager
def _then_exit() -> Iterator[None]:
    """End the process after this block. A forked process must not return into the code of its parent."""
    code = 1
    try:
        yield
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(descriptor: int) -> None:
    """Close all but the standard streams and this one: the lock of the checkpoint ends with the driver, not with
    workers."""
    for other in map(int, os.listdir("/proc/self/fd")):
        if other > 2 and other != descriptor:
            with suppress(OSError):  # of the directory itself
                os.close(other)


def hand_over() -> bool:
    """Let the process fork a daemon for this one, which Spark has started, and wait for the daemon's end; False if
    there is no such process."""
    if not (address := os.environ.get(ADDRESS)):
        return False
    request = {
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "arguments": sys.argv,
        "command": sys.orig_argv,
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(f"\0{address}")
            if not _is_ours(connection):
                return False
            socket.send_fds(connection, [HERE], [0, 1, 2])
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != HERE:
                return False
            connection.settimeout(None)
            with suppress(OSError):
                connection.recv(1)
    except OSError:
        return False
    return True


def serve(descriptor: int, run: Callable[[], object]) -> None:
    """Fork a process that calls `run` for each that hands over, until the driver has ended, which holds the other end
    of the standard input. `descriptor` is that of a listening socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as listener:
        both: list[Any] = [listener, 0]
        while 0 not in select.select(both, [], [])[0]:
            with suppress(OSError):  # such as a limit on processes: the other one goes on by itself
                connection, _ = listener.accept()
                with connection:
                    _serve(listener, connection, run)


def _serve(listener: socket.socket, connection: socket.socket, run: Callable[[], object]) -> None:
    if not _is_ours(connection):
        return
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    try:
        with connection.makefile("rb") as file:
            request = file.read()
        if len(streams) == 3 and not os.fork():
            with _then_exit():
                listener.close()
                _become(json.loads(request), streams)
                try:
                    connection.sendall(HERE)
                except OSError:  # it was killed meanwhile, or has waited long enough and goes on by itself
                    return
                run()
    finally:
        for stream in streams:
            os.close(stream)


def _is_ours(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user; one that is not seen from this container has the number 0."""
    process, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(process) and user == os.getuid()


def _become(request: Mapping[str, Any], streams: list[int]) -> None:
    """Take the streams, the environment, the directory and the command line of the process that has handed over."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing may have put another in its place
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv, sys.orig_argv = request["arguments"], request["command"]
