"""Keep the job running: start it as a process, and restart it after temporary failures."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from streaming.log import error_fields, logger
from streaming.process.child import die_with_parent

log = logger("sluice.supervision")

TRY_AGAIN = 75  # sysexits.h, a temporary failure: the exit code of a JobError with `retry`
STEADY_S = 60.0  # a process that ran this long is restarted without a pause, whatever it did
LONGEST_PAUSE_S = 30.0
LOOK_EVERY_S = 1.0  # whether what was in the way is gone
POLL_S = 0.05
HEAD_START_S = 20.0  # for so long a process without progress has the cores to itself
SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # processes, memory, descriptors: for a moment
BESIDE_S = 1.0  # a process that has ended waits so long while another one runs, which takes over or ends, too


@dataclass(frozen=True)
class RestartHistory:
    """The history of a supervised process, and the pipe on which it reports progress."""

    restarts: int = 0  # of all processes of its supervisor
    exit_code: int | None = None  # after which this process is started again; a signal is negative
    progress: int | None = None  # a file descriptor, on which it writes a byte

    def tell_progress(self) -> None:
        """Report progress to the supervisor, so that it restarts the process without a pause."""
        if self.progress is not None:
            os.write(self.progress, b"+")


class _Siblings:
    """The processes, and the order in which they start: two starts at once would take twice as long."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.restarts = 0
        self.processes: dict[int, Started] = {}
        self.starting: list[int] = []  # the first one does, and the others wait

    def may_start(self, number: int) -> bool:
        if number not in self.starting:
            self.starting.append(number)
        return self.starting[0] == number

    def has_started(self, number: int) -> None:
        if number in self.starting:
            self.starting.remove(number)

    def has_ended(self, number: int) -> None:
        self.has_started(number)
        del self.processes[number]

    def run(self) -> bool:
        """Whether one of them runs at this moment."""
        return any(process.poll() is None for process in self.processes.values())

    def have_started(self) -> bool:
        """Whether all of them have, and none has ended."""
        return not self.starting and len(self.processes) == self.n


class Started(Protocol):
    """A started process; a session and a process group begin with it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def wait(self) -> int | None: ...


def executed(command: Sequence[str], progress: int) -> Started:
    """Start a program, which gets the file descriptor `progress`. It ends with this thread."""
    return subprocess.Popen(command, start_new_session=True, pass_fds=[progress], preexec_fn=die_with_parent)


def supervise(
    start: Callable[[RestartHistory, int], Started],
    stop: threading.Event,
    obstacle: Callable[[], str] = lambda: "",
    processes: int = 1,
    start_alone: Callable[[RestartHistory, int], Started] | None = None,
    prepare: Callable[[], object] = lambda: None,
) -> int:
    """Run so many processes, and restart each until one ends in order, or for a permanent reason, or `stop` is set;
    returns an exit code, that of a failure if there is one.

    A process is restarted if a signal killed it, or if it reported that another try may succeed. Its process group is
    killed first: a JVM that outlived its driver would write to the same checkpoint. After TRY_AGAIN there is a pause
    before the next start, which doubles until the process reports progress or runs for STEADY_S.

    `start` gets the history of the process and a file descriptor, on which it reports progress. `start_alone` is called
    in its place while no other process runs, and has to be quick. The processes start one after the other, each when
    the one before has made progress, or after HEAD_START_S. While all of them run and have started, `prepare` is called
    again and again: it prepares for `start_alone`.

    `obstacle` gives the reason that a start cannot work now, such as a full disk; empty if none is known. It is called
    after a temporary failure: while there is an obstacle, nothing is started; afterwards the next start follows at
    once. After a kill the next process starts without this look at the disk, and reports an obstacle itself.
    """
    siblings = _Siblings(processes)
    start_alone = start_alone or start
    kept = [_kept(number, siblings, start, start_alone, stop, obstacle, prepare) for number in range(processes)]
    left_s, codes = [0.0] * processes, list[int]()
    try:
        while not codes:
            for number, one in enumerate(kept):
                if not codes and left_s[number] <= 0.0:
                    left_s[number] = _next(one, codes)
            if not codes:
                pause = min(left_s)
                stop.wait(pause)
                left_s = [left - pause for left in left_s] if not stop.is_set() else [0.0] * processes
        stop.set()
        for _ in range(2):  # each is told to stop before any is waited for
            for one in kept:
                _next(one, codes)
    finally:
        for one in kept:
            one.close()  # kills what still runs, after a second signal
    code = next(filter(None, codes), 0)
    return TRY_AGAIN if code < 0 else code  # killed while it was to stop, or before


def _next(kept: Generator[float, None, int], codes: list[int]) -> float:
    """Go on with a process; returns for how long it needs nothing. Once it has ended for good its code is added."""
    try:
        return next(kept)
    except StopIteration as end:
        if end.value is not None:
            codes.append(end.value)
        return 0.0


def _kept(
    number: int,
    siblings: _Siblings,
    start: Callable[[RestartHistory, int], Started],
    start_alone: Callable[[RestartHistory, int], Started],
    stop: threading.Event,
    obstacle: Callable[[], str],
    prepare: Callable[[], object],
) -> Generator[float, None, int]:
    """Run a process and restart it; yields how many seconds to wait, and returns the last exit code."""
    pause = 0.0
    exit_code: int | None = None
    while not stop.is_set():
        beside_s = time.monotonic() + BESIDE_S * (exit_code is not None)
        while not siblings.may_start(number) or (siblings.run() and time.monotonic() < beside_s):
            yield POLL_S
            if stop.is_set():
                return 0
        began = time.monotonic()
        try:
            process, told = _begun(
                start if siblings.run() else start_alone, RestartHistory(siblings.restarts, exit_code)
            )
        except OSError as error:
            if error.errno not in SCARCE:
                raise
            siblings.has_started(number)
            pause = _longer(pause, 1.0)
            log.error("start_refused", **error_fields(error), pause_s=pause)
            yield pause
            continue
        siblings.processes[number] = process
        progressed = False
        try:
            while (code := process.poll()) is None:
                if stop.is_set():
                    process.terminate()  # it ends after the batch in hand
                    yield 0.0
                    process.wait()
                else:
                    lived_s = time.monotonic() - began
                    progressed = progressed or _anything(told)
                    if progressed or lived_s >= HEAD_START_S:
                        siblings.has_started(number)
                        if siblings.have_started():
                            prepare()
                    yield POLL_S
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            progressed = progressed or _anything(told)
            os.close(told)
            siblings.has_ended(number)
        if stop.is_set() and code == -signal.SIGTERM:
            return 0  # it was told to stop before it had a handler for that, and thus before it did anything
        if stop.is_set() or not (code < 0 or code == TRY_AGAIN):
            return code
        exit_code = code
        siblings.restarts += 1
        lived_s = time.monotonic() - began
        uptime_s = round(lived_s, 1)
        if code == TRY_AGAIN and (reason := obstacle()):
            log.error("job_blocked", exit_code=code, uptime_s=uptime_s, obstacle=reason)
            while obstacle():
                yield LOOK_EVERY_S
                if stop.is_set():
                    return code
            pause = 0.0
            log.info("job_unblocked")
        else:
            first = 1.0 if code == TRY_AGAIN else 0.0
            pause = 0.0 if progressed or lived_s >= STEADY_S else _longer(pause, first)
            log.warning("job_restarted", exit_code=code, uptime_s=uptime_s, pause_s=pause)
            yield pause
    return exit_code or 0


def _longer(pause_s: float, first_s: float) -> float:
    return min(LONGEST_PAUSE_S, 2 * pause_s or first_s)


def _begun(start: Callable[[RestartHistory, int], Started], past: RestartHistory) -> tuple[Started, int]:
    """Start a process; returns the pipe on which it reports progress, too. Raises OSError."""
    told, progress = os.pipe()
    os.set_blocking(told, False)
    try:
        return start(past, progress), told
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(progress)


def _anything(pipe: int) -> bool:
    """Whether anything was written to it since the last look."""
    with contextlib.suppress(BlockingIOError):
        return bool(os.read(pipe, 1))
    return False
