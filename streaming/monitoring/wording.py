"""Format the figures of the status, and make texts from outside printable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from streaming.monitoring.metrics import TOTALS, JobMetric

if TYPE_CHECKING:
    from streaming.monitoring.status import Document

SHOWN_PARTITIONS = 10
SHOWN_EXECUTORS = 10
QUANTILES = ("p50", "p95", "p99", "max")
SUBSCRIBER_COLUMNS = ("subscriber", "deliveries/s", "deliveries", "bytes", "dead letters", "last event")
EXECUTOR_COLUMNS = ("executor", "host", "cores", "running", "done", "failed", "deliveries")

STAGES = {
    "wait": "waiting for the batch",
    "match": "matching",
    "publish": "publishing",
    "commit": "committing",
    "total": "total",
}
VERDICTS = (("health", "alive", "not alive"), ("ready", "ready", "not ready"))
MEMORY = {"jvm": "JVM", "workers": "workers", "other": "others"}


def readable(text: str) -> str:
    """The text without characters that cannot be printed: half surrogate pairs and control characters."""
    whole = text.encode(errors="replace").decode()
    if whole.replace("\n", "").replace("\t", "").isprintable():
        return whole
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in whole)


def number(value: float) -> str:
    return f"{value:,.1f}" if value % 1 and value < 100 else f"{value:,.0f}"


def seconds(s: float | None) -> str:
    """Three digits, so that columns of them stay narrow."""
    if s is None:
        return "-"
    if s < 0.9995:
        return f"{1000 * s:.0f} ms"
    return f"{s:,.{2 if s < 9.995 else 1 if s < 99.95 else 0}f} s"


def duration(s: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if s >= 2 * size:
            return f"{s / size:.0f} {unit}"
    return f"{s:.0f} s"


def size(n: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:,.{1 if n < 100 * size else 0}f} {unit}"
    return f"{n:.0f} bytes"


def moment(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


UNITS: dict[str, Callable[[float], str]] = {"": number, "bytes": size, "s": duration, "epoch_s": moment}


def labelled(metrics: Iterable[JobMetric], section: Document) -> list[tuple[str, str]]:
    """The label and the value, with its unit, of each metric of a section."""
    values = [(metric, section[metric.key]) for metric in metrics]
    return [(metric.label, "-" if value is None else UNITS[metric.unit](value)) for metric, value in values]


def totals(document: Document) -> list[tuple[str, str]]:
    """Each counter's label and number, then those of sizes."""
    return labelled(sorted(TOTALS, key=attrgetter("unit")), document["totals"])


def lags(document: Document) -> list[tuple[str, str, str]]:
    """Topic, partition and records, in order, so that no line moves.

    With many partitions, those furthest behind, and the sum of the others.
    """
    shown = document["lag"]
    if len(shown) > SHOWN_PARTITIONS:
        shown = sorted(shown, key=lambda lag: -(lag["records"] or 0))
    rows = [(lag["topic"], str(lag["partition"]), behind([lag])) for lag in shown[:SHOWN_PARTITIONS]]
    if others := shown[SHOWN_PARTITIONS:]:
        rows.append((f"{len(others):,} others", "", behind(others)))
    return rows


def behind(lags: Sequence[Document]) -> str:
    """The records of these partitions that are not processed."""
    records = [lag["records"] for lag in lags]
    return "unknown" if None in records else number(sum(records)) if records else "-"


def unknown_lag(document: Document) -> str | None:
    """Since when the lag is unknown, if it is."""
    since = max((lag["unknown_since"] for lag in document["lag"] if lag["unknown_since"] is not None), default=None)
    return None if since is None else f"unknown since {moment(since)}"


def latencies(document: Document) -> list[tuple[str, ...]]:
    """The rows below QUANTILES, by stage."""
    return [
        (STAGES.get(stage, stage), *(seconds(latency[q]) if latency else "-" for q in QUANTILES))
        for stage, latency in document["latency_s"].items()
    ]


def publish_errors(document: Document) -> list[tuple[str, int]]:
    """Requests of tasks that failed at first: "request ERROR" and how many."""
    return [(f"{request} {e}", n) for request, errors in document["publish_errors"].items() for e, n in errors.items()]


def memory(document: Document) -> list[tuple[str, str]]:
    """Memory by kind of process."""
    heap = document["spark"]["heap_bytes"]
    rows = [
        (what, size(document["resident_bytes"][of])) for of, what in MEMORY.items() if of in document["resident_bytes"]
    ]
    if {"used", "max"} <= heap.keys():
        rows.append(("heap", f"{size(heap['used'])} of {size(heap['max'])}"))
    return rows


def executors(document: Document) -> list[tuple[str, ...]]:
    """The rows below EXECUTOR_COLUMNS: the first SHOWN_EXECUTORS, and the sums of the others."""
    counted = ("cores", "running", "done", "failed", "deliveries")
    shown, others = document["executors"][:SHOWN_EXECUTORS], document["executors"][SHOWN_EXECUTORS:]
    rows = [(one["id"], one["host"], *(number(one[name]) for name in counted)) for one in shown]
    if others:
        rows.append((f"{len(others):,} others", "", *(number(sum(one[name] for one in others)) for name in counted)))
    return rows


def subscribers(document: Document) -> list[tuple[str, ...]]:
    """The rows below SUBSCRIBER_COLUMNS, the busiest first."""
    return [
        (
            one["subscriber"],
            number(one["deliveries_per_s"]),
            number(one["deliveries"]),
            size(one["bytes"]),
            number(sum(one["dead_letters"].values())),
            moment(one["last_event_at"]) if one["last_event_at"] else "-",
        )
        for one in (document["subscribers"] or {"busiest": ()})["busiest"]
    ]


def last_batch(document: Document) -> str:
    at = document["last_batch_at"]
    return f"last batch {moment(at)}" if at else "no batch yet"
