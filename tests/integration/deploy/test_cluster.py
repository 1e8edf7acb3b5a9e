"""The job on a cluster whose workers have no code of ours: the driver sends everything."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from rig.processes import Process, below, ended, kill
from streaming.kafka.topics import Topics
from streaming.publishing.fencing import slot_name
from tests.integration.conftest import HOME, CommandLine
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S
from tests.support.spark_cluster import WORKERS, SparkCluster

PARTITIONS = 4
LARGE = 1_000  # events of a partition: of a small batch there is only one task
HELD_UP_S = 10.0  # a batch takes less, unless one of its tasks does not end
LOGGED_S = 2.0  # then an executor's log has the end of a task that it ended before it was stopped
SILENT_S = 30  # then an executor is lost to Spark
MORE = 20_000  # subscriptions, more than parts without a file may have together, in however many batches they come


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster") / "spark") as cluster:
        yield cluster


def test_the_job_runs_on_a_cluster_to_which_it_brings_its_code(
    sluice: CommandLine, kafka: str, spark: SparkCluster
) -> None:
    for name in ("NUMBA_CACHE_DIR", "PYTHONPATH"):
        sluice.environment.pop(name, None)
    # A batch of Spark's has a second task from 2,000 events on; an epoch only if one cannot do the load.
    sluice.environment["SLUICE_EVENTS__READING"] = "source"
    sluice("topics", "create", "--partitions", str(PARTITIONS))
    sluice("subscribe", stdin=lines(subscription("s1", "alice", x=[1]), subscription("s2", "bob", x=[1, 2])))
    sent: Counter[tuple[int, int]] = Counter()  # (x, n)

    def produce(x: int, each: int = 10) -> None:
        """Produce that many events to each partition."""
        producer = Producer({"bootstrap.servers": kafka})
        for n in range(len(sent), len(sent) + each * PARTITIONS):
            producer.produce(f"{sluice.name}.events", json.dumps({"x": x, "n": n}).encode(), partition=n % PARTITIONS)
            sent[x, n] += 1
        assert producer.flush(PATIENCE_S) == 0

    def delivered(subscriber: str, least: int = 0) -> Counter[tuple[int, int]]:
        events = (json.loads(record.value) for record in records(kafka, f"{sluice.name}.to.{subscriber}", least))
        return Counter((event["x"], event["n"]) for event in events)

    flags = assignments(spark)
    with job(sluice, *flags) as running:
        running.until("running", lambda: any(line["event"] == "job_started" for line in running.lines))

        def done() -> bool:
            return running.total("event_count") >= len(sent)

        def after_batches(what: str, condition: Callable[[], bool]) -> None:
            """Send events until the condition holds: the work is done between batches, and without events there are
            none."""

            def holds() -> bool:
                produce(2)
                running.until("delivered", done)
                return condition()

            running.until(what, holds)

        def right() -> bool:
            """Each event was delivered once to those whom it was for."""
            of_alice = Counter({event: 1 for event in sent if event[0] == 2 or event[1] < 10 * PARTITIONS})
            of_bob = Counter(event for event in sent if event[0] != 3)
            return delivered("alice", of_alice.total()) == of_alice and delivered("bob", of_bob.total()) == of_bob

        produce(1)
        running.until("delivered", done)
        assert right()

        # Both executors publish: task n of a batch in slot n. All events of these batches are for dora.
        sluice("subscribe", "--wait", stdin=lines(subscription("s3", "dora", x=[3])))
        before = spark.finished_tasks()

        def both_have_published() -> bool:
            produce(3, LARGE)
            running.until("delivered", done)
            one, other = (now - then for now, then in zip(spark.finished_tasks(), before, strict=True))
            return any((stage, 1 - task) in other for stage, task in one)

        running.until("published by both executors", both_have_published)
        assert slots_of(kafka, sluice.name, f"{sluice.name}.to.dora") == set(range(WORKERS))
        assert delivered("dora") == Counter(event for event in sent if event[0] == 3)

        # What executors run is what they were sent: nothing was compiled there.
        here = {file.name for file in HOME.glob("[ms]*/**/*.nbc")}
        there = spark.kernels()
        assert len(there) >= WORKERS  # a machine that was suspended may have lost executors, which were replaced
        assert all(there)
        assert sorted(set().union(*there) - here) == []

        sluice("subscribe", "--wait", stdin=lines(subscription("s1", "alice", x=[2])))
        produce(1)
        produce(2)
        running.until("delivered", done)
        assert right()

        # Files of parts come, and those of retired parts go.
        many = [subscription(f"m{n}", "carol", y=[n]) for n in range(MORE)]
        sluice("subscribe", "--wait", stdin=lines(*many))
        after_batches("on the executors", lambda: bool(spark.mapped()))
        first = spark.mapped()
        sluice("subscribe", "--wait", stdin=lines(*(line.replace("m", "n", 1) for line in many)))
        after_batches("retired", lambda: bool(now := spark.mapped()) and not first & now)

        # An executor is lost while its task is under way.
        jvm = jvms(spark)[0]
        workers = below(jvm.pid)
        for worker in workers:
            worker.send(signal.SIGSTOP)

        def is_held_up() -> bool:
            produce(3, LARGE)
            return not within(HELD_UP_S, done)

        running.until("held up", is_held_up)
        kill([jvm, *workers])
        produce(2)
        of_dora = Counter(event for event in sent if event[0] == 3)
        # The job's figures lack what a task published whose stage then failed.
        assert delivered("dora", of_dora.total()) == of_dora
        assert right()


def test_an_executor_that_hangs_is_replaced_and_its_work_done_again(
    sluice: CommandLine, kafka: str, spark: SparkCluster
) -> None:
    """It is there, and connected, but nothing of it answers."""
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(subscription("s1", "alice", x=[1])))
    sent = 0

    def produce() -> None:
        nonlocal sent
        sluice("produce", stdin=lines({"x": 1, "n": sent}, {"x": 1, "n": sent + 1}))
        sent += 2

    def delivered() -> list[int]:
        return sorted(json.loads(record.value)["n"] for record in records(kafka, f"{sluice.name}.to.alice", sent))

    silence = {"spark.options.spark.network.timeout": f"{SILENT_S}s", "matching.algorithm": "scan"}
    with job(sluice, *assignments(spark, silence)) as running:
        running.until("running", lambda: any(line["event"] == "job_started" for line in running.lines))
        produce()
        assert len(delivered()) == sent
        running.until("two", lambda: len(jvms(spark)) == WORKERS)
        hanging: list[Process] = []

        def hangs_at_work() -> bool:
            """Stop the executor that has the one task of the present batch; let it go on if it has just ended it."""
            busy = [jvm for jvm in jvms(spark) if spark.is_at_work(jvm)][:1]
            hanging[:] = [process for jvm in busy for process in (jvm, *below(jvm.pid))]
            for process in hanging:
                process.send(signal.SIGSTOP)
            if hanging and not within(LOGGED_S, lambda: not spark.is_at_work(hanging[0])):
                return True
            for process in hanging:
                process.send(signal.SIGCONT)
            return False

        running.until("stopped at work", hangs_at_work)
        produce()
        assert delivered() == list(range(sent))
        running.until("counted", lambda: running.total("workers_lost_count") > 0)
        assert running.total("aborted_transaction_count") == 0
        assert any("Executor heartbeat timed out" in line for line in running.other)
        assert ended(hanging[:1], PATIENCE_S)
        kill(hanging[1:])  # nothing can end what is stopped, but this
        running.until("replaced", lambda: len(jvms(spark)) == WORKERS)


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return holds


def assignments(spark: SparkCluster, settings: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The flags for a job on this cluster."""
    flags = {"spark.master": spark.master, **spark.flags, **settings}
    return [part for name, value in flags.items() for part in ("--set", f"{name}={value}")]


def jvms(spark: SparkCluster) -> list[Process]:
    """Return the JVMs of the executors."""
    return [process for process in spark.executors() if "java" in process.command.split("\0")[0]]


def slots_of(kafka: str, query: str, topic: str) -> set[int]:
    """The slots that have written to a topic, by the producer ids of its records."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    try:
        slots = admin.describe_transactions([slot_name(query, number) for number in range(WORKERS)])
        partitions = [TopicPartition(topic, n) for n in range(Topics(kafka, {}).partitions()[topic])]
        written = admin.describe_producers(partitions).values()
    finally:
        admin.close()
    producers = {producer.producer_id for state in written for producer in state.active_producers}
    return {n for n in range(WORKERS) if slots[slot_name(query, n)].producer_id in producers}
