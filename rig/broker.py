"""An embedded Kafka: KRaft nodes as child processes, for trying Sluice and for its tests."""

from __future__ import annotations

import base64
import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rig.starting import interrupts_held
from streaming.errors import JobError
from streaming.process.child import die_with_parent
from streaming.process.class_archive import ClassArchive
from streaming.process.jars import FETCH
from streaming.process.java import java

START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 20.0
LOOPBACK = "127.0.0.1"
_ports = random.SystemRandom()  # two processes with one seed would try the same ports
_given_ports: set[int] = set()

PROPERTIES = """\
process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
delete.topic.enable=true
message.max.bytes=20000000
replica.fetch.max.bytes=20000000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.max.timeout.ms=900000
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=1000
# Kafka maps two index files for each partition, 10 MB each by default. The first entry of each is a page fault, and
# Linux then reads around it, as far as the device's read-ahead goes: at 8 MB a thousand topics need 16 GB of page
# cache. A segment of 1 GB needs 16,384 entries of 12 bytes at most, one for each 64 kB. With one for each megabyte,
# each answer to a reader at the end walks over half of one, nearly half of its time with 200 topics.
log.index.size.max.bytes=262144
log.index.interval.bytes=65536
# By default an idle controller writes a record every half second, for other nodes to see that it lives.
metadata.max.idle.interval.ms=0
num.network.threads=2
num.io.threads=4
"""
ALONE = """\
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
"""
REPLICATED = """\
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
metadata.max.idle.interval.ms=500
"""
NODES = 3  # of a replicated cluster


class ClusterNode(NamedTuple):
    """The place of a broker in a replicated cluster."""

    node: int
    cluster_id: str
    controller_ports: Mapping[int, int]  # of all nodes


class EmbeddedBroker:
    """`with EmbeddedBroker(jars) as broker: broker.bootstrap_servers`.

    It listens on the loopback interface, on free ports unless one is given, and ends with this process, however that
    ends. Without `directory` its data is temporary; with one, the next broker there has the same data. For containers,
    `host` is the name that others reach it by; it then listens on all interfaces.

    `properties` are Kafka's own and win over ours, `format` are flags of its storage tool, and `client` has the options
    with which librdkafka connects to the broker. Without `member` it is a cluster of its own. `lasting`: it starts in
    twice the time, and takes a sixth less of a core afterwards, because Java optimizes its code.
    """

    def __init__(
        self,
        jars: Path,
        directory: Path | None = None,
        host: str = LOOPBACK,
        port: int | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
        format: Sequence[str] = (),
        client: Mapping[str, str] = MappingProxyType({}),
        member: ClusterNode | None = None,
        lasting: bool = False,
    ) -> None:
        self._jars = jars / "broker"
        self._archive = ClassArchive([self._jars])
        self._directory = directory
        self._is_temporary = directory is None
        self._host = host
        self._port = port or free_port()
        self._properties = properties
        self._format = format
        self._client = client
        self._member = member
        self._jit = () if lasting else ("-XX:TieredStopAtLevel=1",)
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = f"{host}:{self._port}"

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.restart()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self._there / "kafka.log"

    @property
    def _there(self) -> Path:
        assert self._directory is not None
        return self._directory

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> list[EmbeddedBroker]:
        """Itself, if it is not running."""
        return [] if self.running() else [self]

    def kill(self) -> None:
        """Kill it with signal 9; `restart` continues with the data on its disk."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Start it, at the same address as before."""
        self.launch()
        self.ready()

    def stop(self) -> None:
        if self._process is not None and self.running():
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
                self._archive.keep()
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        if self._is_temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def launch(self) -> None:
        """Start the process; of a cluster, no node answers before most have been launched."""
        if not any(self._jars.glob("*.jar")):
            raise JobError(f"no Kafka in {self._jars}; run {FETCH}")
        self._directory = self._directory or Path(tempfile.mkdtemp(prefix="sluice-kafka-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        properties = self._directory / "server.properties"
        properties.write_text(self._configuration(self._directory / "data"))
        if not (self._directory / "data" / "meta.properties").exists():
            how = () if self._member else ("--standalone",)
            id = self._member.cluster_id if self._member else cluster_id()
            self._java("kafka.tools.StorageTool", "format", *how, "-t", id, "-c", str(properties), *self._format)
        with self.log.open("ab") as log, interrupts_held():
            self._process = subprocess.Popen(
                [*self._command(self._archive.used_or_written()), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches us first, and we stop it in order
                preexec_fn=die_with_parent,
            )

    def _configuration(self, data: Path) -> str:
        member = self._member
        controller_port = member.controller_ports[member.node] if member else free_port()
        text = PROPERTIES.format(
            node=member.node if member else 1,
            bind=LOOPBACK if self._host == LOOPBACK else "0.0.0.0",
            host=self._host,
            port=self._port,
            controller_port=controller_port,
            data=data,
        )
        if member:
            voters = (f"{node}@{LOOPBACK}:{port}" for node, port in member.controller_ports.items())
            text += REPLICATED.format(voters=",".join(voters))
        else:
            text += ALONE.format(controller_port=controller_port)
        return text + "".join(f"{name}={value}\n" for name, value in self._properties.items())

    def ready(self) -> None:
        """Wait until it answers."""
        admin = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{self._port}", "log_level": 0, **self._client})
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise JobError(f"the embedded Kafka ended while it started:\n{self._last_lines()}")
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                time.sleep(0.1)
        raise JobError(f"the embedded Kafka did not answer within {START_TIMEOUT_S:.0f} s:\n{self._last_lines()}")

    def _command(self, options: Sequence[str]) -> list[str]:
        return [
            java(),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            *self._jit,
            *options,
            "-cp",
            str(self._jars / "*"),
        ]

    def _java(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command(self._archive.used()), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise JobError(f"{' '.join(arguments)} failed:\n{done.stderr or done.stdout}")
        return done.stdout

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


class EmbeddedCluster:
    """Three brokers, each also a controller: one may fail, and everything goes on. Arguments are those of an
    EmbeddedBroker; of three ports, `port` is the first."""

    def __init__(
        self,
        jars: Path,
        directory: Path | None = None,
        host: str = LOOPBACK,
        port: int | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        id, controller_ports = cluster_id(), {node: free_port() for node in range(1, NODES + 1)}
        self.brokers = {
            node: EmbeddedBroker(
                jars,
                directory and directory / f"node{node}",
                host,
                port and port + node - 1,
                properties,
                member=ClusterNode(node, id, controller_ports),
            )
            for node in controller_ports
        }
        self.bootstrap_servers = ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> EmbeddedCluster:
        try:
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        """The log of the first broker; the others have their own."""
        return self.brokers[1].log

    def running(self) -> bool:
        """Whether most nodes are: without them nothing is written."""
        return sum(broker.running() for broker in self.brokers.values()) > NODES // 2

    @property
    def ended(self) -> list[EmbeddedBroker]:
        """The nodes that are not running."""
        return [broker for broker in self.brokers.values() if not broker.running()]

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()


def cluster_id() -> str:
    """A new one: Kafka's way to write a UUID. One that began with a hyphen would be taken for a flag."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def free_port() -> int:
    """A port that nothing has bound, and that no other call in this process returns.

    It is below those that the system gives to connections of clients, which one could take before a server does.
    """
    while True:
        port = _ports.randrange(10_000, 32_768)
        if port not in _given_ports and _is_free(port):
            _given_ports.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
