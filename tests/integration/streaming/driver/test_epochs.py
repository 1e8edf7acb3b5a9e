"""Epochs, in which tasks read the records themselves: each event is delivered once, whatever dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from tempfile import TemporaryDirectory

import orjson
from confluent_kafka import Producer

from rig.processes import kill
from streaming.kafka.topics import Topics
from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.documents import HOME
from tests.support.patience import PATIENCE_S

DAEMON = "\0streaming.worker.daemon\0"


def write(kafka: str, topic: str, begin: int, end: int, **client: str) -> None:
    """Events of two partitions, in a transaction."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{topic}.writer", **client})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for n in range(begin, end):
        producer.produce(topic, json.dumps({"n": n}).encode(), partition=n % 2)
    producer.commit_transaction(PATIENCE_S)


def numbers(kafka: str, topic: str) -> Counter[int]:
    return Counter(orjson.loads(record.value)["n"] for record in records(kafka, topic))


def status(running: Job) -> dict[str, object]:
    (url,) = {line["monitoring_url"] for line in running.lines if line["event"] == "job_started"}
    with urllib.request.urlopen(f"{url}/status.json", timeout=PATIENCE_S) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


def test_events_are_delivered_once_while_workers_and_the_job_are_killed(sluice: CommandLine, kafka: str) -> None:
    events, to = f"{sluice.name}.events", f"{sluice.name}.to.alice"
    sluice("topics", "create", "--partitions", "2")
    with job(sluice) as running:
        running.running()
        sluice("subscribe", "--wait", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
        write(kafka, events, 0, 1_000)
        running.until("done", lambda: running.total("event_count") == 1_000)
        # Behind the last events are the ends of transactions, which hold none.
        running.until("at the end", lambda: {lag["records"] for lag in status(running)["lag"]} == {0})  # type: ignore[attr-defined]
        for begin in (1_000, 2_000):
            kill([one for one in running.processes() if DAEMON in one.command])
            write(kafka, events, begin, begin + 1_000)
            running.until("delivered", lambda end=begin + 1_000: len(numbers(kafka, to)) == end)
        sluice("unsubscribe", "a", "--wait")
        write(kafka, events, 3_000, 3_010)
        running.until("done with what nobody gets", lambda: running.total("event_count") >= 1_010)
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == 0
    assert numbers(kafka, to) == Counter(range(3_000))
    with job(sluice, fresh=True) as running:
        running.running()
        sluice("subscribe", "--wait", stdin=lines(subscription("b", "bob", n=[{"exists": True}])))
        write(kafka, events, 4_000, 5_000)
        topics = Topics(kafka, {})
        running.until("publishing", lambda: any(high for _, _, high in topics.offsets(f"{sluice.name}.to.bob")))
        running.process.send_signal(signal.SIGKILL)
        running.ended()
    write(kafka, events, 5_000, 6_000)
    with job(sluice, "-s", "events.reading=source") as running:  # both ways go on from the same offsets
        running.running()
        running.until("delivered", lambda: len(numbers(kafka, f"{sluice.name}.to.bob")) == 2_000)
    assert numbers(kafka, f"{sluice.name}.to.bob") == Counter(range(4_000, 6_000))
    assert numbers(kafka, to) == Counter(range(3_000))


def test_quotas_and_shards_have_bounded_epochs(sluice: CommandLine, kafka: str) -> None:
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    flags = ("-s", "quotas.deliveries_per_second=10", "-s", "quotas.over=drop", "-s", "matching.shards=2")
    with job(sluice, *flags) as running:
        running.running()
        sluice("subscribe", "--wait", stdin=lines(subscription("b", "bob", n=[{"exists": True}])))
        producer = Producer({"bootstrap.servers": kafka})
        for n in range(40):  # two seconds, twenty events each
            at_ms = 1_700_000_000_000 + 1_000 * (n % 2)
            producer.produce(f"{sluice.name}.events", json.dumps({"n": n}).encode(), partition=0, timestamp=at_ms)
        assert producer.flush(PATIENCE_S) == 0
        running.until("done", lambda: running.total("event_count") == 40)
        assert running.total("over_quota_count") == 40
    assert numbers(kafka, f"{sluice.name}.to.alice") == numbers(kafka, f"{sluice.name}.to.bob") == Counter(range(20))


WITH_A_LARGE_COMMAND = """
import sys
from pathlib import Path
from streaming.driver import session

spark = session.start("test", "local[1]", {}, Path("jars/spark"), Path(sys.argv[1])).sparkContext
positions = bytes(3 << 20)
print(spark.parallelize([0], 1).map(lambda _: len(positions)).collect(), list(Path(spark._temp_dir).iterdir()))
spark.stop()
"""


def test_a_state_of_many_deleted_positions_leaves_no_file_of_each_epoch() -> None:
    with TemporaryDirectory() as scratch:  # the path of a socket may be only so long
        command = [sys.executable, "-c", WITH_A_LARGE_COMMAND, scratch]
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, f"[{3 << 20}] []\n"), done.stderr


WITHIN_THE_CALLBACK = """
import sys
from pathlib import Path
from streaming.driver import session
from streaming.driver.epoch_batches import EpochBatches

class OneEpoch(EpochBatches):
    def _epoch(self):
        if self._finished:  # Spark has begun another batch meanwhile
            return
        context = spark.sparkContext
        print(context.getLocalProperty("spark.sql.execution.id"), context.parallelize(range(3), 1).count())
        print(context.getLocalProperty("spark.jobGroup.id") == str(query.runId))  # so that a stop ends its jobs
        self._finished = True

spark = session.start("test", "local[1]", {}, Path("jars/spark"), Path(sys.argv[1]))
batches = OneEpoch(None, None, lambda number: {}, None)
writer = spark.readStream.format("rate").load().writeStream.foreachBatch(batches)
query = writer.start()
while not batches._finished and query.isActive:
    query.awaitTermination(1)
query.stop()
spark.stop()
"""


def test_jobs_of_epochs_belong_to_no_execution_that_spark_would_remember_them_for() -> None:
    with TemporaryDirectory() as scratch:
        command = [sys.executable, "-c", WITHIN_THE_CALLBACK, scratch]
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "None 3\nTrue\n"), done.stderr
