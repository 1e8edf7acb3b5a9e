"""Run the tutorial as a newcomer does, with the commands of docs/how-to/connect.md while its job runs."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rig.broker import free_port
from tests.integration.conftest import HOME
from tests.support.documents import Step, blocks, pattern, steps
from tests.support.patience import PATIENCE_S

CONNECT = "docs/how-to/connect.md"
# May be asked again: the job needs a moment.
READ = (*(f"run_stream.py {command}" for command in ("consume", "dlq list", "dlq show", "subscribers")), "curl")


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    tutorial = list(steps("docs/tutorial.md"))
    last = next(i for i, step in enumerate(tutorial) if step.command.startswith("kill"))
    shell = Shell(free_port(), tmp_path)
    (tmp_path / "sluice.toml").write_text(blocks(CONNECT, "toml")[0])
    try:
        for step in (*tutorial[:last], *steps(CONNECT), *tutorial[last:]):
            shell.run(step)
        assert not shell.jobs
    finally:
        shell.close()


@dataclass
class Shell:
    port: int  # of the broker, in place of 9092
    directory: Path
    jobs: dict[int, tuple[subprocess.Popen[bytes], Path]] = field(default_factory=dict)  # by number, as in %1
    exported: dict[str, str] = field(default_factory=dict)
    last: str = ""  # what came out

    def run(self, step: Step) -> None:
        said = [line.replace("9092", str(self.port)) for line in step.said]
        step = Step(self._command(step.command), step.remark, said)
        if exported := re.fullmatch(r"export (\w+)=(\S+)", step.command):
            (self.exported[exported[1]],) = shlex.split(exported[2])
            return
        if re.match(r"make |source |rm -rf checkpoint job.log$", step.command):
            return  # done already, or done by the end of the test; that make knows it is another test's
        if killed := re.fullmatch(r"kill %(\d)", step.command):
            process, log = self.jobs.pop(int(killed[1]))
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, log.read_text()
            assert all(re.search(pattern(line), log.read_text()) for line in step.said), log.read_text()
        elif step.command.endswith("&"):
            self._start(step)
        elif any(f"{command} " in f"{step.command} " for command in READ):
            self._until(lambda: self._run(step), step.command)
        else:
            assert self._run(step), f"{step.command}\n{self.last}"

    def close(self) -> None:
        for process, _ in reversed(self.jobs.values()):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)

    def _run(self, step: Step) -> bool:
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=HOME,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.last = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.returncode == step.code and step.expects(done.stdout + done.stderr)

    def _start(self, step: Step) -> None:
        log = self.directory / f"{len(self.jobs)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {step.command.removesuffix('&')}"],
                cwd=HOME,
                env=self._environment(),
                stdout=output,
                stderr=output,
            )
        self.jobs[max(self.jobs, default=0) + 1] = process, log
        self._until(lambda: all(re.search(pattern(line), log.read_text()) for line in step.said), str(log))

    def _command(self, shown: str) -> str:
        command = shown.replace("python run_stream.py", f"{sys.executable} run_stream.py").replace(" 2>job.log", "")
        command = command.replace("checkpoint/monitoring", f"{self.directory}/checkpoint/monitoring")
        command = command.replace("--config sluice.toml", f"--config {self.directory}/sluice.toml")
        command = re.sub(r" (--wait|--from oldest)", rf" \1 --timeout {PATIENCE_S:g}", command)
        return command.replace("run_stream.py broker", f"run_stream.py broker --port {self.port}")

    def _environment(self) -> dict[str, str]:
        own = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{self.port}",
            "SLUICE_QUERY__CHECKPOINT": str(self.directory / "checkpoint"),
            "COLUMNS": "120",
        }
        return {**os.environ, **own, **self.exported}

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}\n{self.last}"
            time.sleep(0.2)
