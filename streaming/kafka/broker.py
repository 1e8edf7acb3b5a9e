"""An embedded Kafka: one KRaft node as a child process, for trying Sluice and for its tests."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streaming.errors import JobError
from streaming.process.child import die_with_parent
from streaming.process.class_archive import ClassArchive

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
LOOPBACK = "127.0.0.1"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{bind}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
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
# For each 4 kB, as is the default, a thousand topics kept the broker waiting for pages of their index files.
log.index.interval.bytes=1048576
# By default an idle controller writes a record every half second, for other nodes to see that it lives.
metadata.max.idle.interval.ms=0
num.network.threads=2
num.io.threads=4
"""


class EmbeddedBroker:
    """`with EmbeddedBroker(jars) as broker: broker.bootstrap_servers`.

    It listens on the loopback interface, on free ports unless one is given, and ends with this process, however that
    ends. Without `directory` its data is temporary; with one, the next broker there has the same data. For containers,
    `host` is the name that others reach it by; it then listens on all interfaces.

    `properties` are Kafka's own and win over ours, `format` are flags of its storage tool, and `client` has the options
    with which librdkafka connects to the broker.
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
    ) -> None:
        self._jars = jars / "broker"
        self._archive = ClassArchive(self._jars)
        self._kept = directory
        self._host = host
        self._port = port
        self._properties = properties
        self._format = format
        self._client = client
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> EmbeddedBroker:
        if not any(self._jars.glob("*.jar")):
            raise JobError(f"no Kafka in {self._jars}; `make setup` puts it there")
        self._directory = self._kept or Path(tempfile.mkdtemp(prefix="sluice-kafka-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def log(self) -> Path:
        return self._directory / "kafka.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it with signal 9; `restart` continues with the data on its disk."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Start it again at the same address."""
        self._start()

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
        if self._kept is None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        port, controller_port = self._port or free_port(), free_port()
        self._port = port
        self.bootstrap_servers = f"{self._host}:{port}"
        data, properties = self._directory / "data", self._directory / "server.properties"
        properties.write_text(
            PROPERTIES.format(
                bind=LOOPBACK if self._host == LOOPBACK else "0.0.0.0",
                host=self._host,
                port=port,
                controller_port=controller_port,
                data=data,
            )
            + "".join(f"{name}={value}\n" for name, value in self._properties.items())
        )
        if not (data / "meta.properties").exists():
            # Kafka's way to write a UUID; one that began with a hyphen would be taken for a flag.
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
            self._java(
                "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(properties), *self._format
            )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command(self._archive.used_or_written()), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches us first, and we stop it in order
                preexec_fn=die_with_parent,
            )
        self._await(f"{LOOPBACK}:{port}")

    def _await(self, address: str) -> None:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0, **self._client})
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
            "-XX:TieredStopAtLevel=1",  # up in half the time, and fast enough for one machine
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


def java() -> str:
    path = shutil.which("java")
    if path is None:
        raise JobError("there is no java on the PATH; Sluice needs Java 17 or newer")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
