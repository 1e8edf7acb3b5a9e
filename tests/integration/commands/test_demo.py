"""The demo runs the whole system and its count is right."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.conftest import HOME
from tests.support.patience import PATIENCE_S

LATENCIES = ("latency_ms", "latency_first_ms")


@pytest.mark.parametrize("flags", [[], ["--pull-the-plug"]], ids=["undisturbed", "kill -9 amid the events"])
def test_the_demo_delivers_everything_exactly_once(flags: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(HOME / "run_stream.py"), "demo", "--json", "--events", "4000", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary.keys() == {"events", "subscriptions", "deliveries", "missing", "duplicated", *LATENCIES}
    assert (summary["events"], summary["subscriptions"]) == (4_000, 1_000)
    assert (summary["missing"], summary["duplicated"]) == (0, 0)
    assert summary["deliveries"] == 4_952
    assert all(summary[name].keys() == {"p50", "p95", "p99", "max"} for name in LATENCIES)
