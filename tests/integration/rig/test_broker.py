"""The embedded Kafka keeps its promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from rig.broker import EmbeddedBroker
from streaming.errors import JobError
from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import HOME, JARS
from tests.support.patience import PATIENCE_S


def test_a_broker_started_again_on_its_directory_still_has_its_records(tmp_path: Path) -> None:
    with EmbeddedBroker(JARS, tmp_path) as broker:
        assert Topics(broker.bootstrap_servers, {}).create([Topic("kept")]) == {}
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("kept", b"value").get(PATIENCE_S)
        producer.close()
    with EmbeddedBroker(JARS, tmp_path) as broker:
        consumer = KafkaConsumer(
            "kept",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=1000 * PATIENCE_S,
        )
        assert next(consumer).value == b"value"
        consumer.close()


def test_without_a_directory_nothing_is_left_behind() -> None:
    with EmbeddedBroker(JARS) as broker:
        directory = broker.log.parent
        assert directory.exists()
    assert not directory.exists()


def test_the_index_files_of_a_partition_are_small_enough_for_any_read_ahead(tmp_path: Path) -> None:
    """Kafka maps both at their full size, and Linux reads around their first entry, up to all of it."""
    with EmbeddedBroker(JARS, tmp_path) as broker:
        assert Topics(broker.bootstrap_servers, {}).create([Topic("many")]) == {}
        partition = tmp_path / "data" / "many-0"
        deadline = time.monotonic() + PATIENCE_S
        while len(indexes := [file for file in partition.glob("*.*index") if file.stat().st_size]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert all(file.stat().st_size <= 262_144 for file in indexes), indexes


def test_without_jars_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="make setup"), EmbeddedBroker(tmp_path):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, str(HOME / "run_stream.py"), "broker", "--port", "0", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    with parent.stdout as output:
        assert output.readline().startswith("127.0.0.1:")
    (child,) = _children(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_of_three_nodes_one_may_end_and_two_end_all(tmp_path: Path) -> None:
    command = [sys.executable, str(HOME / "run_stream.py"), "broker", "--replicated", "--port", "0"]
    with subprocess.Popen(
        [*command, "--directory", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            servers = process.stdout.readline().strip()
            first, second, _ = _children(process.pid)
            process.stderr.readline()
            os.kill(first, signal.SIGKILL)
            said = process.stderr.readline()
            assert "ended" in said
            assert "The others keep running" in said
            (gone,) = [server for server in servers.split(",") if server in said]
            assert len(servers.split(",")) == 3
            left = ",".join(server for server in servers.split(",") if server != gone)
            # For some seconds the brokers name the lost one as the controller to some clients.
            clients = [Topics(left, {}) for _ in range(20)]
            with ThreadPoolExecutor(len(clients)) as at_once:
                assert list(at_once.map(lambda client: client.counts(["missing"]), clients)) == [{}] * len(clients)
            assert clients[0].create([Topic("made", replication_factor=2)]) == {}
            os.kill(second, signal.SIGKILL)
            *_, last = process.stderr
            assert "Kafka ended" in last
            assert process.wait() == 1
        finally:
            process.kill()


def test_a_factor_of_three_is_no_passing_error_of_one_broker(kafka: str) -> None:
    (reason,) = Topics(kafka, {}).create([Topic("too-many", replication_factor=3)]).values()
    assert "registered" in reason or "replication factor" in reason


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
