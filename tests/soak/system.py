"""Everything that runs: the broker, the generator, the supervised job, and the reader with its check."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from config import load as load_settings
from rig.broker import EmbeddedBroker
from rig.child import Child
from rig.job import JobProcess
from rig.load import Load
from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S, Topic
from tests.soak.reader import committed
from tests.soak.sampling import Most, kinds, logs_on_disk, on_disk, taken
from tests.support.release import HOME

NAME = "soak"
PARTITIONS = 2
START_TIMEOUT_S = 3_600.0
CHECK_TIMEOUT_S = 1_800.0  # of all that waits for the check at the end
SAMPLE_TIMEOUT_S = 120.0  # a reader that waits for the check does not answer
LOOK_EVERY_MS = 15_000


@dataclass(frozen=True)
class Progress:
    """Records that the broker has, and those whose offsets the job committed."""

    events: int
    events_done: int
    changes: int
    changes_done: int


class System:
    """`with System(load, flags, retention_minutes, window_s) as system`: entered when all subscriptions are in force.
    `start` tells how long each step took, and how much memory the job, at most. With `restart` the job is stopped and
    started again before the load. Nothing is left of it afterwards."""

    def __init__(
        self, load: Load, flags: Mapping[str, str], retention_minutes: float, window_s: float, restart: bool = False
    ) -> None:
        self._load, self._flags, self._window_s, self._restart = load, flags, window_s, restart
        self._retention_ms = round(60_000 * retention_minutes)
        self.start: dict[str, dict[str, float]] = {}
        self._jobs: list[JobProcess] = []

    def __enter__(self) -> System:
        with ExitStack() as stack:
            self._enter(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _enter(self, stack: ExitStack) -> None:
        self.directory = Path(mkdtemp(prefix="sluice-soak-"))
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        temporary = self.directory / "temporary"
        temporary.mkdir()
        broker = EmbeddedBroker(HOME / "jars", self.directory / "broker", properties=_retention(self._retention_ms))
        self.broker = stack.enter_context(broker)
        flags = {
            **self._flags,
            "query.name": NAME,
            "query.checkpoint": str(self.directory / "checkpoint"),
            "kafka.bootstrap_servers": self.broker.bootstrap_servers,
        }
        self.settings = settings = load_settings(flags=flags)
        self.cluster = Cluster.of(settings)
        events, subscriptions = settings.events.topic, settings.subscriptions.topic
        topics = layout.topics(settings, PARTITIONS, 1)
        failed = self.cluster.topics().create(_kept(topics, settings.subscriptions.status_topic, self._retention_ms))
        assert not failed, failed
        self._places = [TopicPartition(topic, p) for topic in (events, subscriptions) for p in range(PARTITIONS)]
        self._consumer = Consumer(self.cluster.client(group_id=NAME, enable_auto_commit=False))
        stack.callback(self._consumer.close)
        where = {"bootstrap_servers": self.cluster.bootstrap_servers, "client": self.cluster.options}
        where |= {"load": asdict(self._load), "events_topic": events, "subscriptions_topic": subscriptions}
        self._children = stack.enter_context(ExitStack())
        generator = Child("rig.generator", {**where, "partitions": PARTITIONS})
        self.generator = self._children.enter_context(generator)
        with self._step("subscriptions_written"):
            self.generator.wait_for("subscriptions")
        with self._step("job_running"):
            self._run_job(stack, flags, temporary, "job.log")
        task = {
            **where,
            "group": NAME,
            "status_topic": settings.subscriptions.status_topic,
            "delivery_topics": self._delivery_topics(),
            "prefix": None if settings.deliveries.layout == "shared" else settings.deliveries.prefix,
            "window_s": self._window_s,
        }
        with self._step("subscriptions_read"):
            self.reader = stack.enter_context(Child("tests.soak.reader", task))
            self._wait_for_reader("read", lambda: bool(self._checked("windows")), START_TIMEOUT_S)
        if self._restart:
            with self._step("job_stopped"):
                self.job.stop()
            with self._step("job_running_again"):
                self._run_job(stack, flags, temporary, "job again.log")
        news(self.job.new_lines())  # of the start, which no sample is about

    def _run_job(self, stack: ExitStack, flags: Mapping[str, str], temporary: Path, log: str) -> None:
        self._jobs.append(
            stack.enter_context(JobProcess(flags, self.directory / log, supervised=True, scratch=temporary))
        )
        self.job.wait_until_running(START_TIMEOUT_S)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        with Most(lambda: {"job": [process.pid for job in self._jobs for process in job.tree().everything]}) as most:
            yield
        self.start[name] = {"s": round(time.monotonic() - began, 1), "job_mb": most.memory_mb["job"]}

    @property
    def job(self) -> JobProcess:
        return self._jobs[-1]

    def check(self) -> None:
        """Raises JobError if a process has ended that should not have."""
        self.job.check()
        self.generator.check()
        self.reader.check()

    def progress(self) -> Progress:
        done = committed(self._consumer, self._places)
        ends = [self._consumer.get_watermark_offsets(place, TIMEOUT_S)[1] for place in self._places]
        n = PARTITIONS
        return Progress(sum(ends[:n]), sum(done[:n]), sum(ends[n:]), sum(done[n:]))

    def sample(self) -> dict[str, Any]:
        """What all take now, and what the reader and the job's log say of the time since the last sample."""
        self.reader.report.pop("sample", None)
        self.reader.go()
        of_kind = kinds(self.job.pid, self.broker.pid, self.generator.pid, self.reader.pid)
        processes = {kind: taken(pids).as_data() for kind, pids in of_kind.items()}
        disk = self._on_disk()
        self._wait_for_reader("sampled", lambda: "sample" in self.reader.report, SAMPLE_TIMEOUT_S)
        checked = {"checked": {name: self._checked(name) for name in ("windows", "events")}}
        return {
            "processes": processes,
            "disk_mb": disk,
            **self.reader.report["sample"],
            "job": news(self.job.new_lines()),
        } | checked

    def stop_generator(self) -> None:
        self._children.close()

    def stop_job(self) -> int:
        """Returns its exit code."""
        return self.job.stopped()

    def stop_reader(self) -> None:
        """Once the job has ended, and all is checked."""
        self.reader.end(CHECK_TIMEOUT_S)

    def restarts(self) -> int:
        return len(self.job.lines("the job ended, restarting it"))

    def dead_letters(self) -> int:
        return sum(end for _, _, end in self.cluster.topics().offsets(self.settings.dead_letters.topic))

    def _wait_for_reader(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        def reported() -> bool:
            self.reader.check()
            return condition()

        self.job.wait_for(what, reported, timeout_s)

    def _checked(self, name: str) -> int:
        return int(self.reader.report.get("checked", {}).get(name, 0))

    def _delivery_topics(self) -> list[str]:
        deliveries = self.settings.deliveries
        if deliveries.layout == "shared":
            return [deliveries.topic]
        return sorted(name for name in self.cluster.topics().partitions() if name.startswith(deliveries.prefix))

    def _on_disk(self) -> dict[str, float]:
        settings = self.settings
        groups = {
            "events": f"{settings.events.topic}-",
            "subscriptions": f"{settings.subscriptions.topic}-",
            "statuses": f"{settings.subscriptions.status_topic}-",
            "deliveries": f"{settings.deliveries.topic}-"
            if settings.deliveries.layout == "shared"
            else settings.deliveries.prefix,
        }
        found = logs_on_disk(self.directory / "broker" / "data", groups)
        found |= {name: on_disk(self.directory / name) for name in ("checkpoint", "temporary")}
        return {name: round(mb, 1) for name, mb in found.items()}


def news(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What these lines of the job's log say of batches and compactions."""
    batches, compactions = [], 0
    for line in lines:
        batches += [line] if line["event"] == "batch" else []
        compactions += line["event"] == "parts compacted"
    longest = max((line["batch_ms"] for line in batches), default=None)
    parts = batches[-1]["parts"] if batches else None
    return {"batches": len(batches), "longest_ms": longest, "parts": parts, "compactions": compactions}


def _retention(ms: int) -> dict[str, str]:
    """The broker's defaults, which hold for events and for the deliveries' topics, which the job creates. A segment can
    be deleted or compacted once it is closed, so they are closed twice in that time, and not all at once."""
    return {
        "log.retention.ms": str(ms),
        "log.roll.ms": str(ms // 2),
        "log.roll.jitter.ms": str(ms // 4),
        "log.retention.check.interval.ms": str(min(LOOK_EVERY_MS, ms)),
    }


def _kept(topics: Iterable[Topic], status_topic: str, ms: int) -> Iterable[Topic]:
    """No status may be compacted away before the reader has it."""
    for topic in topics:
        lag = {"min.compaction.lag.ms": str(ms)} if topic.name == status_topic else {}
        yield replace(topic, config={**topic.config, **lag})
