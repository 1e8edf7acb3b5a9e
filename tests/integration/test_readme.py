"""The README's step by step, as a newcomer types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from streaming.broker import free_port
from tests.integration.conftest import HOME


def test_the_readme_works_line_by_line(tmp_path: Path) -> None:
    (block,) = re.findall(r"run by a test. -->\n```sh\n(.*?)```", (HOME / "README.md").read_text(), re.DOTALL)
    port = free_port()
    settings = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{port}", "SLUICE_QUERY__CHECKPOINT": str(tmp_path / "c")}
    environment = {**os.environ, **settings}
    background: list[subprocess.Popen[bytes]] = []
    log = tmp_path / "job.log"
    try:
        for line in block.splitlines():
            command, _, said = (part.strip() for part in line.partition("  #"))
            if command.startswith("source"):
                continue
            command = command.replace("python run_stream.py", f"{sys.executable} run_stream.py")
            if "run_stream.py broker" in command:
                command = command.replace("broker", f"broker --port {port}")
            if command.endswith("&"):
                with log.open("ab") as output:
                    background.append(
                        subprocess.Popen(
                            ["bash", "-c", f"exec {command.removesuffix('&')}"],
                            cwd=HOME,
                            env=environment,
                            stderr=output,
                            stdout=output,
                        )
                    )
                wait_for(log, "Kafka listens" if "broker" in command else " running ")
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=HOME,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            if said.startswith("{"):
                assert done.stdout.strip() == said
    finally:
        codes = []
        for process in reversed(background):
            process.send_signal(signal.SIGINT)
            codes.append(process.wait(60))
    assert codes == [0, 0], log.read_text()


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 90
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
