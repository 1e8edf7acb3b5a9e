"""Samples count what is there: processes, files by their topic, and the lines that the job's log has got."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import orjson

from rig.job import JobProcess
from tests.soak.sampling import Most, logs_on_disk, on_disk, taken
from tests.soak.system import news


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


def test_files_count_as_far_as_they_are_written_and_by_their_topic(tmp_path: Path) -> None:
    for name, kb in {"events-0": 100, "events-1": 200, "subs-0": 300, "subs.status-0": 400, "__offsets-0": 500}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_bytes(b"x" * kb * 1_000)
        with (tmp_path / name / "index").open("wb") as index:
            index.truncate(50_000_000)
    (tmp_path / "meta.properties").write_text("x")
    groups = {"events": "events-", "subscriptions": "subs-", "statuses": "subs.status-", "deliveries": "deliveries."}
    found = {name: round(mb, 1) for name, mb in logs_on_disk(tmp_path, groups).items()}
    assert found == {"events": 0.3, "subscriptions": 0.3, "statuses": 0.4, "deliveries": 0.0, "broker": 0.5}
    assert round(on_disk(tmp_path), 1) == 1.5


def test_each_line_of_the_log_counts_once_and_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "job.log"

    def write(text: bytes) -> None:
        with file.open("ab") as log:
            log.write(text)

    def line(**fields: Any) -> bytes:
        return orjson.dumps(fields) + b"\n"

    write(line(event="batch", batch_ms=9_000, parts=9))
    job = JobProcess({"query.checkpoint": "nowhere"}, file)
    assert news(job.new_lines())["batches"] == 1
    assert news(job.new_lines()) == {"batches": 0, "longest_ms": None, "parts": None, "compactions": 0}
    write(b"Java says something\n" + line(event="batch", batch_ms=100, parts=3) + line(event="parts compacted"))
    half = line(event="batch", batch_ms=50, parts=2)
    write(half[:10])
    assert news(job.new_lines()) == {"batches": 1, "longest_ms": 100, "parts": 3, "compactions": 1}
    write(half[10:])
    assert news(job.new_lines()) == {"batches": 1, "longest_ms": 50, "parts": 2, "compactions": 0}
