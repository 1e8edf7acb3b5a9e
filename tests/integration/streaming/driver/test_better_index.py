"""A job whose kernels are not compiled matches without an index, and changes to it between two batches."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import orjson

from streaming.precompile import marker
from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.integration.streaming.monitoring.test_monitoring import ask, scraped
from tests.support.patience import PATIENCE_S


def said(running: Job, event: str) -> list[dict[str, object]]:
    return [line for line in running.lines if line["event"] == event]


def test_every_event_before_during_and_after_the_change_is_delivered_once(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    directory = marker.places().write
    (directory / "compiled-sff.json").unlink(missing_ok=True)  # so it has to look whether they are compiled
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(*(subscription(f"s{i}", "alice", x=[{"numeric": [">=", 0]}]) for i in range(30))))
    sent = 0
    with job(sluice, "-s", "matching.algorithm=sff") as running:
        running.running()
        assert said(running, "job_started")[0]["subscription_count"] == 30
        running.until("index_preparing", lambda: said(running, "index_preparing"))  # after another that compiles
        (waiting,) = said(running, "index_preparing")
        assert waiting["fallback_algorithm"] == "scan"

        def send() -> None:
            nonlocal sent
            sluice("produce", stdin=lines({"x": sent}))
            sent += 1
            running.until("done with the event", lambda: running.total("event_count") == sent)

        send()
        sluice("subscribe", "--wait", stdin=lines(subscription("t", "bob", x=[{"numeric": [">=", 0]}])))
        deadline = time.monotonic() + PATIENCE_S
        while not any(line["index"] == "sff" for line in said(running, "segments_compacted")):
            assert time.monotonic() < deadline, "the index is not there"
            send()
        for _ in range(3):
            send()
    assert marker.is_compiled("sff")
    for subscriber, first, of in (("alice", 0, 30), ("bob", 1, 1)):
        delivered = records(kafka, f"{sluice.name}.to.{subscriber}")
        assert Counter(orjson.loads(record.value)["x"] for record in delivered) == Counter(range(first, sent))
        assert {len(orjson.loads(dict(record.headers)["ce_subscriptionids"])) for record in delivered} == {of}


def test_a_start_with_nothing_compiled_says_so_and_has_small_batches_of_spark_until_the_index_is_in_use(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    subscriptions, events, most = 40_000, 12_000, 5_000
    (tmp_path / "numba").mkdir()
    documents = tmp_path / "subscriptions.jsonl"
    documents.write_text(lines(*(subscription(f"s{i}", f"a{i % 3}", x=[i]) for i in range(subscriptions))))
    sluice("topics", "create")
    sluice("subscribe", str(documents))

    def send(first: int) -> None:
        sluice("produce", stdin=lines(*({"x": x} for x in range(first, first + events))))

    def sizes() -> list[int]:
        return [
            line["event_count"] for line in running.lines if line["event"] == "batch_finished" and line["event_count"]
        ]

    send(0)
    sluice.environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    with job(sluice, "-s", "matching.algorithm=sff", "-s", "events.reading=source", fresh=True) as running:
        running.until("starting", lambda: said(running, "monitoring_started"))
        url = str(said(running, "monitoring_started")[0]["monitoring_url"])
        notes: set[str] = set()

        def ready_and_noted() -> bool:
            code, body = ask(f"{url}/ready")
            notes.update(json.loads(body)["notes"])
            return code == 200 and bool(notes)

        running.until("ready", ready_and_noted)
        assert all(note.startswith("matching without an index, slowly, for ") for note in notes)
        running.until("done with the first", lambda: running.total("event_count") == events)
        assert said(running, "index_preparing")
        assert max(sizes()) <= most
        running.until("index_ready", lambda: said(running, "index_ready"))
        running.until("without the limit", lambda: said(running, "batch_limit_changed"))
        assert json.loads(ask(f"{url}/ready")[1])["notes"] == []
        assert scraped(url)["sluice_without_index_seconds",] == 0
        assert json.loads(ask(f"{url}/status.json")[1])["state"]["index"] == "sff"
        before = len(sizes())
        send(events)
        running.until("done with all", lambda: running.total("event_count") == 2 * events)
        assert max(sizes()[before:]) > most
    found = [orjson.loads(record.value)["x"] for i in range(3) for record in records(kafka, f"{sluice.name}.to.a{i}")]
    assert Counter(found) == Counter(range(2 * events))
