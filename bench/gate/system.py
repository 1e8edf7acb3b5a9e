"""Points of the whole system: a real broker, the real job, and every delivery checked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.gate.figure import PER_EVENT, Figure, PointFailed, Tell
from bench.system.kernels import compile_kernels
from bench.system.run import Outcome, run
from bench.system.sluice import Sluice
from rig.child import Child
from rig.load import Load
from rig.place import place
from rig.usage import JOB, Usage
from streaming.errors import JobError

LATE_S = 20.0  # most time after the last event; a job that keeps up takes less than one
SETTLING_S = 6.0  # after the start, before the job counts as idle


@dataclass(frozen=True)
class Rate:
    """Run the job under a load."""

    load: Load
    flags: Mapping[str, str] = field(default_factory=dict)  # settings of the job

    def figures(self, tell: Tell) -> list[Figure]:
        try:
            return figures_of(run(self.load, self.flags, tell))
        except JobError as error:
            raise PointFailed(str(error), again=True) from None


def figures_of(outcome: Outcome) -> list[Figure]:
    """The figures of a run. Raises PointFailed."""
    if not outcome.right:
        counts = {**outcome.answer.as_data(), "dead_letters": outcome.dead_letters}
        wrong = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        raise PointFailed(f"deliveries are wrong: {wrong}", again=False)
    figures = outcome.figures
    drain_s, events, cpu_s = figures["drain_s"], figures["events_done"], figures["cpu_s"]
    if drain_s is None or drain_s > LATE_S:
        raise PointFailed(f"done {drain_s} s after the last event, which may take {LATE_S:.0f} s", again=True)
    if outcome.verdict is not None and not outcome.verdict.sustained:
        first, middle, last = outcome.verdict.thirds_ms
        raise PointFailed(
            f"the rate was not sustained: {outcome.verdict.done:.1%} was done in time, and the median latencies of its "
            f"thirds are {first:,.0f}, {middle:,.0f} and {last:,.0f} ms",
            again=True,
        )
    latency_ms = figures["latency_ms"]["second_half"]
    job_s = sum(cpu_s.get(name, 0.0) for name in JOB)
    return [
        Figure("job", PER_EVENT, 1e6 * job_s / events),
        Figure("all processes", PER_EVENT, 1e6 * sum(cpu_s.values()) / events),
        Figure("p50", "ms", latency_ms["p50"], gated=False),
        Figure("p99", "ms", latency_ms["p99"], gated=False),
        Figure("done after the last event", "s", drain_s, gated=False),
        Figure("batches", "count", figures["batches"], gated=False),
    ]


@dataclass(frozen=True)
class Start:
    """Start the job, and leave it idle."""

    load: Load  # of which only the subscriptions are written
    idle_s: float

    def figures(self, tell: Tell) -> list[Figure]:
        try:
            return self._measured(tell)
        except JobError as error:
            raise PointFailed(str(error), again=True) from None

    def _measured(self, tell: Tell) -> list[Figure]:
        with place("living") as here:
            compile_kernels(here.settings.matching.algorithm, tell)
            with Child("rig.generator", here.writing(self.load)) as generator:
                generator.wait_for("subscriptions")
            tell(f"{self.load.subscriptions:,} subscriptions are on their topic; the job starts")
            began = time.monotonic()
            with Sluice(here) as job:
                start_s = time.monotonic() - began
                with Usage(job.pid, {}) as until_running:
                    pass
                tell(f"it runs, after {start_s:,.1f} s, and is left idle for {self.idle_s:,.0f} s")
                time.sleep(SETTLING_S)
                with Usage(job.pid, {"broker": here.broker.pid}) as idle:
                    time.sleep(self.idle_s)
                job.stop()
        (began, first), (ended, last) = idle.samples[0], idle.samples[-1]
        percent = {name: 100 * (last[name].cpu_s - first[name].cpu_s) / (ended - began) for name in first}
        return [
            Figure("start", "CPU s", sum(used.cpu_s for used in until_running.samples[0][1].values())),
            Figure("start, until running", "s", start_s, gated=False),
            Figure("idle job", "% of a core", sum(percent[name] for name in JOB if name in percent)),
            Figure("idle broker", "% of a core", percent["broker"]),
        ]
