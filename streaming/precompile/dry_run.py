"""Index and match made-up rows in this process, so that the kernels are compiled, cached and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson
import pyarrow as pa

from matchers import ALGORITHMS
from matchers.index.snapshot import Snapshot
from matchers.index.templates import FEWEST_DOCUMENTS
from streaming.index import parts
from streaming.rows import EVENTS, INPUT, PACKED, SUBSCRIPTIONS, AcceptedChange, unpacked
from streaming.state.state import State
from streaming.tenants import MOST_PARTITIONS
from streaming.worker.settings import TaskSettings

FEW_EVENTS = 64  # algorithms may have other kernels for few
MANY_SUBSCRIPTIONS = 2_400  # for which an algorithm that chooses has to choose
LIST_VALUES = 40  # there are kernels for long ones
Kind = Literal["alike", "sparse", "listed", "repeated"]  # of subscriptions
NOWHERE = MOST_PARTITIONS - 1  # a partition that hardly a topic has


@dataclass(frozen=True)
class _Kept:
    """A broadcast that goes nowhere."""

    value: Any

    def destroy(self) -> None:
        pass


def indexed(algorithm: str, options: Mapping[str, Any], kind: Kind = "alike") -> State:
    """A state of made-up subscriptions: with the same fields, with a field each, with long lists, or all the same.

    Raises MatchingError, and TypeError for options that the algorithm lacks.
    """
    state = State(Snapshot(0, algorithm, options), _Kept, {})
    (work,) = state.work(TaskSettings())
    changes = rows(MANY_SUBSCRIPTIONS if ALGORITHMS[algorithm].chooses else 2 * FEWEST_DOCUMENTS, 0, kind)
    made = unpacked(pa.Table.from_batches(work(changes.to_batches()), PACKED))
    state.apply([row._replace(segment=0) if isinstance(row, AcceptedChange) else row for row in made], {})
    return state


def match(state: State, settings: TaskSettings) -> None:
    """Do the work of tasks with the index of a state."""
    here = replace(state, broadcast=_Kept, share=None, _handles={})
    unbounded = replace(settings, memory_mb=0)
    both = rows(2 * FEWEST_DOCUMENTS, FEW_EVENTS)
    for each in (unbounded, unbounded.as_json()):
        for work in here.work(each):
            assert sum(batch.num_rows for batch in work(both.to_batches()))
    parts.forget()


def run(algorithm: str, options: Mapping[str, Any] | None = None) -> None:
    """Index and match with an algorithm. Raises what `indexed` raises."""
    chooses = bool(ALGORITHMS[algorithm].chooses)  # what it chooses from runs too
    kinds: list[Kind] = ["alike", "repeated"] if chooses else ["alike", "sparse", "listed"]
    for kind in kinds:  # algorithms may have other kernels for each
        state = indexed(algorithm, options or {}, kind)
        match(state, TaskSettings())
        if chooses:  # the library matches events alone
            for part in state.snapshot.parts:
                part.matcher.alone()


def rows(changes: int, events: int, kind: Kind = "alike") -> pa.Table:
    """Made-up records of both topics (rows.INPUT)."""
    row = {"partition": NOWHERE, "offset": 0, "timestamp": 0}
    written = [
        row | {"source": SUBSCRIPTIONS, "key": b"%d" % i, "value": orjson.dumps(_document(i, kind))}
        for i in range(changes)
    ]
    happened = [row | {"source": EVENTS, "value": b"{}"}] * events
    return pa.Table.from_pylist(written + happened, schema=INPUT)


def _document(i: int, kind: Kind) -> dict[str, Any]:
    above = [{"numeric": [">", 0 if kind == "repeated" else i]}]
    patterns = {
        "sparse": {f"number {i}": above},
        "listed": {"number": list(range(i, i + 2 * LIST_VALUES, 2))},
    }
    return {"subscriber": "nobody", "pattern": patterns.get(kind, {"text": ["a"], "number": above})}
