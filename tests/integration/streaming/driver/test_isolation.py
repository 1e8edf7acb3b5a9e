"""Records that kill workers or need too much memory do not stop the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rig.processes import DAEMON, daemons_and_workers, ended, kill
from streaming.kafka.topics import Topics
from tests.integration.conftest import CommandLine
from tests.integration.running import SLOW_DAEMON, job, lines, records, subscription
from tests.support.patience import PATIENCE_S

HOME = Path(__file__).resolve().parents[4]
POISONOUS = ("-s", "spark.options.spark.python.daemon.module=tests.integration.streaming.poisonous_daemon")


def numbers(kafka: str, topic: str) -> list[int]:
    return sorted(orjson.loads(record.value)["n"] for record in records(kafka, topic))


def publishes(kafka: str, topic: str) -> Callable[[], bool]:
    """Return a function that is true once the topic has more records than now, committed or not."""
    topics = Topics(kafka, {})
    ends = {high for _, _, high in topics.offsets(topic)}
    return lambda: {high for _, _, high in topics.offsets(topic)} != ends


def test_what_kills_a_worker_is_set_aside_and_the_job_goes_on(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    with job(sluice, *POISONOUS) as running:
        running.running()
        deadly = {17: "POISON", 60: "POISON too"}
        sluice("produce", stdin=lines(*({"n": n, "text": deadly.get(n, "good")} for n in range(100))))
        running.until("done with the events", lambda: running.total("event_count") == 100)
        assert numbers(kafka, f"{name}.to.alice") == [n for n in range(100) if n not in deadly]
        letters = records(kafka, f"{name}.dead")
        assert {orjson.loads(letter.value)["n"] for letter in letters} == deadly.keys()
        assert {dict(letter.headers)["sluice_reason"] for letter in letters} == {b"poison_event"}
        assert all(b"no worker survives it" in dict(letter.headers)["sluice_detail"] for letter in letters)
        said = [line for line in running.lines if line["event"] in ("workers_lost", "workers_retried")]
        assert running.total("workers_lost_count") == len(said) > 0

        poisoned = subscription("p", "POISON", x=[1])
        error = sluice("subscribe", "--wait", stdin=lines(poisoned, subscription("b", "bob", x=[1])), code=1)
        assert "p: rejected: no worker survives it" in error
        assert "b: in force" in error
        assert running.process.poll() is None


def test_workers_that_are_killed_are_replaced_and_nothing_is_lost(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    with job(sluice) as running:
        running.running()
        for begin in (0, 50, 100):
            daemons, workers = daemons_and_workers(running.processes())
            kill(daemons if begin == 100 else workers)
            sluice("produce", stdin=lines(*({"n": n} for n in range(begin, begin + 50))))
            running.until("done", lambda end=begin + 50: running.total("event_count") == end)
        assert numbers(kafka, f"{name}.to.alice") == list(range(150))


def test_workers_end_with_their_parent_since_without_it_spark_cannot_kill_those_that_hang(
    sluice: CommandLine, kafka: str
) -> None:
    many = 60_000
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    with job(sluice) as running:
        running.running()
        daemons, workers = daemons_and_workers(running.processes())
        assert workers
        publishing = publishes(kafka, f"{sluice.name}.to.alice")
        sluice("produce", stdin=lines(*({"n": n} for n in range(many))))
        running.until("publishing", publishing)
        kill(daemons)
        assert ended(daemons, PATIENCE_S)  # or Linux ends what has stopped with it
        for worker in workers:
            worker.send(signal.SIGSTOP)
        assert ended(workers, PATIENCE_S)
        running.until("done", lambda: running.total("event_count") == many)
        assert numbers(kafka, f"{sluice.name}.to.alice") == list(range(many))


@pytest.mark.parametrize("by_time", [False, True], ids=["found by heartbeats", "found by time"])
def test_a_worker_that_hangs_in_the_middle_of_a_batch_is_killed_and_nothing_is_lost_or_twice(
    sluice: CommandLine, kafka: str, by_time: bool
) -> None:
    name, many = sluice.name, 60_000
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    flags, daemon = [], DAEMON
    if by_time:
        daemon = SLOW_DAEMON
        flags += ["-s", "kafka.client.transaction.timeout.ms=5000"]  # a batch may take twice that
        flags += ["-s", f"spark.options.spark.python.daemon.module={daemon}"]
    with job(sluice, *flags) as running:

        def killed() -> bool:
            return any(line.startswith("killed worker ") for line in running.other)

        running.running()
        sluice("produce", stdin=lines({"n": 0}))
        running.until("done with the first", lambda: running.total("event_count") == 1)
        _, workers = daemons_and_workers(running.processes(), daemon)
        assert workers
        publishing = publishes(kafka, f"{name}.to.alice")
        sluice("produce", stdin=lines(*({"n": n} for n in range(1, many))))
        running.until("publishing", publishing)
        for worker in workers:
            worker.send(signal.SIGSTOP)
        sluice("produce", stdin=lines({"n": many}))
        running.until("killed", lambda: running.total("workers_hung_count") if by_time else killed())
        # One of two tasks may have committed before its worker stood still.
        running.until("done", lambda: running.total("event_count") > many)
        for worker in workers:
            worker.send(signal.SIGCONT)  # Spark may have let go of an idle one, which then ends by itself
        assert ended(workers, PATIENCE_S)
        assert running.total("workers_hung_count") == (running.total("workers_lost_count") if by_time else 0)
        assert any(line["event"] == "workers_hung" for line in running.lines) == by_time
        assert killed() != by_time
        assert numbers(kafka, f"{name}.to.alice") == list(range(many + 1))


def test_what_very_many_match_is_delivered_within_the_memory_of_workers(
    sluice: CommandLine, kafka: str, tmp_path: Any
) -> None:
    name, subscriptions, events = sluice.name, 30_000, 300
    sluice("topics", "create")
    ids = [f"id{i}" for i in range(subscriptions)]
    documents = tmp_path / "subscriptions.jsonl"
    documents.write_text(
        lines(*(subscription(id, f"s{i % 3}", n=[{"numeric": [">=", 0]}]) for i, id in enumerate(ids)))
    )
    sluice("subscribe", str(documents))
    with job(sluice, "-s", "spark.worker_memory_mb=110") as running:
        running.running()
        sluice("produce", stdin=lines(*({"n": n} for n in range(events)), {"n": -1}))
        running.until("done with the events", lambda: running.total("event_count") == events + 1)
        assert any(line["event"] == "workers_lost" for line in running.lines), "the limit was not met"
        for s in range(3):
            found = records(kafka, f"{name}.to.s{s}")
            assert sorted(orjson.loads(record.value)["n"] for record in found) == list(range(events))
            expected = sorted(id for i, id in enumerate(ids) if i % 3 == s)
            assert json.loads(dict(found[0].headers)["ce_subscriptionids"]) == expected


PARTS_OF_A_BATCH = """
import numpy as np
from pyspark.sql import SparkSession
from streaming.driver.runs.source_run import SourceRun

local = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
session = SparkSession.builder.master("local[1]").config(map=local).getOrCreate()
batch = session.range(0, 8, 1, 2).selectExpr("0 AS source", "0 AS partition", "id AS offset")
for begin, end in (0, 0), (2, 5):
    places = np.array([(0, 0, offset, 1) for offset in range(begin, end)], np.int64).reshape(-1, 4)
    part = SourceRun.only(None, batch, places)
    seen = session.sparkContext.accumulator(0)

    def work(batches):
        seen.add(1)
        yield from batches

    found = part.coalesce(1).mapInArrow(work, part.schema).toArrow()
    print(found["offset"].to_pylist(), seen.value)
session.stop()
"""


def test_workers_get_an_empty_part_too_so_that_it_shows_whether_they_work() -> None:
    """Spark starts no task for what it knows to be empty."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", PARTS_OF_A_BATCH], cwd=HOME, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["[] 1", "[2, 3, 4] 1"]), done.stderr
