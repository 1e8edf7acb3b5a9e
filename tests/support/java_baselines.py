"""Tests of every baseline in Java, at a toy size: each delivery is right, and no process or file is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from bench.system.java_baseline import JavaBaseline, Program
from bench.system.run import SYSTEMS, run
from rig.child import HOME
from rig.load import Load
from rig.place import Place, place
from streaming.kafka import clients
from streaming.kafka.clients import RecordWriter
from tests.integration.bench.test_living import processes_of
from tests.support.patience import PATIENCE_S


def needs_jars(program: Program) -> pytest.MarkDecorator:
    """Skip a test where these jars are absent."""
    jars = program.jars.relative_to(HOME)
    return pytest.mark.skipif(
        not any(program.jars.glob("*.jar")), reason=f"no {program.title} in {jars}; `make rivals` puts it there"
    )


def rule(id: str, price: int, subscriber: str = "r1") -> tuple[bytes, bytes]:
    """The record of a subscription to events of symbol S1 with this price and a volume from 0 to 8."""
    ranges = {"price": [{"numeric": [">=", price, "<", price + 1]}], "volume": [{"numeric": [">=", 0, "<", 9]}]}
    document = {"id": id, "subscriber": subscriber, "pattern": {"symbol": ["S1"], **ranges}}
    return id.encode(), json.dumps(document).encode()


def write_events(writer: RecordWriter, here: Place, values: Iterable[bytes]) -> int:
    """Write events; returns how many have been written to their topic in all."""
    topic = here.settings.events.topic
    writer.write(topic, [(None, value) for value in values])
    return sum(high for _, _, high in here.cluster.topics().offsets(topic))


def delivered(here: Place) -> Counter[tuple[bytes, int, bytes]]:
    """Subscriber, price and ids of all committed deliveries, after the end of transactions that are open now."""
    topic = here.settings.deliveries.topic
    messages: Iterable[Any] = clients.read(here.cluster, [topic], follow=False, settled=True)
    return Counter((m.key(), json.loads(m.value())["price"], dict(m.headers())["ce_subscriptionids"]) for m in messages)


class JavaBaselineTests:
    """Base class of the tests of a baseline with this name."""

    name: ClassVar[str]

    @pytest.fixture
    def directory(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """Yield the directory for temporary files, of this process too."""
        with TemporaryDirectory(prefix="k-") as name:
            monkeypatch.setattr(tempfile, "tempdir", name)
            yield Path(name)

    def test_it_is_measured_and_right(self, directory: Path) -> None:
        load = ("-n", "2000", "--symbols", "100", "--subscribers", "5", "--matches", "3", "--rates", "200")
        done = subprocess.run(
            [
                *(sys.executable, str(HOME / "run_stream.py"), "bench", "system", "--systems", self.name, "--json"),
                *("--seconds", "4", *load),
            ],
            env={**os.environ, "TMPDIR": str(directory)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        row = json.loads(done.stdout)
        assert (row["system"], row["rate"], row["right"]) == (self.name, 200, True)
        assert 1 < row["deliveries_per_event"] < 3  # some have several ids
        assert row["latency_ms"]["p50"] > 0
        assert processes_of(directory) == []
        assert list(directory.iterdir()) == []

    def test_each_subscriber_can_have_a_topic(self, directory: Path) -> None:
        load = Load(2_000, 200.0, 0.0, 3 / 60, subscribers=5, symbols=100)
        outcome = run(load, {"deliveries.layout": "topic_per_subscriber"}, lambda _: None, self.name)
        assert outcome.right, outcome.answer
        assert outcome.answer.delivered > 300
        assert list(directory.iterdir()) == []

    def test_changes_count_while_it_runs(self, directory: Path) -> None:
        prices = [b'{"symbol":"S1","volume":8,"note":[1],"price":%d}' % price for price in range(6)]
        events = [b"", b"{", *prices, b'{"symbol":"S1","price":0}']
        with place("k", {"deliveries.layout": "shared"}) as here:
            writer, topic = RecordWriter(here.cluster), here.settings.subscriptions.topic
            writer.write(topic, [rule("s0", 0), rule("s1", 1), rule("s1", 4), rule("s2", 2), (b"s2", None)])
            with SYSTEMS[self.name](here) as system:
                assert isinstance(system, JavaBaseline)

                def deliveries() -> Counter[tuple[bytes, int, bytes]]:
                    written = write_events(writer, here, events)
                    system.wait_for("done", lambda: system.done()[0] == written, PATIENCE_S)
                    return delivered(here)

                first = deliveries()
                assert first == Counter([(b"r1", 0, b'["s0"]'), (b"r1", 4, b'["s1"]')])
                writer.write(topic, [(b"s0", None), rule("s1", 5), rule("s3", 3), rule("s4", 3, "r2")])
                time.sleep(2)  # it reports no position in this topic
                later = Counter([(b"r1", 5, b'["s1"]'), (b"r1", 3, b'["s3"]'), (b"r2", 3, b'["s4"]')])
                assert deliveries() == first + later
                system.stop()
            writer.close()
