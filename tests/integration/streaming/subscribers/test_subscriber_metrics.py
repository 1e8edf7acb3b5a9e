"""Metrics of subscribers are counted over restarts, listed, shown, and deleted with the last subscription."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from rig.processes import kill
from streaming.documents.subscriber_metrics import key_of
from streaming.kafka.topics import Topics
from tests.integration.conftest import CommandLine, delete
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S

DAEMON = "\0streaming.worker.daemon\0"


def write(kafka: str, topic: str, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(begin, end):
        producer.produce(topic, json.dumps({"n": n, "text": "x" * (n % 50 * 20)}).encode(), partition=n % 2)
    assert producer.flush(PATIENCE_S) == 0


def listed(sluice: CommandLine, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the output of `subscribers`, by name."""
    found = map(json.loads, sluice("subscribers", *arguments, "--json").splitlines())
    return {one.get("subscription", one["subscriber"]): one for one in found}


def counts(one: Mapping[str, Any]) -> tuple[int, int, dict[str, int]]:
    return one["deliveries"], one["matches"], one["dead_letters"]


def answer(running: Job, path: str) -> str:
    (url,) = {line["monitoring_url"] for line in running.lines if line["event"] == "job_started"}
    with urllib.request.urlopen(f"{url}{path}", timeout=PATIENCE_S) as response:
        return str(response.read().decode())


@pytest.mark.usefixtures("each_reading")
def test_what_each_subscriber_got_is_counted_over_restarts(sluice: CommandLine, kafka: str) -> None:
    events = f"{sluice.name}.events"
    sluice("topics", "create", "--partitions", "2")
    sluice(
        "subscribe",
        stdin=lines(
            subscription("a", "ann", n=[{"exists": True}]),
            subscription("a2", "ann", n=[{"numeric": ["<", 100]}]),
            subscription("b", "bob", n=[{"numeric": [">=", 900]}]),
            subscription("c", "cid", n=[{"numeric": ["<", 10]}]),
        ),
    )
    sluice.environment |= {
        "SLUICE_METRICS__SUBSCRIBERS": '["ann", "nobody"]',
        "SLUICE_METRICS__SUBSCRIPTIONS": "true",
    }
    limited = ("-s", "deliveries.max_bytes=1000")
    with job(sluice, *limited) as running:
        running.running()
        write(kafka, events, 0, 1_000)
        running.until("done", lambda: running.total("event_count") == 1_000)
        running.until("shown", lambda: json.loads(answer(running, "/status.json"))["subscribers"]["number"] == 3)
        assert "Busiest subscribers" in answer(running, "/")
    found = listed(sluice)
    to_ann = [record for record in records(kafka, f"{sluice.name}.to.ann") if record.value]
    oversize = 1_000 - len(to_ann)
    assert oversize > 0
    assert counts(found["ann"]) == (len(to_ann), 1_100, {"oversize": oversize})
    assert counts(found["bob"])[1] == 100
    assert counts(found["cid"]) == (10, 10, {})
    assert list(found) == ["ann", "bob", "cid"]  # the most deliveries first
    size = sum(len(r.key or b"") + len(r.value) + sum(len(k) + len(v) + 4 for k, v in r.headers) for r in to_ann)
    assert found["ann"]["bytes"] == size
    assert listed(sluice, "ann", "--sort", "name").keys() == {"a", "a2"}
    assert {id: one["matches"] for id, one in listed(sluice, "ann").items()} == {"a": 1_000, "a2": 100}

    with job(sluice, *limited) as running:
        running.running()
        sluice("unsubscribe", "c", "a2", "--wait")
        write(kafka, events, 1_000, 1_500)
        running.until("done", lambda: running.total("event_count") == 500)
        total = f'sluice_subscriber_matches_total{{subscriber="ann"}} {1_600.0}'
        running.until("labelled", lambda: total in answer(running, "/metrics"))
        assert 'subscriber="bob"' not in answer(running, "/metrics")
    again = listed(sluice)
    assert counts(again["ann"])[1] == 1_600
    assert counts(again["bob"])[1] == 600
    assert [again[one]["since_ms"] for one in ("ann", "bob")] == [found[one]["since_ms"] for one in ("ann", "bob")]

    with job(sluice) as running:  # forgets who is gone
        running.running()
        tombstones = {key_of("cid"), key_of("cid", "c"), key_of("ann", "a2")}
        topic = f"{sluice.name}.metrics"
        running.until("gone", lambda: {r.key for r in records(kafka, topic) if r.value is None} >= tombstones)
    assert listed(sluice).keys() == {"ann", "bob"}
    assert listed(sluice, "ann").keys() == {"a"}
    assert sluice("subscribers", "--sort", "name", "--limit", "1").splitlines()[1].startswith("ann")
    assert "--sort: unknown column bytes; known: matches, last-event," in sluice(
        "subscribers", "ann", "--sort", "bytes", code=2
    )


@pytest.mark.usefixtures("each_reading")
def test_a_killed_worker_or_driver_costs_the_counts_of_the_last_seconds_and_nothing_counts_twice(
    sluice: CommandLine, kafka: str
) -> None:
    events, to = f"{sluice.name}.events", f"{sluice.name}.to.ann"
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("a", "ann", n=[{"exists": True}])))
    with job(sluice) as running:
        running.running()
        write(kafka, events, 0, 1_000)
        running.until("written", lambda: listed(sluice).get("ann", {}).get("deliveries") == 1_000)
        write(kafka, events, 1_000, 2_000)
        running.until("delivered", lambda: len(records(kafka, to)) == 2_000)
        kill([one for one in running.processes() if DAEMON in one.command])  # with direct reading, amid an epoch
        running.until("counted", lambda: running.total("event_count") == 2_000)
        lost = sum(line["event_count"] for line in running.lines if line.get("workers_lost_count"))
        assert lost <= 1_000
        write(kafka, events, 2_000, 2_010)
        running.until("counted", lambda: running.total("event_count") == 2_010)
        running.until("written", lambda: listed(sluice)["ann"]["deliveries"] in (2_010 - lost, 2_010))
        written = listed(sluice)["ann"]
        write(kafka, events, 2_010, 3_000)
        running.until("delivered", lambda: len(records(kafka, to)) == 3_000)
        running.process.send_signal(signal.SIGKILL)
        running.ended()
    write(kafka, events, 3_000, 3_500)
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 500)
    found = listed(sluice)["ann"]
    assert written["deliveries"] + 500 <= found["deliveries"] <= written["deliveries"] + 1_490
    assert found["matches"] == found["deliveries"]
    assert found["since_ms"] == written["since_ms"]


def test_a_topic_that_is_gone_costs_no_event(sluice: CommandLine, kafka: str) -> None:
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("a", "ann", n=[{"exists": True}])))
    topic = f"{sluice.name}.metrics"
    with job(sluice) as running:
        running.running()
        write(kafka, f"{sluice.name}.events", 0, 10)
        running.until("written", lambda: any(high for _, _, high in Topics(kafka, {}).offsets(topic)))
        delete(Topics(kafka, {}), topic)
        write(kafka, f"{sluice.name}.events", 10, 20)
        warning = "subscriber_metrics_failed"
        running.until("warned", lambda: any(line["event"] == warning for line in running.lines))
        running.until("done", lambda: running.total("event_count") == 20)
        sluice("topics", "create")
    assert counts(listed(sluice)["ann"]) == (20, 20, {})
    delete(Topics(kafka, {}), topic)
    assert f"no topic {topic}" in sluice("run", code=1)
    assert f"no topic {topic}" in sluice("subscribers", code=1)
