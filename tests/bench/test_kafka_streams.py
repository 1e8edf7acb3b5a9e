"""The baseline for Kafka Streams at a toy size: every delivery is right, and nothing is left of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.system import kafka_streams, ramp
from bench.system.kafka_streams import COMMIT_INTERVAL_MS, JARS, KafkaStreams
from bench.system.run import run
from rig.child import HOME
from rig.load import Load
from rig.place import place
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import RecordWriter
from tests.integration.bench.test_living import processes_of
from tests.support.patience import PATIENCE_S

NAME = "kafka-streams-10ms"

needs_jars = pytest.mark.skipif(
    not any(JARS.glob("*.jar")), reason=f"no Kafka Streams in {JARS.relative_to(HOME)}; `make rivals` puts it there"
)


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the directory for temporary files, of this process too."""
    with TemporaryDirectory(prefix="k-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@needs_jars
def test_it_is_measured_and_right(directory: Path) -> None:
    load = ("-n", "2000", "--symbols", "100", "--subscribers", "5", "--matches", "3", "--rates", "200")
    done = subprocess.run(
        [
            *(sys.executable, str(HOME / "run_stream.py"), "bench", "system", "--systems", NAME, "--json"),
            *("--seconds", "4", *load),
        ],
        env={**os.environ, "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["system"], row["rate"], row["right"]) == (NAME, 200, True)
    assert 1 < row["deliveries_per_event"] < 3  # some have several ids
    assert row["latency_ms"]["p50"] > 0
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []


@needs_jars
def test_each_subscriber_can_have_a_topic(directory: Path) -> None:
    load = Load(2_000, 200.0, 0.0, 3 / 60, subscribers=5, symbols=100)
    outcome = run(load, {"deliveries.layout": "topic_per_subscriber"}, lambda _: None, NAME)
    assert outcome.right, outcome.answer
    assert outcome.answer.delivered > 300
    assert list(directory.iterdir()) == []


@needs_jars
def test_changes_count_while_it_runs(directory: Path) -> None:
    def rule(id: str, price: int, subscriber: str = "r1") -> tuple[bytes, bytes]:
        ranges = {"price": [{"numeric": [">=", price, "<", price + 1]}], "volume": [{"numeric": [">=", 0, "<", 9]}]}
        document = {"id": id, "subscriber": subscriber, "pattern": {"symbol": ["S1"], **ranges}}
        return id.encode(), json.dumps(document).encode()

    with place("k", {"deliveries.layout": "shared"}) as here:
        writer, events, subscriptions = RecordWriter(here.cluster), here.settings.events, here.settings.subscriptions
        writer.write(subscriptions.topic, [rule("s0", 0), rule("s1", 1), rule("s1", 4), rule("s2", 2), (b"s2", None)])

        def delivered() -> Counter[tuple[bytes, int, bytes]]:
            """Subscriber, price and ids of all deliveries, after new events with prices from 0 to 5."""
            values = [b'{"symbol":"S1","volume":8,"note":[1],"price":%d}' % price for price in range(6)]
            writer.write(events.topic, [(None, value) for value in (b"", b"{", *values, b'{"symbol":"S1","price":0}')])
            written = sum(high for _, _, high in here.cluster.topics().offsets(events.topic))
            system.wait_for("done", lambda: system.done()[0] == written, PATIENCE_S)
            messages: Iterable[Any] = clients.read(here.cluster, [here.settings.deliveries.topic], follow=False)
            return Counter(
                (m.key(), json.loads(m.value())["price"], dict(m.headers())["ce_subscriptionids"]) for m in messages
            )

        with KafkaStreams(NAME, here) as system:
            first = delivered()
            assert first == Counter([(b"r1", 0, b'["s0"]'), (b"r1", 4, b'["s1"]')])
            writer.write(subscriptions.topic, [(b"s0", None), rule("s1", 5), rule("s3", 3), rule("s4", 3, "r2")])
            time.sleep(2)  # its global thread reports no position
            later = Counter([(b"r1", 5, b'["s1"]'), (b"r1", 3, b'["s3"]'), (b"r2", 3, b'["s4"]')])
            assert delivered() == first + later
            system.stop()
        writer.close()


def test_it_has_the_version_of_the_broker() -> None:
    (broker,) = re.findall(r'name="kafka_2.13" rev="([^"]+)"', (HOME / "config" / "ivy.xml").read_text())
    pins = (HOME / "config" / "rivals.xml").read_text()
    assert re.findall(r'name="(kafka-[^"]+)" rev="([^"]+)"', pins) == [
        ("kafka-streams", broker),
        ("kafka-clients", broker),
    ]


def test_without_its_jars_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_streams, "JARS", tmp_path)
    rows = ramp.ramp(Load(), ["sluice", *COMMIT_INTERVAL_MS], [1_000], [100], {}, pytest.fail)
    with pytest.raises(JobError, match=r"no Kafka Streams in .*; `make rivals` puts it there"):
        next(rows)


def test_a_runtime_without_a_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JobError, match=r"bin has no javac, .* install a JDK 17 or newer"):
        kafka_streams.compiler()
