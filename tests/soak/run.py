"""Run the load for its time, take samples, and say what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import KafkaException

from rig.load import Load
from streaming.errors import JobError
from tests.soak.growth import of_samples
from tests.soak.system import Progress, System

EVERY_S = 10.0
WINDOW_S = 60.0  # of the check, for a million subscriptions: with more of them a window costs more
MILLION = 1_000_000
LATE_S = 10.0  # the generator may be at the end, and after it the job
QUIET_S = 300.0  # without progress we give up
POLL_S = 0.2

Tell = Callable[[str], None]
Seen = Callable[[dict[str, Any]], None]


@dataclass
class Outcome:
    """The outcome of a run, also of one that was stopped."""

    load: Load
    settings: Mapping[str, str]
    retention_minutes: float
    restart: bool = False  # the job was stopped and started again before the load
    broker: Mapping[str, str] = field(default_factory=dict)  # its settings
    start: dict[str, dict[str, float]] = field(default_factory=dict)  # the steps until all was ready: s, MB of the job
    samples: list[dict[str, Any]] = field(default_factory=list)
    written: dict[str, float] = field(default_factory=dict)  # events, changes and seconds, by the generator
    drain_s: float | None = None  # from the last event until the job was done
    checked: dict[str, Any] = field(default_factory=dict)
    all_checked: bool = False  # all that the job committed
    latency_ms: dict[str, float | None] = field(default_factory=dict)
    restarts: int = 0
    dead_letters: int = 0
    failure: str | None = None
    stopped: int | None = None  # the exit code of who was stopped from outside

    @property
    def right(self) -> bool:
        return self.failure is None and self.all_checked and self.checked["right"] and not self.dead_letters

    @property
    def sustained(self) -> bool:
        """Whether the generator kept to its rates, and the job to the generator."""
        if self.drain_s is None:
            return False
        return self.drain_s <= LATE_S and self.written["seconds"] - self.load.seconds <= LATE_S

    @property
    def exit_code(self) -> int:
        if self.stopped is not None and self.failure is None and self.checked.get("right", True):
            return self.stopped
        return 0 if self.right and self.sustained else 1

    def as_data(self) -> dict[str, Any]:
        """JSON."""
        verdicts = {"right": self.right, "sustained": self.sustained}
        growth = [one.as_data() for one in of_samples(self.samples)]
        return {**verdicts, **asdict(self), "growth": growth}


def run(outcome: Outcome, tell: Tell, seen: Seen, every_s: float = EVERY_S, window_s: float | None = None) -> None:
    """Fill in the outcome, whatever happens. `seen` gets each sample."""
    load = outcome.load
    window_s = window_s or WINDOW_S * max(1.0, load.subscriptions / MILLION)
    try:
        with System(
            load, outcome.settings, outcome.retention_minutes, window_s, outcome.restart, outcome.broker
        ) as system:
            outcome.start = system.start
            for name, step in system.start.items():
                tell(f"{name.replace('_', ' ')} after {step['s']:,.1f} s, the job had {step['job_mb']:,} MB at most")
            try:
                _watch(system, outcome, seen, every_s)
            except (JobError, KafkaException) as error:
                outcome.failure = str(error)
            except SystemExit as stop:
                outcome.stopped = int(str(stop.code))
            tell("the job stops, and the rest is checked")
            _finish(system, outcome)
    except (JobError, KafkaException) as error:
        outcome.failure = outcome.failure or str(error)
    except SystemExit as stop:
        outcome.stopped = int(str(stop.code))


def _watch(system: System, outcome: Outcome, seen: Seen, every_s: float) -> None:
    """Until all that was written is done."""
    samples = _Samples(outcome.load, system.progress())
    system.generator.go()
    began = changed_s = time.monotonic()
    progress, over_s = system.progress(), None
    while True:
        system.check()
        now = time.monotonic()
        if now - began >= every_s * (len(outcome.samples) + 1) or over_s is not None:
            last, progress = progress, system.progress()
            changed_s = now if progress != last else changed_s
            if now - changed_s > QUIET_S:
                raise JobError(f"no progress for {QUIET_S:.0f} s: {progress}")
        if over_s is None and now - began >= every_s * (len(outcome.samples) + 1):
            outcome.samples.append(samples.of(now - began, progress, system.sample()))
            seen(outcome.samples[-1])
        if over_s is None and "done" in system.generator.report:
            over_s = now
            outcome.written = {n: system.generator.report[n] for n in ("events", "changes", "longest_pause_ms")}
            outcome.written["seconds"] = round(over_s - began, 2)
        elif (
            over_s is not None and progress.events_done >= progress.events and progress.changes_done >= progress.changes
        ):
            outcome.drain_s = round(now - over_s, 2)
            return
        time.sleep(POLL_S)


def _finish(system: System, outcome: Outcome) -> None:
    """If the job does not stop, only what was checked by then counts."""
    system.stop_generator()
    try:
        if (code := system.stop_job()) and outcome.failure is None:
            outcome.failure = f"stopped, the job ended with exit code {code}:\n{system.job.last_lines()}"
        system.stop_reader()
    except JobError as error:
        outcome.failure = outcome.failure or str(error)
    report = system.reader.report
    outcome.checked = report.get("checked", {})
    outcome.all_checked = "done" in report
    outcome.latency_ms = report.get("overall_ms", {})
    outcome.restarts = system.restarts()
    outcome.dead_letters = system.dead_letters()


class _Samples:
    """Rates are those since the last sample."""

    def __init__(self, load: Load, first: Progress) -> None:
        self._load = load
        self._last, self._at_s, self._deliveries = first, 0.0, 0

    def of(self, at_s: float, progress: Progress, sample: dict[str, Any]) -> dict[str, Any]:
        passed = at_s - self._at_s
        last, self._last, self._at_s = self._last, progress, at_s
        deliveries, self._deliveries = sample["deliveries"] - self._deliveries, sample["deliveries"]
        rates = {
            "events_per_second": progress.events - last.events,
            "done_per_second": progress.events_done - last.events_done,
            "changes_per_second": progress.changes - last.changes,
            "deliveries_per_second": deliveries,
        }
        due = min(at_s, self._load.seconds) * self._load.events_per_second
        return {
            "at_s": round(at_s, 1),
            **{name: round(n / passed, 1) for name, n in rates.items()},
            "lag": progress.events - progress.events_done,
            "changes_lag": progress.changes - progress.changes_done,
            "generator_late": round(due - progress.events),
            **sample,
        }
