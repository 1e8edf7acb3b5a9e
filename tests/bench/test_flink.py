"""The baseline for Flink at a toy size, and what it needs on the machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bench.system import flink, ramp
from bench.system.flink import CHECKPOINT_INTERVAL_MS, GROUP, PROGRAM, Flink
from rig.load import Load
from rig.place import Place, place
from streaming.errors import JobError
from streaming.kafka.clients import RecordWriter
from streaming.kafka.topics import TIMEOUT_S
from tests.support.java_baselines import JavaBaselineTests, delivered, needs_jars, rule, write_events
from tests.support.patience import PATIENCE_S

EVENTS = 500


@needs_jars(PROGRAM)
class TestFlink(JavaBaselineTests):
    name = "flink-100ms"

    def test_killed_and_started_again_it_delivers_exactly_once(self, directory: Path) -> None:
        with place("k", {"deliveries.layout": "shared"}) as here:
            writer, admin = RecordWriter(here.cluster), AdminClient(here.cluster.client())
            writer.write(here.settings.subscriptions.topic, [rule("s0", 0)])
            with Flink("flink-1s", here) as system:
                write_events(writer, here, events())
                system.wait_for("done", lambda: system.done()[0] == EVENTS, PATIENCE_S)
                before = ends(here)
                write_events(writer, here, events())
                system.wait_for("delivered in an open transaction", lambda: ends(here) > before, PATIENCE_S)
                system.kill()
                # Its checkpoint alone has the offsets now.
                admin.delete_consumer_groups([GROUP])[GROUP].result(TIMEOUT_S)
                written = write_events(writer, here, events())
                system.start()
                system.wait_for("done", lambda: system.done()[0] == written == 3 * EVENTS, PATIENCE_S)
                system.stop()
            writer.close()
            assert delivered(here) == Counter({(b"r1", 0, b'["s0"]'): 3 * EVENTS})


def events() -> list[bytes]:
    return [b'{"symbol":"S1","volume":8,"price":0}'] * EVENTS


def ends(here: Place) -> int:
    """The offsets after the last deliveries, those of open transactions too."""
    return sum(high for _, _, high in here.cluster.topics().offsets(here.settings.deliveries.topic))


def test_without_its_jars_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink, "PROGRAM", replace(PROGRAM, jars=tmp_path))
    rows = ramp.ramp(Load(), ["sluice", *CHECKPOINT_INTERVAL_MS], [1_000], [100], {}, pytest.fail)
    with pytest.raises(JobError, match=r"no Flink in .*; `make rivals` puts it there"):
        next(rows)
