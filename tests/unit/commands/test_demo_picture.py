"""The demo's picture on a terminal."""

from __future__ import annotations

import io
import threading
from itertools import islice

import pytest
from rich.console import Console

from commands.demo import show as demo
from streaming.latencies import STAGES, TOTAL, Latencies


def test_no_line_of_the_picture_is_folded_at_80_columns() -> None:
    seen = demo.Seen(published=1_000_000, processed=1_000_000)
    seen.deliveries = {(number, "trader-50"): [] for number in range(1_000)}
    seen.examples = [('{"date": "2018-06-08", "row": 3996}' * 9, "trader-50", '["s0000", "s0001", "s0002", "s0003"]')]
    console = Console(width=80, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(demo._picture(seen, 1_000_000))
    counts, *tables = captured.get().splitlines()
    assert counts == "events in 1,000,000/1,000,000   matched 1,000,000   deliveries out 1,000"
    assert len(tables) == 1 + len((*STAGES, TOTAL, demo.FIRST_ROW)) + 1 + len(seen.examples)


def test_the_job_tells_which_index_matches() -> None:
    seen = demo.Seen()
    seen.add([{"event": "job_started", "algorithm": "auto", "index": "scan for 9 subscriptions"}])
    assert seen.index == "scan for 9 subscriptions"


def test_the_latencies_of_the_first_events_are_apart() -> None:
    seen = demo.Seen()
    for events, ms in ((demo.FIRST - 1, 2_000), (1, 1_000), (1_000, 100)):
        latencies = Latencies()
        latencies.add(ms, events)
        found = {stage: latencies.to_json() for stage in (*STAGES, TOTAL)}
        seen.add([{"event": "batch_finished", "event_count": events, "latency_histograms": found}])
    assert [sum(found.counts.values()) for found in (seen.first, seen.latencies[TOTAL])] == [demo.FIRST, 1_000]
    assert (seen.first.max_ms, seen.latencies["wait"].max_ms) == (2_000, 100)


def test_the_first_events_wait_until_those_before_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PORTION", 2)
    seen, stopped = demo.Seen(), threading.Event()
    sent = demo._one_after_the_other(((number, b"") for number in range(5)), seen, stopped)
    assert [number for number, _ in islice(sent, 2)] == [0, 1]
    later = threading.Timer(0.05, lambda: setattr(seen, "processed", 2))
    later.start()
    assert next(sent) == (2, b"")
    assert seen.processed == 2
    assert next(sent) == (3, b"")
    stopped.set()
    assert list(sent) == [(4, b"")]


def test_a_portion_that_nobody_matches_does_not_stop_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PATIENCE_S", 0.0)
    sent = demo._one_after_the_other(((number, b"") for number in range(3)), demo.Seen(), threading.Event())
    assert [number for number, _ in sent] == [0, 1, 2]
