"""A job chooses its index again when parts are compacted, for events like those that it has seen since its start."""

from __future__ import annotations

import json
from pathlib import Path

import orjson

from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.integration.streaming.monitoring.test_monitoring import ask

LONG = 9_000  # subscriptions: more than a batch's changes may move
MORE = 4_000  # so many that both are compacted


def index(running: Job) -> str:
    """Return the index that the status reports."""
    url = next(line["monitoring_url"] for line in running.lines if line["event"] == "job_started")
    state = json.loads(ask(f"{url}/status.json")[1])["state"]
    return str(state["index"])


def written(numbers: range) -> str:
    return lines(*(subscription(f"s{i}", "alice", x=[i], y=[{"numeric": [">", i % 9]}], z=[1]) for i in numbers))


def test_what_a_job_has_seen_of_events_decides_when_parts_are_compacted(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    sluice("topics", "create")
    sluice("subscribe", stdin=written(range(LONG)))
    with job(sluice, "-s", "matching.algorithm=auto") as running:
        running.running()
        running.until("its first choice", lambda: "for events alone" in index(running))
        first = index(running)
        assert f"{LONG:,} subscriptions" in first
        assert "events:" not in first

        sluice("produce", stdin=lines(*({"x": i, "y": 8} for i in range(1_500))))
        running.until("done with the events", lambda: running.total("event_count") == 1_500)
        assert index(running) == first  # until there is something to compact
        sluice("subscribe", "--wait", stdin=written(range(LONG, LONG + MORE)))
        running.until("compacted", lambda: "events:" in index(running))
        second = index(running)
        assert "events: 2 attributes each" in second
        assert "for events alone" not in second
        assert second in [line["index"] for line in running.lines if line["event"] == "segments_compacted"]

        sluice("produce", stdin=lines({"x": 3, "y": 9, "z": 1}, {"x": LONG + 3, "y": 9, "z": 1}))
        running.until("done with two more", lambda: running.total("event_count") == 1_502)
    delivered = records(kafka, f"{sluice.name}.to.alice")
    ids = {record.value: orjson.loads(dict(record.headers)["ce_subscriptionids"]) for record in delivered}
    assert sorted(ids.values()) == [["s3"], [f"s{LONG + 3}"]]

    with job(sluice, "-s", "matching.algorithm=auto") as again:
        again.running()
        assert "events: 2 attributes each" in index(again)  # saved with the part
