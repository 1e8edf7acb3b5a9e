"""Samples count what is there: processes, files by their topic, and the lines that the job's log has got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from rig.job import JobProcess
from tests.soak.sampling import logs_on_disk, on_disk
from tests.soak.system import news


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

    write(line(event="batch_finished", duration_ms=9_000, segment_count=9))
    job = JobProcess({"query.checkpoint": "nowhere"}, file)
    assert news(job.new_lines())["batches"] == 1
    assert news(job.new_lines()) == {"batches": 0, "longest_ms": None, "parts": None, "compactions": 0}
    batch = line(event="batch_finished", duration_ms=100, segment_count=3)
    write(b"Java says something\n" + batch + line(event="segments_compacted"))
    half = line(event="batch_finished", duration_ms=50, segment_count=2)
    write(half[:10])
    assert news(job.new_lines()) == {"batches": 1, "longest_ms": 100, "parts": 3, "compactions": 1}
    write(half[10:])
    assert news(job.new_lines()) == {"batches": 1, "longest_ms": 50, "parts": 2, "compactions": 0}
