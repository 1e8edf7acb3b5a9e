"""The baseline for Kafka Streams at a toy size, and what it needs on the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.system import java_baseline, kafka_streams, ramp
from bench.system.kafka_streams import COMMIT_INTERVAL_MS, PROGRAM
from rig.child import HOME
from rig.load import Load
from streaming.errors import JobError
from tests.support.java_baselines import JavaBaselineTests, needs_jars


@needs_jars(PROGRAM)
class TestKafkaStreams(JavaBaselineTests):
    name = "kafka-streams-10ms"


def test_it_has_the_version_of_the_broker() -> None:
    (broker,) = re.findall(r'name="kafka_2.13" rev="([^"]+)"', (HOME / "config" / "ivy.xml").read_text())
    pins = (HOME / "config" / "rivals.xml").read_text()
    assert re.findall(r'name="(kafka-[^"]+)" rev="([^"]+)" transitive="false"/>', pins) == [
        ("kafka-streams", broker),
        ("kafka-clients", broker),
    ]


def test_without_its_jars_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_streams, "PROGRAM", replace(PROGRAM, jars=tmp_path))
    rows = ramp.ramp(Load(), ["sluice", *COMMIT_INTERVAL_MS], [1_000], [100], {}, pytest.fail)
    with pytest.raises(JobError, match=r"no Kafka Streams in .*; `make rivals` puts it there"):
        next(rows)


def test_a_runtime_without_a_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JobError, match=r"bin has no javac, .* install a JDK 17 or newer"):
        java_baseline.compiler()
