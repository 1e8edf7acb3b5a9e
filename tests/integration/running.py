"""The job as a user runs it, as a process, and what tests write to its topics and read from them."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from rig.processes import Process, below
from tests.integration import forked
from tests.integration.conftest import CommandLine
from tests.integration.shared_jvm import SHARED, Jvm
from tests.support.patience import PATIENCE_S

# A module whose workers are slow if an event says so, and have no heartbeats.
SLOW_DAEMON = "tests.integration.streaming.monitoring.slow_daemon"


class Job:
    """A running `run_stream.py run` and what it logged. With `jvm`, its interpreter is forked and its Spark is there;
    without, it starts both as it does for a user."""

    process: subprocess.Popen[str] | forked.Process

    def __init__(self, sluice: CommandLine, *flags: str, jvm: Jvm | None = None) -> None:
        self.lines: list[dict[str, Any]] = []
        self._other: list[str] = []
        self._jvm = jvm
        if jvm is not None:
            self._before = len(jvm.lines())
            self.process = forked.Process(("run", *flags), {**sluice.environment, **jvm.environment})
        else:
            self.process = subprocess.Popen(
                sluice.command("run", *flags),
                env=sluice.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                try:
                    self.lines.append(json.loads(line))
                except json.JSONDecodeError:
                    self._other.append(line)

    @property
    def other(self) -> list[str]:
        """Return the output of the job and its JVM other than log lines."""
        return [*(self._jvm.lines(self._before) if self._jvm else ()), *self._other]

    def until(self, what: str, condition: Any) -> None:
        began = time.monotonic()
        deadline = began + PATIENCE_S
        while not condition():
            took = time.monotonic() - began
            assert time.monotonic() < deadline, f"never {what}: {self.lines[-3:]} {self.other[-30:]}"
            assert self.process.poll() is None or condition(), f"ended before it was {what}: {self.other[-30:]}"
            time.sleep(max(0.05, 2 * took))  # a condition that reads topics must not take the cores of the job
            began = time.monotonic()

    def running(self) -> Job:
        self.until("running", lambda: any(line["event"] == "job_started" for line in self.lines))
        return self

    def processes(self) -> list[Process]:
        """Return the processes that the job and its JVM started."""
        return below(self.process.pid) + (below(self._jvm.process.pid) if self._jvm else [])

    def total(self, field: str) -> int:
        return sum(line[field] for line in self.lines if line["event"] == "batch_finished")

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._thread.join()
        return code


@contextmanager
def job(sluice: CommandLine, *flags: str, fresh: bool = False) -> Iterator[Job]:
    """A job, which is stopped at the end. A fresh one has an interpreter and a JVM of its own, as a user's has; another
    one takes less than half the processor time to start."""
    with nullcontext() if fresh else SHARED.lent() as jvm:
        started = Job(sluice, *flags, jvm=jvm)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.process.send_signal(signal.SIGTERM)
            try:
                started.ended()
            except subprocess.TimeoutExpired:
                started.process.send_signal(signal.SIGKILL)
                raise


def records(kafka: str, topic: str, least: int = 0) -> list[Any]:
    """Return all committed records of a topic, at least `least`, read by another client library than the writer's."""
    wait_ms = int(1_000 * PATIENCE_S)  # 30 s by default, which a busy machine may take
    consumer = KafkaConsumer(
        bootstrap_servers=kafka,
        isolation_level="read_committed",
        enable_auto_commit=False,
        bootstrap_timeout_ms=wait_ms,
        request_timeout_ms=wait_ms,
        connections_max_idle_ms=2 * wait_ms,
    )
    try:
        parts = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        assert parts or not least, f"there is no topic {topic}"
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while (
            len(found) < least or any(consumer.position(p) < ends[p] for p in parts)
        ) and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                found += batch
        return found
    finally:
        consumer.close()


def subscription(id: str, subscriber: str, **pattern: Any) -> str:
    return json.dumps({"id": id, "subscriber": subscriber, "pattern": pattern})


def lines(*documents: Any) -> str:
    return "\n".join(d if isinstance(d, str) else json.dumps(d) for d in documents) + "\n"
