"""The short form of `make test-soak`: a steady load, everything checked and sampled, and nothing left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from rig.load import Load
from rig.processes import below
from tests.soak.report import draw, verdicts
from tests.soak.run import Outcome, run
from tests.support.patience import PATIENCE_S

TOY = Load(subscriptions=2_000, events_per_second=40, changes_per_second=4, minutes=0.5, subscribers=20, symbols=100)
SCAN = {"matching.algorithm": "scan"}  # of few kernels, which may have to be compiled first


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a directory for temporary files. The path of a socket in it must be short, and pytest's is long."""
    with TemporaryDirectory(prefix="s-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def test_everything_is_delivered_right_and_sampled_and_nothing_is_left(directory: Path, tmp_path: Path) -> None:
    outcome = Outcome(TOY, SCAN, retention_minutes=10.0, restart=True, broker={"num.io.threads": "3"})
    told: list[str] = []
    of_the_broker: list[str] = []

    def seen(_: object) -> None:
        (properties,) = directory.glob("*/broker/server.properties")
        of_the_broker[:] = properties.read_text().splitlines()

    run(outcome, told.append, seen, every_s=1.0, window_s=2.0)
    data = orjson.loads(orjson.dumps(outcome.as_data()))
    assert outcome.right, told + list(verdicts(outcome))
    assert [*data["start"]] == [
        *("subscriptions_written", "job_running", "subscriptions_read", "job_stopped", "job_running_again"),
    ]
    assert data["start"]["job_running_again"]["job_mb"] > 100
    assert data["checked"]["events"] == outcome.written["events"] == 1_200
    assert data["checked"]["changes"] == 2_000 + outcome.written["changes"] == 2_120
    assert data["checked"]["delivered"] == data["checked"]["expected"] > 1_000
    assert data["checked"]["windows"] >= 3
    assert 0 < data["checked"]["in_force_ms"]["p50"] < 1_000 * PATIENCE_S
    assert len(outcome.samples) >= 5
    for kind in ("driver", "JVM", "workers", "supervisor", "broker", "generator", "reader", "check"):
        for figure in ("processes", "memory_mb", "threads", "descriptors"):
            assert max(sample["processes"][kind][figure] for sample in outcome.samples) > 0
    for place in ("events", "subscriptions", "statuses", "deliveries", "broker", "checkpoint"):
        assert max(sample["disk_mb"][place] for sample in outcome.samples) > 0
    assert sum(sample["job"]["batches"] for sample in outcome.samples) > 3
    assert "num.io.threads=3" in of_the_broker
    draw(outcome, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 10_000
    assert not list(directory.glob("sluice-*"))
    assert not [process for process in below(0) if str(directory) in process.command]
