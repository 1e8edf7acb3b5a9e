"""Start the broker, the job and what drives it; wait until all is done; check all that was delivered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.living import reading
from bench.living.check import Answer, Changes, Statuses, check
from bench.living.child import HOME, Child
from bench.living.load import Load
from bench.living.usage import Usage
from config import Settings
from config import load as load_settings
from streaming import layout
from streaming.broker import EmbeddedBroker
from streaming.clients import Cluster
from streaming.errors import JobError
from streaming.metrics import STAGES, TOTAL, Latencies
from streaming.process import JobProcess
from streaming.topics import Topic, Topics

PARTITIONS = 2
START_TIMEOUT_S = 3_600.0
QUIET_S = 300.0  # without any progress, we give up
TELL_S = 10.0

Tell = Callable[[str], None]


@dataclass
class Heard:
    """What the job's log lines add up to."""

    version: int = 0
    events: int = 0
    deliveries: int = 0
    batches: int = 0
    latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})
    recent: Latencies = field(default_factory=Latencies)  # in total, since it was last told
    halfway: bool = False
    second_half: Latencies = field(default_factory=Latencies)  # in total, once warm

    def hear(self, line: dict[str, Any]) -> None:
        if line["event"] != "batch":
            return
        self.version = line["version"]
        self.batches += 1
        self.events += line["events"]
        self.deliveries += line["deliveries"]
        for stage, latencies in line["latencies"].items():
            self.latencies[stage].update(Latencies.from_json(latencies))
        total = Latencies.from_json(line["latencies"][TOTAL])
        self.recent.update(total)
        if self.halfway:
            self.second_half.update(total)


@dataclass(frozen=True)
class Outcome:
    load: Load
    answer: Answer
    dead_letters: int
    figures: dict[str, Any]  # JSON

    @property
    def right(self) -> bool:
        return self.answer.right and not self.dead_letters

    def as_data(self) -> dict[str, Any]:
        checked = self.answer.as_data() | {"dead_letters": self.dead_letters}
        return {"load": asdict(self.load), **self.figures, "checked": checked, "right": self.right}


def run(load: Load, flags: Mapping[str, str], tell: Tell) -> Outcome:
    """`flags` are settings of the job, by dotted name. Everything that it starts has ended by then."""
    with TemporaryDirectory(prefix="sluice-living-") as directory, EmbeddedBroker(HOME / "jars") as broker:
        own = {
            "query.name": "living",
            "query.checkpoint": f"{directory}/checkpoint",
            "kafka.bootstrap_servers": broker.bootstrap_servers,
        }
        settings = load_settings(flags={**flags, **own})
        cluster = Cluster(broker.bootstrap_servers, settings.kafka.client)
        topics = cluster.topics()
        topics.create(_kept(layout.topics(settings, PARTITIONS, 1), settings))
        where = {"bootstrap_servers": cluster.bootstrap_servers, "client": cluster.options}
        wanted = {
            "load": asdict(load),
            "events_topic": settings.events.topic,
            "partitions": PARTITIONS,
            "subscriptions_topic": settings.subscriptions.topic,
        }
        heard = Heard()
        with Child("generator", {**where, **wanted}) as generator:
            generator.wait_for("subscriptions")
            first = {p: high for p, _, high in topics.offsets(settings.subscriptions.topic)}
            tell(f"{load.subscriptions:,} subscriptions are on their topic; the job starts")
            began = time.monotonic()
            with JobProcess(HOME, {**flags, **own}, Path(directory) / "job.log", heard.hear, START_TIMEOUT_S) as job:
                start_s = time.monotonic() - began
                tell(f"it runs, after {start_s:,.1f} s")
                with Child("follower", {**where, "topics": _deliveries(topics, settings)}) as follower:
                    others = {"broker": broker.pid, "generator": generator.pid, "follower": follower.pid}
                    with Usage(job.pid, others) as usage:
                        generator.go()
                        drain_s = _watch(load, heard, job, (generator, follower), usage, tell)
                    follower.end()
                code = job.stopped()
                if code:
                    raise JobError(f"the job ended with exit code {code} when it was told to stop")
        tell("everything is processed; the check begins")
        began = time.monotonic()
        answer, in_force = _checked(cluster, settings, first)
        dead_letters = sum(high - low for _, low, high in topics.offsets(settings.dead_letters.topic))
        figures = {
            "algorithm": settings.matching.algorithm,
            "layout": settings.deliveries.layout,
            "start_s": round(start_s, 1),
            "events": generator.told["events"],
            "changes": generator.told["changes"],
            "batches": heard.batches,
            "longest_pause_of_generator_ms": generator.told["longest_pause_ms"],
            "drain_s": round(drain_s, 1),
            "check_s": round(time.monotonic() - began, 1),
            "latency_ms": {stage: found.summary() for stage, found in heard.latencies.items()}
            | {"second_half": heard.second_half.summary()}
            | {"follower": Latencies.from_json(follower.told["latencies"]).summary()},
            "in_force_ms": in_force,
            "memory_mb": usage.memory_mb(),
            "cpu_s": usage.cpu_s(),
        }
        return Outcome(load, answer, dead_letters, figures)


def _kept(topics: Iterable[Topic], settings: Settings) -> Iterable[Topic]:
    """No status may be compacted away before it is checked."""
    for topic in topics:
        forgets = topic.name == settings.subscriptions.status_topic
        yield replace(topic, config={"retention.ms": "-1"}) if forgets else topic


def _deliveries(topics: Topics, settings: Settings) -> list[str]:
    if settings.deliveries.layout == "shared":
        return [settings.deliveries.topic]
    return sorted(name for name in topics.partitions() if name.startswith(settings.deliveries.prefix))


def _watch(load: Load, heard: Heard, job: JobProcess, children: tuple[Child, Child], usage: Usage, tell: Tell) -> float:
    """Until all that was written is processed; returns how long that took after the last of it."""
    generator, _ = children
    began = changed = told = time.monotonic()
    last, events_told, done = (0, 0), 0, None
    while True:
        job.check()
        for child in children:
            child.check()
        now = time.monotonic()
        heard.halfway = now - began >= load.seconds / 2
        if done is None and "done" in generator.told:
            done = now
        written = generator.told.get("events", 0), load.subscriptions + generator.told.get("changes", 0)
        if done is not None and heard.events >= written[0] and heard.version >= written[1]:
            return now - done
        if (heard.events, heard.version) != last:
            last, changed = (heard.events, heard.version), now
        if now - changed > QUIET_S:
            raise JobError(f"no progress for {QUIET_S:.0f} s, at {heard.events:,} of {written[0]:,} events")
        if now - told >= TELL_S:
            rate = (heard.events - events_told) / (now - told)
            behind = written[0] - heard.events, written[1] - max(heard.version, load.subscriptions)
            tell(f"{now - began:5.0f} s: {rate:,.0f} events/s; {_state(heard, usage, behind)}")
            told, events_told = now, heard.events
        time.sleep(0.1)


def _checked(cluster: Cluster, settings: Settings, first: Mapping[int, int]) -> tuple[Answer, dict[str, float | None]]:
    changes = reading.read_changes(cluster, settings.subscriptions.topic)
    statuses = reading.read_statuses(cluster, settings.subscriptions.status_topic, changes, PARTITIONS)
    events = reading.read_events(cluster, settings.events.topic)
    prefix = None if settings.deliveries.layout == "shared" else settings.deliveries.prefix
    topics = _deliveries(cluster.topics(), settings)
    deliveries = reading.read_deliveries(cluster, topics, events, prefix)
    return check(changes, statuses, events, deliveries), _in_force_ms(changes, statuses, first)


def _in_force_ms(changes: Changes, statuses: Statuses, first: Mapping[int, int]) -> dict[str, float | None]:
    """From a change's timestamp to that of its status, of all but the `first` of each partition."""
    later = np.concatenate([np.arange(changes.start[p] + n, changes.start[p + 1]) for p, n in first.items()])
    found = np.isin(statuses.change, later)
    ms = statuses.timestamp[found] - changes.timestamp[statuses.change[found]]
    if not len(ms):
        return {"p50": None, "p95": None, "p99": None, "max": None}
    p50, p95, p99 = (round(float(q), 1) for q in np.quantile(ms, (0.5, 0.95, 0.99)))
    return {"p50": p50, "p95": p95, "p99": p99, "max": float(ms.max())}


def _state(heard: Heard, usage: Usage, behind: tuple[int, int]) -> str:
    """For people to watch."""
    recent, heard.recent = heard.recent.summary(), Latencies()
    ms = " ".join(f"{name} {_ms(value)}" for name, value in recent.items())
    memory = ", ".join(f"{name} {taken.memory_mb:,.0f}" for name, taken in usage.samples[-1][1].items())
    return f"behind {behind[0]:,} events, {behind[1]:,} changes; ms {ms}; MB {memory}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
