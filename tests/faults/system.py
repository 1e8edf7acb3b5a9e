"""Everything that runs during faults: the broker with its proxy, the load, the supervised job, the watchers."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from confluent_kafka.admin import AdminClient, NewPartitions

from config import load as load_settings
from rig.broker import LOOPBACK, EmbeddedBroker, EmbeddedCluster, free_port
from rig.job import JobProcess
from rig.load import Load
from rig.place import JARS, PARTITIONS, create_topics
from rig.processes import ProcessTree
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S
from tests.faults.checking.check import Found, Gone, check
from tests.faults.checking.commits import Commits
from tests.faults.checking.reading import Reading
from tests.faults.checking.sources import tenants_of
from tests.faults.clock.clocks import Clocks
from tests.faults.load.past import Past
from tests.faults.load.writing import Writing
from tests.faults.proxy import Proxy
from tests.support.disk import Disk
from tests.support.release import HOME, release
from tests.support.spark_cluster import SparkCluster

NAME = "faults"
REPLICAS = 3  # of all topics, where there are three brokers
SEVERAL = Path(__file__).parent / "several.toml"
OF_TENANT = 4  # a tenant has this part of the subscriptions of the job's own topic
OTHER_VERSION = "0.1.1"
DISK_MB, LOG_DISK_MB = 64, 2_048  # of checkpoints, and of the broker
TRANSACTION_TIMEOUT_S = 8
START_TIMEOUT_S = 300.0  # the first time, kernels may have to be compiled
CATCH_UP_TIMEOUT_S = 240.0
ANY_TIME = {"log.message.timestamp.after.max.ms": str(2**63 - 1)}  # the broker takes records of any time
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01"}
LOOKS, LOOK_AGAIN_S = 5, 1.0  # what was committed may become visible a moment later
IMPATIENT = {"fetch.wait.max.ms": "20"}  # who reads to the end of many topics waits so long at each

LOAD = Load(subscriptions=2_000, events_per_second=300.0, changes_per_second=10.0, subscribers=20, symbols=100)


@dataclass(frozen=True)
class Outage:
    s: float  # the longest time without a commit of new events
    caught_up_s: float  # from the end of the fault until the job had done what was written by then


class System:
    """`with System(load, flags) as system`: entered when the job runs. Nothing is left of it afterwards.

    With `on_cluster` it has a Spark cluster, and with `replicated` three brokers, without a proxy and a disk of theirs.
    The first topic of events is `compacted` or not. With `several` there are two of those, and two tenants. A single
    broker has `transactions` of version 1 or 2. With `past` there are subscriptions with a start in the past. With
    `stands_by` the job has a standby.
    """

    def __init__(
        self,
        load: Load,
        flags: Mapping[str, str],
        on_cluster: bool = False,
        replicated: bool = False,
        compacted: bool = False,
        transactions: int = 2,
        several: bool = False,
        past: bool = False,
        stands_by: bool = False,
    ) -> None:
        self.load = load
        self._flags = flags
        self._on_cluster = on_cluster
        self._replicas = REPLICAS if replicated else 1
        self.compacted = compacted
        self._transactions = transactions
        self._config = SEVERAL if several else None
        self._has_past = past
        self._stands_by = stands_by
        self.past: Past | None = None
        self.home = HOME  # of the code
        self.proxy: Proxy | None = None
        self.log_disk: Disk | None = None
        self.gone: list[Gone] = []
        self.jobs: list[JobProcess] = []
        self._numbers = itertools.count()

    def __enter__(self) -> System:
        with ExitStack() as stack:
            self._enter(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self, stack: ExitStack) -> None:
        self.directory = Path(mkdtemp(prefix="sluice-faults-"))
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.clocks = Clocks(self.directory / "clocks")
        self.disk = stack.enter_context(Disk(self.directory / "disk", DISK_MB))
        self.brokers = self._replicated(stack) if self._replicas > 1 else [self._alone(stack)]
        self.cluster = Cluster(",".join(broker.bootstrap_servers for broker in self.brokers), {})
        self.spark = stack.enter_context(SparkCluster(self.directory / "spark")) if self._on_cluster else None
        flags = self.flags()
        self.settings = load_settings(self._config, flags)
        events, changes = self.settings.events.names, self._changes()
        config = {events[0]: COMPACTED} if self.compacted else {}
        create_topics(self.cluster, self.settings, PARTITIONS, self._replicas, config=config)
        self.reading = Reading(Cluster(self.cluster.bootstrap_servers, IMPATIENT), self.settings, PARTITIONS)
        self.writing = Writing(self.load, self.cluster, events, PARTITIONS, changes, self.compacted)
        self.writing.first()
        self.commits = Commits(self.cluster, NAME, dict.fromkeys((*events, *changes), PARTITIONS), events)
        stack.enter_context(self.commits)
        self._jobs = stack.enter_context(ExitStack())
        self.job = self.start(flags)
        self.job.wait_until_running(START_TIMEOUT_S)
        stack.enter_context(self.writing)
        self.job.wait_for(
            "at work", lambda: any(self.commits.events_of(self.commits.seen[-1]).values()), START_TIMEOUT_S
        )

        if self._has_past:
            self.past = stack.enter_context(self._past())

    def _alone(self, stack: ExitStack) -> EmbeddedBroker:
        """A broker with its own disk, which the job reaches by the proxy."""
        disk = self.log_disk = stack.enter_context(Disk(self.directory / "log", LOG_DISK_MB))
        direct, proxied = free_port(), free_port()
        proxy = self.proxy = stack.enter_context(Proxy(proxied))
        properties = ANY_TIME | _listeners(direct, proxied, proxy.port, free_port())
        features = ("--feature", f"transaction.version={self._transactions}")
        broker = EmbeddedBroker(JARS, disk.path / "kafka", port=direct, properties=properties, format=features)
        return stack.enter_context(broker)

    def _replicated(self, stack: ExitStack) -> list[EmbeddedBroker]:
        cluster = stack.enter_context(EmbeddedCluster(JARS, self.directory / "kafka", properties=ANY_TIME))
        return list(cluster.brokers.values())

    def flags(self) -> dict[str, str]:
        """Return the flags of a job on a fresh checkpoint."""
        own = {
            **self._flags,
            "query.name": NAME,
            "query.checkpoint": str(self.disk.path / f"checkpoint{next(self._numbers)}"),
            "kafka.bootstrap_servers": f"{LOOPBACK}:{self.proxy.port}"
            if self.proxy
            else self.cluster.bootstrap_servers,
            "deliveries.replication_factor": str(self._replicas),
            "kafka.client.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_S * 1000),
        }
        return own | ({"spark.master": self.spark.master, **self.spark.flags} if self.spark else {})

    def start(self, flags: Mapping[str, str]) -> JobProcess:
        log = self.directory / f"job{len(self.jobs)}.log"
        environment = self.clocks.environment
        job = self._jobs.enter_context(
            JobProcess(
                flags,
                log,
                home=self.home,
                supervised=True,
                stands_by=self._stands_by,
                config=self._config,
                environment=environment,
            )
        )
        self.jobs.append(job)
        return job

    def change_version(self) -> None:
        """The next job that starts runs the code of the other version."""
        other = self.directory / "other"
        if not other.exists():
            release(other, OTHER_VERSION)
            subprocess.run([sys.executable, other / "run_stream.py", "warm"], capture_output=True, check=True)
        self.home = other if self.home == HOME else HOME

    def start_again(self, flags: Mapping[str, str]) -> None:
        """Stop the job in order, and start it with other flags on the same checkpoint."""
        self.job.stop()
        self.job = self.start({**self.job.flags, **flags})

    def tree(self) -> ProcessTree:
        """The processes of the job."""
        return ProcessTree.of(self.job.pid, self.spark.executors() if self.spark else ())

    def caught_up(self, began_s: float) -> Outage:
        """Wait until all that is written by now is committed; `began_s` (monotonic) is when the fault did."""
        ended_s = time.monotonic()
        self.settle()
        now = time.monotonic()
        return Outage(self.commits.longest_gap_s(began_s, now), now - ended_s)

    def settle(self) -> None:
        """Wait until all that is written by now is committed. The load must go on: without it all would be right."""
        self.job.wait_for("taken by the broker", self.writing.is_taken, CATCH_UP_TIMEOUT_S)
        target = self.commits.ends()
        self.job.wait_for("caught up", lambda: self._behind(target) == 0, CATCH_UP_TIMEOUT_S)

    def checked(self) -> Found:
        """Check what is committed so far."""
        for _ in range(LOOKS):
            ends = self.commits.committed()
            began = self.past.began() if self.past else []
            outcomes = self.writing.transactions.outcomes()
            self.reading.advance()
            found = check(self.reading, ends, self.gone, self.load, tuple(self.writing.spread), outcomes, began)
            if found.right:
                break
            time.sleep(LOOK_AGAIN_S)
        return found

    def finish(self) -> Found:
        """No more load; the job does the rest and stops in order."""
        if self.past:
            self.past.finish()
        self.writing.finish()
        target = self.commits.ends()
        self.job.wait_for("done", lambda: self._behind(target) == 0, CATCH_UP_TIMEOUT_S)
        found = self.checked()
        self.job.stop()
        return found

    def add_partitions(self) -> None:
        """Add a partition to each topic that the job reads. No two changes of an id are in flight in different
        partitions: their statuses would have the same version, which does not order them."""
        names = (*self.settings.events.names, *tenants_of(self.settings))
        with self.writing.changes_held(), self.past.held() if self.past else nullcontext():
            self.settle()
            more = self.reading.partitions + 1
            admin = AdminClient(self.cluster.client())
            for future in admin.create_partitions([NewPartitions(name, more) for name in names]).values():
                future.result(TIMEOUT_S)
            for name in names:
                self.commits.added(name, more - 1)
            self.reading.added()
            self.writing.added()

    def forget(self, subscribers: Iterable[int]) -> None:
        """Read the topics of those that have no subscription any more, and delete them."""
        self.reading.advance()
        names = [self.reading.topic_of(subscriber) for subscriber in subscribers]
        self.cluster.topics().delete(names)
        for name in names:
            self.reading.deleted(name)

    def _past(self) -> Past:
        """Return subscriptions with a start, of the job's own topic, and of the first tenant where there are any."""
        own = {"query.name": NAME, "kafka.bootstrap_servers": self.cluster.bootstrap_servers}
        settings = [flag for name, value in own.items() for flag in ("--set", f"{name}={value}")]
        settings += ["--config", str(self._config)] if self._config else []
        topics: dict[str, Sequence[str]] = {self.settings.subscriptions.topic: ()}
        for name, tenant in islice(self.settings.subscriptions.tenants.items(), 1):
            topics[tenant.topic] = ("--tenant", name)

        def committed() -> dict[tuple[str, int], int]:
            by_number = self.commits.events_of(self.commits.seen[-1])
            return dict(zip(self.reading.event_partitions.places, by_number.values(), strict=True))

        return Past(settings, topics, self.load.symbols, self.settings.events.by_topic, committed, self.load.seed)

    def _changes(self) -> dict[str, Load]:
        """Return the load of each topic of subscriptions."""
        load, few = self.load, self.load.subscriptions // OF_TENANT
        return {
            topic: replace(load, seed=load.seed + of.number, subscriptions=few) if of.number else load
            for topic, of in tenants_of(self.settings).items()
        }

    def _behind(self, target: Mapping[tuple[str, int], int]) -> int:
        committed = self.commits.committed()
        return sum(max(0, end - committed[at]) for at, end in target.items())


def _listeners(direct: int, proxied: int, proxy: int, controller: int) -> dict[str, str]:
    """Return listeners with which a client of the proxy's listener is directed to the proxy again."""
    at = {"PLAINTEXT": direct, "PROXIED": proxied, "CONTROLLER": controller}
    return {
        "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in at.items()),
        "advertised.listeners": ",".join(
            f"{name}://{LOOPBACK}:{port}" for name, port in {**at, "PROXIED": proxy}.items()
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in at),
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{controller}",
    }
