"""Readings count what is there: processes, their memory, threads and descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from rig.usage import JOB, Most, Usage, taken


def test_a_process_takes_memory_threads_and_descriptors_and_one_that_ended_takes_nothing() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    mine = taken([os.getpid()])
    assert mine.processes == 1
    assert 1 < mine.memory_mb <= mine.resident_mb < 10_000
    assert mine.threads >= 1
    assert mine.cpu_s > 0
    with open(os.devnull):
        assert taken([os.getpid()]).descriptors > mine.descriptors
    assert taken([ended.pid]).processes == 0
    assert taken([os.getpid(), os.getpid(), ended.pid]).threads == 2 * mine.threads


def test_the_most_memory_is_that_of_any_moment() -> None:
    with Most(lambda: {"us": [os.getpid()], "nobody": []}, every_s=0.01) as most:
        before = taken([os.getpid()]).memory_mb
        much = bytearray(os.urandom(1 << 10) * (50 << 10))
        while most.memory_mb.get("us", 0) < before + 40:
            time.sleep(0.01)
        del much
    assert most.memory_mb["us"] < before + 200
    assert most.memory_mb["nobody"] == 0


def test_the_time_of_a_child_that_has_ended_counts_for_its_parent() -> None:
    work = "import time\nwhile time.process_time() < 0.6: pass"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}]); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with Usage(process.pid, {}) as usage:
            pass
        process.communicate(b"\n")
    (_, first), *_ = usage.samples
    assert [*first] == [JOB[1]]
    assert first[JOB[1]].cpu_s > 0.5  # the clock of processes has ticks
