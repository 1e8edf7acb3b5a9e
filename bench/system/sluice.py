"""Sluice as the measured system: its job, the job's log, and the check of all that it wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rig import reading
from rig.check import Answer, check
from rig.job import JobProcess
from rig.place import PARTITIONS, START_TIMEOUT_S, Place
from streaming.latencies import STAGES, TOTAL, Latencies


@dataclass
class JobLog:
    """Totals of the job's log lines."""

    version: int = 0
    events: int = 0
    batches: int = 0
    latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})
    recent: Latencies = field(default_factory=Latencies)  # in total, since the last progress line
    midpoint: bool = False
    second_half: Latencies = field(default_factory=Latencies)  # in total, once warm

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        for line in lines:
            if line["event"] != "batch_finished":
                continue
            self.version = line["state_version"]
            self.batches += 1
            self.events += line["event_count"]
            for stage, latencies in line["latency_histograms"].items():
                self.latencies[stage].update(Latencies.from_json(latencies))
            total = Latencies.from_json(line["latency_histograms"][TOTAL])
            self.recent.update(total)
            if self.midpoint:
                self.second_half.update(total)

    def progress(self) -> str:
        """Latencies since the last call, for the user."""
        recent, self.recent = self.recent.summary(), Latencies()
        return "ms " + " ".join(f"{name} {_ms(value)}" for name, value in recent.items())


class Sluice:
    """`with Sluice(place) as system`: what `run.System` promises."""

    patience_s = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._job_log = JobLog()
        self._job = JobProcess(place.flags, place.directory / "job.log")

    def __enter__(self) -> Sluice:
        try:
            self._job.start()
            self._job.wait_until_running(START_TIMEOUT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._job.__exit__()

    @property
    def pid(self) -> int:
        return self._job.pid

    def check(self) -> None:
        self._job.check()

    def done(self) -> tuple[int, int]:
        self._job_log.add(self._job.new_lines())
        return self._job_log.events, self._job_log.version

    def progress(self) -> str:
        return self._job_log.progress()

    def load_begins(self) -> None:
        events, version = self.done()
        self._job_log = JobLog(version, events)

    def midpoint(self) -> None:
        self._job_log.midpoint = True

    def stop(self) -> None:
        self._job.stop()
        self._job_log.add(self._job.new_lines())

    def checked(self) -> tuple[Answer, dict[str, Any]]:
        settings, cluster, log = self._place.settings, self._place.cluster, self._job_log
        changes = reading.read_changes(cluster, settings.subscriptions.topic)
        statuses = reading.read_statuses(cluster, settings.subscriptions.status_topic, changes, PARTITIONS)
        events = reading.read_events(cluster, settings.events.topic)
        deliveries = reading.read_deliveries(cluster, self._place.deliveries(), events, self._place.prefix)
        return check(changes, statuses, events, deliveries), {
            "algorithm": settings.matching.algorithm,
            "layout": settings.deliveries.layout,
            "batches": log.batches,
            "latency_ms": {stage: latencies.summary() for stage, latencies in log.latencies.items()}
            | {"second_half": log.second_half.summary()},
        }


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
