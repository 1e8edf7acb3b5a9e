"""Everything that runs: the broker, the generator, the supervised job, and the reader with its check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from rig.child import Child
from rig.job import JobProcess
from rig.load import Load
from rig.place import PARTITIONS, START_TIMEOUT_S, place
from rig.usage import Most, taken
from streaming.kafka.topics import TIMEOUT_S
from tests.soak.checking.reader import committed
from tests.soak.sampling import kinds, logs_on_disk, on_disk

NAME = "soak"
TEMPORARY = "temporary"  # the directory of the job's temporary files
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
        self,
        load: Load,
        flags: Mapping[str, str],
        retention_minutes: float,
        window_s: float,
        restart: bool = False,
        broker: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._load, self._flags, self._window_s, self._restart = load, flags, window_s, restart
        self._broker = broker
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
        ms = self._retention_ms
        here = self.place = stack.enter_context(
            place(NAME, self._flags, broker={**_retention(ms), **self._broker}, kept_ms=ms, lasting=True)
        )
        (here.directory / TEMPORARY).mkdir()
        settings = here.settings
        topics = settings.events.topic, settings.subscriptions.topic
        self._partitions = [TopicPartition(topic, p) for topic in topics for p in range(PARTITIONS)]
        self._consumer = Consumer(here.cluster.client(group_id=NAME, enable_auto_commit=False))
        stack.callback(self._consumer.close)
        self._children = stack.enter_context(ExitStack())
        self.generator = self._children.enter_context(Child("rig.generator", here.writing(self._load)))
        with self._step("subscriptions_written"):
            self.generator.wait_for("subscriptions")
        with self._step("job_running"):
            self._run_job(stack, "job.log")
        task = here.writing(self._load)
        del task["partitions"]
        task |= {
            "group": NAME,
            "status_topic": settings.subscriptions.status_topic,
            "delivery_topics": here.deliveries(),
            "prefix": here.prefix,
            "window_s": self._window_s,
        }
        with self._step("subscriptions_read"):
            self.reader = stack.enter_context(Child("tests.soak.checking.reader", task))
            self._wait_for_reader("read", lambda: bool(self._checked("windows")), START_TIMEOUT_S)
        if self._restart:
            with self._step("job_stopped"):
                self.job.stop()
            with self._step("job_running_again"):
                self._run_job(stack, "job again.log")
        news(self.job.new_lines())  # of the start, which no sample is about

    def _run_job(self, stack: ExitStack, log: str) -> None:
        here = self.place
        job = JobProcess(here.flags, here.directory / log, supervised=True, scratch=here.directory / TEMPORARY)
        self._jobs.append(stack.enter_context(job))
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
        done = committed(self._consumer, self._partitions)
        ends = [self._consumer.get_watermark_offsets(at, TIMEOUT_S)[1] for at in self._partitions]
        n = PARTITIONS
        return Progress(sum(ends[:n]), sum(done[:n]), sum(ends[n:]), sum(done[n:]))

    def sample(self) -> dict[str, Any]:
        """Return what all processes take, and what the reader and the job's log report since the last sample."""
        self.reader.report.pop("sample", None)
        self.reader.go()
        of_kind = kinds(self.job.pid, self.place.broker.pid, self.generator.pid, self.reader.pid)
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
        return len(self.job.lines("job_restarted"))

    def dead_letters(self) -> int:
        return self.place.dead_letters()

    def _wait_for_reader(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        def reported() -> bool:
            self.reader.check()
            return condition()

        self.job.wait_for(what, reported, timeout_s)

    def _checked(self, name: str) -> int:
        return int(self.reader.report.get("checked", {}).get(name, 0))

    def _on_disk(self) -> dict[str, float]:
        settings, directory = self.place.settings, self.place.directory
        groups = {
            "events": f"{settings.events.topic}-",
            "subscriptions": f"{settings.subscriptions.topic}-",
            "statuses": f"{settings.subscriptions.status_topic}-",
            "deliveries": self.place.prefix or f"{settings.deliveries.topic}-",
        }
        found = logs_on_disk(directory / "broker" / "data", groups)
        found |= {name: on_disk(directory / name) for name in ("checkpoint", TEMPORARY)}
        return {name: round(mb, 1) for name, mb in found.items()}


def news(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what these lines of the job's log report about batches and compactions."""
    batches, compactions = [], 0
    for line in lines:
        batches += [line] if line["event"] == "batch_finished" else []
        compactions += line["event"] == "segments_compacted"
    longest = max((line["duration_ms"] for line in batches), default=None)
    parts = batches[-1]["segment_count"] if batches else None
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
