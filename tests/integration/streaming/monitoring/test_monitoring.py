"""Status, metrics and traces of the real job agree with its deliveries."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from rig.processes import daemons_and_workers
from streaming.monitoring.reporting import FIELDS
from tests.integration.conftest import CommandLine
from tests.integration.running import SLOW_DAEMON, Job, job, lines, records, subscription
from tests.support.doubles.collector import Collector, collector
from tests.support.patience import PATIENCE_S

SOME_TRACE, SOME_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def ask(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def scraped(url: str) -> dict[tuple[str, ...], float]:
    """Values by name and by labels, in the order of their names."""
    code, text = ask(f"{url}/metrics")
    assert code == 200
    families = text_string_to_metric_families(text.decode())
    return {(s.name, *(s.labels[k] for k in sorted(s.labels))): s.value for f in families for s in f.samples}


def in_a_transaction(kafka: str, topic: str, values: list[bytes]) -> None:
    """Behind them the log has a marker, which is no record."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0, headers={"traceparent": f"00-{SOME_TRACE}-{SOME_SPAN}-01"})
    producer.commit_transaction(PATIENCE_S)


def check_traces(receiver: Collector, name: str, batches: list[dict[str, Any]]) -> None:
    """Each batch that was logged is one, with its stages, and those add up to what the log says."""
    found = sorted(receiver.traces().values(), key=lambda spans: spans[0].start_ns)
    assert len(found) == len(batches)
    for (root, *others), line in zip(found, batches, strict=True):
        assert (root.name, root.facts["sluice.batch"]) == ("batch", line["batch_id"])
        for key in ("matches", "deliveries", "changes", "undecodable"):
            assert root.facts[f"sluice.{key}"] == line[FIELDS[key]]
        assert root.facts["sluice.rows.events"] == line["event_count"]
        assert root.facts["sluice.state.version"] == line["state_version"]
        assert (root.resource["service.name"], root.error) == (name, None)
        stages = [span.name for span in others if span.name != "measure"]
        transaction = ["publish", "send", "commit"]
        of_driver = [*transaction, "apply"] if line["change_count"] else []
        assert stages == ["prepare", "match", *transaction * line["slot_transaction_count"], *of_driver]
        by_id = {span.id: span for span in (root, *others)}
        for span in others:
            parent = by_id[span.parent_id]
            assert parent.start_ns <= span.start_ns <= span.end_ns <= parent.end_ns
        lasted = sum(span.end_ns - span.start_ns for span in others if span.parent_id == root.id)
        assert lasted / 1e6 <= line["duration_ms"] + 0.1  # which is rounded
    linked = {link for (root, *_) in found for link in root.links}
    assert linked == {(bytes.fromhex(SOME_TRACE), bytes.fromhex(SOME_SPAN))}


def test_a_worker_that_hangs_is_in_the_log_and_in_ready_until_it_goes_on(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    flags = (
        *("-s", "monitoring.stuck_after_s=10"),
        # Nothing kills a worker that is suspended and has no heartbeats.
        *("-s", f"spark.options.spark.python.daemon.module={SLOW_DAEMON}"),
    )
    with job(sluice, *flags) as running:
        running.running()
        url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")
        sluice("produce", stdin=lines(*({"n": n} for n in range(10))))
        running.until("done with the first", lambda: running.total("event_count") == 10)
        running.until("ready", lambda: ask(f"{url}/ready")[0] == 200)
        _, workers = daemons_and_workers(running.processes(), SLOW_DAEMON)
        assert workers
        before = len(warnings(running))  # a busy machine may have had its own
        for worker in workers:
            worker.send(signal.SIGSTOP)
        try:
            sluice("produce", stdin=lines(*({"n": n} for n in range(10, 100))))

            def stalled() -> list[Any]:
                return [line for line in warnings(running)[before:] if line["stage"] == "match"]

            running.until("warned", stalled)
            line = stalled()[0]
            assert line["level"] == "warning"
            assert line["stalled_s"] >= 10  # rounded
            assert "Spark's Python workers" in line["hint"]
            code, body = ask(f"{url}/ready")
            assert code == 503
            about = f"batch {line['batch_id']} has made no progress in its stage 'match' for "
            assert any(reason.startswith(about) for reason in json.loads(body)["reasons"])
            assert ask(f"{url}/health")[0] == 200
            assert running.total("event_count") == 10
        finally:
            for worker in workers:
                worker.send(signal.SIGCONT)
        running.until("done", lambda: running.total("event_count") == 100)
        running.until("ready again", lambda: ask(f"{url}/ready")[0] == 200)
        running.until("going on", lambda: line["batch_id"] in continued(running))
        warned = [one["batch_id"] for one in warnings(running)]
        assert 1 <= warned.count(line["batch_id"]) == continued(running).count(line["batch_id"])
        assert sorted(json.loads(record.value)["n"] for record in records(kafka, f"{name}.to.alice")) == list(
            range(100)
        )


def test_a_batch_that_takes_long_is_alive_while_its_tasks_commit_and_not_once_they_hang(
    sluice: CommandLine, kafka: str
) -> None:
    stalled_after_s, pieces, rows = 45, 60, 100
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    flags = (
        *("-s", "events.reading=source"),  # an epoch ends in time, however slow its tasks are
        *("-s", f"spark.options.spark.python.daemon.module={SLOW_DAEMON}"),
        *("-s", f"spark.options.spark.sql.execution.arrow.maxRecordsPerBatch={rows}"),
        *("-s", f"monitoring.stalled_after_s={stalled_after_s}"),
    )
    with job(sluice, *flags) as running:
        running.running()
        url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")

        def status() -> Any:
            return json.loads(ask(f"{url}/status.json")[1])

        sluice("produce", stdin=lines({"n": 0}))
        running.until("done with the first", lambda: running.total("event_count") == 1)
        sluice("produce", stdin=lines(*({"n": n, "text": "SLOW"} for n in range(1, 1 + pieces * rows))))
        began, codes = time.monotonic(), set()
        while running.total("event_count") == 1 and time.monotonic() < began + 2 * stalled_after_s:
            codes.add(ask(f"{url}/health")[0])
            time.sleep(0.5)
        assert codes == {200}
        running.until("done with the batch", lambda: running.total("event_count") == 1 + pieces * rows)
        batch = max(line["duration_ms"] for line in running.lines if line["event"] == "batch_finished")
        assert batch > 1_000 * stalled_after_s, "that was no long batch"

        hanging = pieces // 2
        sluice("produce", stdin=lines(*({"n": n, "text": "SLOW"} for n in range(hanging * rows))))
        running.until("at work", lambda: (status()["in_hand"] or {}).get("stage") == "match")
        _, workers = daemons_and_workers(running.processes(), SLOW_DAEMON)
        for worker in workers:
            worker.send(signal.SIGSTOP)
        try:
            running.until("not alive", lambda: ask(f"{url}/health")[0] == 503)
            assert any(reason.startswith("nothing was committed for ") for reason in status()["health"]["reasons"])
        finally:
            for worker in workers:
                worker.send(signal.SIGCONT)
        running.until("alive again", lambda: ask(f"{url}/health")[0] == 200)
        running.until("done", lambda: running.total("event_count") > (pieces + hanging) * rows)


def continued(running: Job) -> list[int]:
    return [line["batch_id"] for line in running.lines if line["event"] == "batch_resumed"]


def warnings(running: Job) -> list[dict[str, Any]]:
    return [line for line in running.lines if line["event"] == "batch_stalled"]


def test_what_the_job_says_is_what_it_did(sluice: CommandLine, kafka: str, tmp_path: Path) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice(
        "subscribe",
        stdin=lines(subscription("s1", "alice", x=[1]), subscription("s2", "bob", x=[{"exists": True}])),
    )
    with collector() as receiver, job(sluice, "--set", f"monitoring.traces={receiver.url}", fresh=True) as running:
        running.until("starting", lambda: any(line["event"] == "monitoring_started" for line in running.lines))
        url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")
        code, body = ask(f"{url}/ready")
        is_ready = any(line["event"] == "job_started" for line in running.lines)
        assert is_ready or (code, json.loads(body)["ok"]) == (503, False)
        assert ask(f"{url}/health")[0] == 200
        running.running()
        assert (tmp_path / "checkpoint" / "monitoring").read_text() == f"{url}\n"
        sluice("produce", stdin=lines(*({"x": i % 2} for i in range(38)), "{not json"))
        running.until("done with the first", lambda: running.total("event_count") == 39)
        in_a_transaction(kafka, f"{name}.events", [b'{"x": 0}', b'{"x": 1}'])
        sluice("subscribe", "--id", "s3", "--subscriber", "carol", "--pattern", '{"y": [1]}')
        running.until("done", lambda: running.total("event_count") == 41 and running.total("change_count") == 1)

        def settled() -> Any:
            found = scraped(url)
            behind = sum(value for key, value in found.items() if key[0] == "sluice_lag_records")
            asked = found.get(("sluice_broker_answered_timestamp_seconds",), 0.0) > done_at
            return found if asked and not behind and ("sluice_jvm_heap_bytes", "used") in found else None

        done_at = time.time()
        running.until("settled", settled)
        found = scraped(url)

        delivered = {who: len(records(kafka, f"{name}.to.{who}")) for who in ("alice", "bob", "carol")}
        assert delivered == {"alice": 20, "bob": 40, "carol": 0}
        letters = len(records(kafka, f"{name}.dead"))
        for key, expected in {
            ("sluice_events_total",): 41,
            ("sluice_matched_events_total",): 40,
            ("sluice_matches_total",): 60,
            ("sluice_deliveries_total",): sum(delivered.values()),
            ("sluice_dead_letters_total", "undecodable_event"): letters,
            ("sluice_changes_total", "accepted"): 1,
            ("sluice_subscriptions",): 3,
            ("sluice_event_latency_seconds_count", "total"): 40,
            ("sluice_ready",): 1,
            ("sluice_healthy",): 1,
        }.items():
            assert found[key] == expected, key
        lag = {key[1:] for key in found if key[0] == "sluice_lag_records"}
        assert lag == {(str(p), f"{name}.{topic}") for topic in ("events", "subscriptions") for p in (0, 1)}
        assert found["sluice_processes_resident_bytes", "jvm"] > 100e6
        assert found["sluice_state_bytes",] > 1_000

        status = json.loads(ask(f"{url}/status.json")[1])
        assert (status["totals"]["deliveries"], status["state"]["subscriptions"]) == (60, 3)
        assert (status["job"]["query"], status["job"]["pid"]) == (name, running.process.pid)
        assert f"{name}.events" in ask(url)[1].decode()
        assert ask(f"{url}/ready") == (200, b'{"ok": true, "reasons": [], "notes": []}\n')
        batches = [line for line in running.lines if line["event"] == "batch_finished"]
        running.until("traced", lambda: sum(span.name == "batch" for span in receiver.spans) >= len(batches))
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
        check_traces(receiver, name, [line for line in running.lines if line["event"] == "batch_finished"])
    assert not (tmp_path / "checkpoint" / "monitoring").exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0
