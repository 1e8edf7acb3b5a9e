"""`bench living` at a toy size: the whole system while its subscriptions change, and every delivery right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import HOME

FLAGS = {
    "--subscriptions": "2000",
    "--symbols": "100",
    "--subscribers": "20",
    "--events-per-second": "200",
    "--changes-per-second": "20",
    "--minutes": "0.17",
    "--algorithm": "scan",  # of few kernels, which may have to be compiled first
}


def test_every_delivery_is_right_while_subscriptions_change(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HOME / "run_stream.py"), "bench", "living", "--json", *sum(FLAGS.items(), ())],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    checked = outcome["checked"]
    assert outcome["right"]
    assert checked["expected"] == checked["delivered"] > 1_000
    wrong = {name: count for name, count in checked.items() if name not in ("expected", "delivered") and count}
    assert not wrong
    assert (outcome["events"], outcome["changes"]) == (2_040, 204)
    assert outcome["latency_ms"].keys() == {"wait", "match", "publish", "commit", "total", "second_half", "follower"}
    assert outcome["in_force_ms"]["p50"] > 0
    assert {"driver JVM", "driver Python", "Python workers"} <= outcome["memory_mb"].keys() <= outcome["cpu_s"].keys()
    assert "right: " in done.stderr
    assert list(tmp_path.iterdir()) == []  # nothing is left
