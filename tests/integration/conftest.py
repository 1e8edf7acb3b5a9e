"""A real broker for the tests: SLUICE_TEST_KAFKA, else a container if an engine answers, else the embedded one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from config.model import Settings
from rig.broker import EmbeddedBroker, free_port
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topics
from tests.integration import forked
from tests.integration.shared_jvm import SHARED
from tests.support.patience import PATIENCE_S

# Commands that wait for the answer of a job. A busy machine gives it late.
WAITING = ({"--wait"}, {"--catch-up"}, {"catch-up"}, {"subscribe", "--from"})
SETTINGS = {  # of a broker in a container, which is a cluster
    "NODE_ID": "1",
    "PROCESS_ROLES": "broker,controller",
    "LISTENERS": "PLAINTEXT://:{port},CONTROLLER://:9093",
    "LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "AUTO_CREATE_TOPICS_ENABLE": "false",
    "MESSAGE_MAX_BYTES": "20000000",
    "REPLICA_FETCH_MAX_BYTES": "20000000",
    "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
HOME = Path(__file__).resolve().parents[2]
JARS = HOME / "jars"
IMAGE = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.3.1")


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[str]:
    """Bootstrap servers."""
    if address := os.environ.get("SLUICE_TEST_KAFKA"):
        _say(request, f"the broker at {address} (SLUICE_TEST_KAFKA)")
        yield address
    elif _engine_has_image():
        with _container() as address:
            _say(request, f"a container of {IMAGE}, at {address}")
            yield address
    else:
        with EmbeddedBroker(JARS) as broker:
            _say(request, f"the embedded one, at {broker.bootstrap_servers} (no Docker engine with {IMAGE})")
            yield broker.bootstrap_servers


@pytest.fixture(scope="session", autouse=True)
def shared_jvm() -> Iterator[None]:
    """End the JVM with the tests."""
    yield
    SHARED.end()


@contextmanager
def prefix(kafka: str) -> Iterator[str]:
    """A prefix for topics; all topics that begin with it are deleted afterwards."""
    unique = f"t{uuid.uuid4().hex[:8]}"
    yield unique
    topics = Topics(kafka, {})
    if mine := [t for t in topics.partitions() if t.startswith(unique)]:
        topics.delete(mine)


def delete(topics: Topics, name: str) -> None:
    """Delete a topic, and wait until the broker lists it no more."""
    topics.delete([name])
    deadline = time.monotonic() + PATIENCE_S
    while name in topics.partitions():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def name(kafka: str) -> Iterator[str]:
    """The prefix of the topics of one test."""
    with prefix(kafka) as unique:
        yield unique


@pytest.fixture
def cluster(kafka: str) -> Cluster:
    return Cluster(kafka, {})


def but(settings: Settings, **sections: dict[str, Any]) -> Settings:
    """Return the settings with other values in some sections."""
    old = settings.model_dump()
    return Settings.model_validate({**old, **{name: old[name] | section for name, section in sections.items()}})


class CommandLine:
    """`run_stream.py` as a user runs it, with every topic under one prefix."""

    def __init__(self, kafka: str, name: str, directory: Path) -> None:
        settings = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "SLUICE_QUERY__NAME": name,
            "SLUICE_QUERY__CHECKPOINT": str(directory / "checkpoint"),
            "SLUICE_EVENTS__TOPIC": f"{name}.events",
            "SLUICE_SUBSCRIPTIONS__TOPIC": f"{name}.subscriptions",
            "SLUICE_SUBSCRIPTIONS__STATUS_TOPIC": f"{name}.status",
            "SLUICE_DEAD_LETTERS__TOPIC": f"{name}.dead",
            "SLUICE_METRICS__TOPIC": f"{name}.metrics",
            "SLUICE_DELIVERIES__PREFIX": f"{name}.to.",
            "SLUICE_LOG__FORMAT": "json",
        }
        self.name = name
        self.environment = {**os.environ, **settings}

    def settings(self) -> Settings:
        """Return the settings from its environment, for functions that are called directly."""
        name = self.name
        return Settings.model_validate(
            {
                "kafka": {"bootstrap_servers": self.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]},
                "query": {"name": name},
                "events": {"topic": f"{name}.events"},
                "subscriptions": {"topic": f"{name}.subscriptions", "status_topic": f"{name}.status"},
                "dead_letters": {"topic": f"{name}.dead"},
                "metrics": {"topic": f"{name}.metrics"},
                "deliveries": {"prefix": f"{name}.to.", "topic": f"{name}.all"},
            }
        )

    def flags(self) -> dict[str, str]:
        """Return the settings as flags with dotted names."""
        ours = {name.removeprefix("SLUICE_"): value for name, value in self.environment.items() if "SLUICE_" in name}
        return {name.lower().replace("__", "."): value for name, value in ours.items() if "__" in name}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(HOME / "run_stream.py"), *arguments]

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Standard output; the exit code must be as given. With code != 0, standard error."""
        if "--timeout" not in arguments and any(some <= {*arguments} for some in WAITING):
            arguments += ("--timeout", str(PATIENCE_S))
        done = forked.run(arguments, self.environment, stdin)
        assert done.code == code, done.stderr + done.stdout
        return done.stderr if code else done.stdout


@pytest.fixture
def sluice(kafka: str, name: str, tmp_path: Path) -> CommandLine:
    return CommandLine(kafka, name, tmp_path)


@pytest.fixture(params=["direct", "source"])
def each_reading(sluice: CommandLine, request: pytest.FixtureRequest) -> None:
    """The job reads its topics in both ways, one after the other."""
    sluice.environment["SLUICE_EVENTS__READING"] = request.param


def _say(request: pytest.FixtureRequest, what: str) -> None:
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nbroker of the integration tests: {what}")


def _engine_has_image() -> bool:
    try:
        found = subprocess.run(
            ["docker", "image", "inspect", IMAGE], capture_output=True, check=False, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    port = free_port()  # Kafka tells its clients where it is, so the port must be the same inside and out
    testcontainers_config.ryuk_disabled = True  # it is an image of its own; the context manager cleans up here
    container = DockerContainer(IMAGE)
    # The library passes it on to Docker, which takes an address too.
    container.ports[f"{port}/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
    for name, value in {**SETTINGS, "ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{port}"}.items():
        container.with_env(f"KAFKA_{name}", value.format(port=port))
    container.waiting_for(LogMessageWaitStrategy("Kafka Server started"))
    with container:
        yield f"localhost:{port}"
