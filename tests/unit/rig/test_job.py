"""A process of the rig ends with all that it started."""

from __future__ import annotations

import sys
from pathlib import Path

from rig.job import LoggedProcess
from rig.processes import below
from tests.support.patience import PATIENCE_S

STARTS_MORE = """
import subprocess, time
while True:
    subprocess.Popen(["sleep", "600"])
    print("started", flush=True)
    time.sleep(0.01)
"""


def test_what_is_started_while_it_is_killed_is_killed_too(tmp_path: Path) -> None:
    with LoggedProcess("starter", [sys.executable, "-c", STARTS_MORE], tmp_path / "log") as process:
        process.wait_for("started", lambda: "started" in process.last_lines(), PATIENCE_S)
    assert below(process.pid) == []
