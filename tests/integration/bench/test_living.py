"""`bench living` at a toy size: subscriptions change, and every delivery is right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.gate.system import figures_of
from bench.system.run import Outcome
from rig.check import Answer
from rig.load import Load
from tests.integration.conftest import HOME
from tests.support.patience import PATIENCE_S

FLAGS = {
    "--subscriptions": "2000",
    "--symbols": "100",
    "--subscribers": "20",
    "--events-per-second": "200",
    "--changes-per-second": "20",
    "--minutes": "0.17",
    "--algorithm": "scan",  # of few kernels, which may have to be compiled first
}
FOLLOWER = {"follower", "follower_second_half"}
JOB = {"driver JVM", "driver Python", "Python workers"}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory for temporary files. The path of a socket in it must be short, and pytest's is long."""
    with TemporaryDirectory(prefix="l-") as name:
        yield Path(name)


def living(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HOME / "run_stream.py"), "bench", "living", "--json", *sum(FLAGS.items(), ())],
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # whoever runs us may ignore it
    )


def test_every_delivery_is_right_while_subscriptions_change(directory: Path) -> None:
    with living(directory) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    outcome = json.loads(out)
    checked = outcome["checked"]
    assert outcome["right"]
    assert checked["expected"] == checked["delivered"] == outcome["deliveries_read"] > 1_000
    wrong = {name: count for name, count in checked.items() if name not in ("expected", "delivered") and count}
    assert not wrong
    assert (outcome["events"], outcome["changes"]) == (2_040, 204)
    assert outcome["latency_ms"].keys() == {"wait", "match", "publish", "commit", "total", "second_half", *FOLLOWER}
    assert outcome["in_force_ms"]["p50"] > 0
    assert JOB | {"broker", "follower"} <= outcome["memory_mb"].keys() <= outcome["cpu_s"].keys()
    answer = Answer(**{name: count for name, count in checked.items() if name != "dead_letters"})
    in_time = {**outcome, "drain_s": 0.0}  # the gate wants it so, and this machine may be busy
    of_the_gate = figures_of(Outcome(Load(**outcome["load"]), answer, checked["dead_letters"], in_time, verdict=None))
    assert all(figure.value is not None and figure.value > 0 for figure in of_the_gate if figure.gated)
    assert "right: " in err
    assert list(directory.iterdir()) == []


def test_nothing_is_left_of_it_after_ctrl_c(directory: Path) -> None:
    with living(directory) as process:
        assert process.stderr is not None
        assert "compiling the kernels of scan" in process.stderr.readline()
        assert "sluice starts" in process.stderr.readline()
        deadline = time.monotonic() + PATIENCE_S
        while len(processes_of(directory)) < 4:  # broker, generator, driver and its JVM: amid the start of Spark
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert processes_of(directory) == []
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("system", ["sluice", "join", "udf"])
def test_each_system_is_measured_and_right(system: str, directory: Path) -> None:
    flags = (
        "-n",
        "2000",
        "--symbols",
        "100",
        "--subscribers",
        "20",
        "--rates",
        "150",
        "--seconds",
        "4",
        "--warm-up",
        "2",
        "--systems",
        system,
        "-a",
        "scan",
    )
    done = subprocess.run(
        [
            sys.executable,
            str(HOME / "run_stream.py"),
            "bench",
            "system",
            *flags,
            "--json",
            "--out",
            f"{directory}/found",
        ],
        env={**os.environ, "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    (row,) = rows
    assert (row["system"], row["rate"], row["right"]) == (system, 150, True)
    assert row["deliveries_per_event"] > 0.5
    assert JOB | {"broker", "generator", "follower"} >= row["cpu_us_per_event"].keys()
    assert {"driver JVM", "driver Python", "follower"} <= row["memory_mb"].keys()
    assert processes_of(directory) == []
    assert json.loads((directory / "found" / "system.json").read_text()) == rows
    assert row["sustained"] is None  # four seconds are too short to tell
    assert row["undelivered_events"] == 0
    assert len((directory / "found" / "system.md").read_text().splitlines()) == len(rows) + 4
    assert (directory / "found" / "system.png").stat().st_size > 1_000


def processes_of(directory: Path) -> list[str]:
    """Command lines of all that have it in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mine = f"TMPDIR={directory}".encode() in (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if mine:
                found.append(command)
    return found
