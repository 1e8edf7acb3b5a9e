"""Run a system with its broker and load until all events are done, and check its deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from bench.system import flink, kafka_streams
from bench.system.flink import CHECKPOINT_INTERVAL_MS, Flink
from bench.system.kafka_streams import COMMIT_INTERVAL_MS, KafkaStreams
from bench.system.kernels import compile_kernels
from bench.system.sluice import Sluice
from bench.system.spark_alone import APPLICATIONS, Application
from bench.system.sustained import Float64, Verdict, judge
from rig.check import Answer
from rig.child import Child
from rig.load import LOAD, WARM_UP, Load
from rig.place import NOTHING, Place, place
from rig.usage import Usage
from streaming.errors import JobError
from streaming.latencies import Latencies

QUIET_S = 300.0  # without any progress we give up, where nothing else bounds the time
LONGEST = 5
TELL_S = 10.0

Tell = Callable[[str], None]


class System(Protocol):
    """A system under measurement, used in `with`. Once entered it runs and has read the subscriptions in its topic;
    after the end nothing of it is left."""

    @property
    def patience_s(self) -> float | None:
        """The longest time after the last event before it is stopped; None for no limit. If no batch has ended since
        that event, LONGEST times as long, because rates are known by whole batches only."""

    @property
    def pid(self) -> int: ...

    def __enter__(self) -> System: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raises JobError if it has ended."""

    def done(self) -> tuple[int, int]:
        """The numbers of processed events and changes."""

    def progress(self) -> str:
        """Progress for the user, as far as the system reports it."""

    def load_begins(self) -> None:
        """Called once, after the warm-up: what it did before is in no figure of its own."""

    def midpoint(self) -> None:
        """Called once, after half of the time."""

    def stop(self) -> None:
        """Called once; the system has ended when it returns."""

    def checked(self) -> tuple[Answer, dict[str, Any]]:
        """Called after the end: the checked answer for the processed events, and the system's own figures."""


SYSTEMS: Mapping[str, Callable[[Place], System]] = MappingProxyType(
    {
        "sluice": Sluice,
        **{name: partial(Application, name) for name in APPLICATIONS},
        **{name: partial(KafkaStreams, name) for name in COMMIT_INTERVAL_MS},
        **{name: partial(Flink, name) for name in CHECKPOINT_INTERVAL_MS},
    }
)


def require(system: str) -> None:
    """Raises JobError if something that this system needs is not on this machine."""
    if system in COMMIT_INTERVAL_MS:
        kafka_streams.PROGRAM.require()
    if system in CHECKPOINT_INTERVAL_MS:
        flink.PROGRAM.require()


@dataclass(frozen=True)
class Outcome:
    load: Load
    answer: Answer
    dead_letters: int
    figures: dict[str, Any]  # JSON
    verdict: Verdict | None  # on its latencies; None if the load was too short

    @property
    def right(self) -> bool:
        return self.answer.right and not self.dead_letters

    def as_data(self) -> dict[str, Any]:
        checked = self.answer.as_data() | {"dead_letters": self.dead_letters}
        return {"load": asdict(self.load), **self.figures, "checked": checked, "right": self.right}


def run(
    load: Load, flags: Mapping[str, str], tell: Tell, system: str = "sluice", broker: Mapping[str, str] = NOTHING
) -> Outcome:
    """Measure one system under a load. `flags` are settings of the job by dotted name, `broker` properties of Kafka's.
    All processes that it starts have ended when it returns."""
    require(system)
    with place("living", flags, broker=broker) as here:
        if system == "sluice":
            compile_kernels(here.settings.matching.algorithm, tell)
        with Child("rig.generator", here.writing(load)) as generator:
            generator.wait_for("subscriptions")
            tell(f"{load.subscriptions:,} subscriptions are on their topic; {system} starts")
            began = time.monotonic()
            with SYSTEMS[system](here) as job:
                start_s = time.monotonic() - began
                tell(f"it runs, after {start_s:,.1f} s")
                with Child("rig.follower", here.following()) as follower:
                    others = {"broker": here.broker.pid, "generator": generator.pid, "follower": follower.pid}
                    watch = _Watch(load, job, generator, follower, others, tell)
                    if load.warm_up_s:
                        watch.during(WARM_UP)
                        tell("it is warm")
                    warm_up = {name: generator.report.get(name, 0) for name in ("events", "changes")}
                    job.load_begins()
                    course, usage = watch.during(LOAD)
                    job.stop()
                    follower.end()
        tell(
            "everything is processed; the check begins" if course.drain_s is not None else "too slow; the check begins"
        )
        began = time.monotonic()
        answer, job_report = job.checked()
        began_ms = generator.report["began_ms"]
        written_s, late_s = _of_load(follower.report["due_ms"], follower.report["late_ms"], began_ms)
        _, in_force_s = _of_load(follower.report["change_due_ms"], follower.report["in_force_ms"], began_ms)
        later = written_s >= load.seconds / 2
        latencies = {"follower": _summary(late_s), "follower_second_half": _summary(late_s[later])}
        written = {name: generator.report[name] - before for name, before in warm_up.items()}
        processed = course.events / max(written["events"], 1)
        figures = job_report | {
            "start_s": round(start_s, 1),
            **written,
            "longest_pause_of_generator_ms": generator.report["longest_pause_ms"],
            "events_done": course.events,
            "events_of_warm_up": warm_up["events"],
            "done_s": round(course.done_s, 1),
            "drain_s": None if course.drain_s is None else round(course.drain_s, 1),
            "deliveries_read": follower.report["read"],
            "check_s": round(time.monotonic() - began, 1),
            "latency_ms": job_report["latency_ms"] | latencies,
            "in_force_ms": _summary(in_force_s),
            "memory_mb": usage.memory_mb(),
            "cpu_s": usage.cpu_s(),
        }
        return Outcome(load, answer, here.dead_letters(), figures, judge(written_s, late_s, load.seconds, processed))


def _of_load(due_ms: Sequence[float], late_ms: Sequence[float], began_ms: float) -> tuple[Float64, Float64]:
    """Return the seconds from the beginning of the load until something was due, and how many seconds late it was;
    without what was due in the warm-up."""
    due_s, late_s = (np.array(due_ms) - began_ms) / 1000, np.array(late_ms) / 1000
    return due_s[due_s >= 0], late_s[due_s >= 0]


def _summary(late_s: Float64) -> dict[str, float | None]:
    latencies = Latencies()
    latencies.extend(late_s * 1000)
    return latencies.summary()


@dataclass(frozen=True)
class Course:
    """The course of a stretch of load."""

    events: int  # that were done
    done_s: float  # from the first event written to the end of the last batch
    drain_s: float | None  # of it, after the last event was written; None if the system was stopped before


@dataclass
class _Watch:
    load: Load
    job: System
    generator: Child
    follower: Child
    others: Mapping[str, int]
    tell: Tell

    def during(self, stretch: str) -> tuple[Course, Usage]:
        """Let the generator begin, and watch until everything written is processed, or the system's time is over."""
        with Usage(self.job.pid, self.others) as usage:
            self.generator.go()
            return self._until_done(stretch, usage), usage

    def _until_done(self, stretch: str, usage: Usage) -> Course:
        job, generator, tell = self.job, self.generator, self.tell
        began = changed = told_s = time.monotonic()
        last, over, half = job.done(), None, stretch == WARM_UP
        before = events_told = last[0]
        while True:
            job.check()
            for child in (generator, self.follower):
                child.check()
            now = time.monotonic()
            if not half and now - began >= self.load.seconds / 2:
                half = True
                job.midpoint()
            if over is None and stretch in generator.report:
                over = now
            written = generator.report.get("events", 0), self.load.subscriptions + generator.report.get("changes", 0)
            done = job.done()
            if done != last:
                last, changed = done, now
            if over is not None and done[0] >= written[0] and done[1] >= written[1]:
                return Course(done[0] - before, now - began, now - over)
            if over is not None and job.patience_s is not None:
                patience_s = job.patience_s if changed > over else LONGEST * job.patience_s
                if now - over > patience_s:
                    return Course(done[0] - before, changed - began, None)
            if job.patience_s is None and now - changed > QUIET_S:
                raise JobError(f"no progress for {QUIET_S:.0f} s, at {done[0]:,} of {written[0]:,} events")
            if now - told_s >= TELL_S:
                rate = (done[0] - events_told) / (now - told_s)
                behind = written[0] - done[0], written[1] - max(done[1], self.load.subscriptions)
                memory = ", ".join(f"{name} {used.resident_mb:,.0f}" for name, used in usage.samples[-1][1].items())
                late = f"behind {behind[0]:,} events, {behind[1]:,} changes"
                tell(f"{now - began:5.0f} s: {rate:,.0f} events/s; {late}; {job.progress()}; MB {memory}")
                told_s, events_told = now, done[0]
            time.sleep(0.1)
