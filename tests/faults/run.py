"""Inject faults one after the other, report each, then check all deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import numpy as np
from confluent_kafka import KafkaException

from streaming.errors import JobError
from tests.faults.checking.check import Found
from tests.faults.kinds import KINDS
from tests.faults.system import System

Tell = Callable[[str], None]
BETWEEN_S = (1.0, 4.0)


@dataclass(frozen=True)
class Fault:
    kind: str
    outage_s: float  # the longest time without a commit of new events
    held_s: float  # of that, how long the fault itself lasted
    caught_up_s: float
    right: bool

    @property
    def recovery_s(self) -> float:
        """The outage without the time for which the fault itself lasted."""
        return max(0.0, self.outage_s - self.held_s)


@dataclass(frozen=True)
class Outcome:
    seed: int
    faults: list[Fault]
    found: Found | None
    restarts: int
    written: dict[str, int]
    failure: str | None  # why it went no further

    @property
    def right(self) -> bool:
        return self.failure is None and self.found is not None and self.found.right

    def as_data(self) -> dict[str, Any]:
        """JSON."""
        return {
            "seed": self.seed,
            "right": self.right,
            "failure": self.failure,
            "written": self.written,
            "restarts": self.restarts,
            "checked": self.found.as_data() if self.found else None,
            "kinds": dict(self.by_kind()),
            "faults": [asdict(fault) | {"recovery_s": round(fault.recovery_s, 2)} for fault in self.faults],
        }

    def by_kind(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Outages and recoveries, of all faults too."""
        for kind in sorted({fault.kind for fault in self.faults}):
            yield kind, _figures([fault for fault in self.faults if fault.kind == kind])
        if self.faults:
            yield "all", _figures(self.faults)


def _figures(faults: Sequence[Fault]) -> dict[str, Any]:
    figures: dict[str, Any] = {"n": len(faults)}
    for name in ("outage", "recovery"):
        seconds = [getattr(fault, f"{name}_s") for fault in faults]
        p50, p95, longest = (round(float(q), 2) for q in np.quantile(seconds, (0.5, 0.95, 1.0)))
        figures[name] = {"p50_s": p50, "p95_s": p95, "max_s": longest}
    return figures


def drawn(r: Random, kinds: Sequence[str], faults: int) -> list[str]:
    """Each kind as often as the others, in rounds of random order."""
    found: list[str] = []
    while len(found) < faults:
        found += r.sample(kinds, len(kinds))
    return found[:faults]


def run(system: System, kinds: Sequence[str], seed: int, tell: Tell) -> Outcome:
    """Inject a fault of each of `kinds`, up to the first from which the system does not recover. If a signal stops the
    run, the outcome has what was seen until then."""
    r = Random(seed)
    faults: list[Fault] = []
    found, failure = None, None
    try:
        for number, kind in enumerate(kinds, 1):
            time.sleep(r.uniform(*BETWEEN_S))
            began = time.monotonic()
            held = KINDS[kind](system, r)
            outage = system.caught_up(began)
            found = system.checked()
            outage_s, held_s, caught_up_s = (round(s, 2) for s in (outage.s, held, outage.caught_up_s))
            fault = Fault(kind, outage_s, held_s, caught_up_s, found.right)
            faults.append(fault)
            tell(_line(number, len(kinds), fault, found))
            if not found.right:
                break
        found = system.finish()
    except (JobError, KafkaException) as error:
        failure = f"{kinds[len(faults)] if len(faults) < len(kinds) else 'the end'}: {error}"
        tell(f"FAILED: {failure}")
    except (SystemExit, KeyboardInterrupt):
        failure = "stopped before the end"
        tell(failure)
    restarts = sum(len(job.lines("job_restarted")) for job in system.jobs)
    writing = system.writing
    transactions = {f"transactions_{name}": n for name, n in writing.transactions.transactions.items()}
    written = {"events": writing.events, "changes": writing.changes, **transactions}
    if system.past:
        written |= system.past.counts()
    return Outcome(seed, faults, found, restarts, written, failure)


def _line(number: int, of: int, fault: Fault, found: Found) -> str:
    answer = found.answer
    verdict = "right" if found.right else "WRONG " + "; ".join(found.details)
    held = f" ({fault.held_s:.1f} s of them the fault itself)" if fault.held_s else ""
    return (
        f"{number:3} of {of}  {fault.kind:18} {fault.outage_s:6.1f} s without a commit{held}, "
        f"{answer.delivered:,} of {answer.expected:,} deliveries: {verdict}"
    )
