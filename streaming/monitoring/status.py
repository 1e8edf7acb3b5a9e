"""The status of the job as one JSON document: `/status.json`, and the data of the page.

    job             query, version (of Sluice), algorithm, codec, pid, phase (restoring, starting, running,
                    stopping), started_at (epoch s), uptime_s, start_s (until it ran; null before), restarts and
                    last_exit_code (both null where nobody starts it again; a signal is a negative code), standby_ready
                    (whether a process stands by that has prepared everything; null without --standby)
    health          ok, reasons
    ready           ok, reasons, notes (what does not keep the job from being ready)
    state           version, subscriptions, segments, bytes, compacting, compactions, compaction_s (p50, p95, p99, max),
                    index (the algorithm of the longest segment, and why it was chosen), saved_at (epoch s: the last
                    save; null: none yet), unsaved_s (the age of the oldest unsaved change; 0: all are saved); null
                    while it is restored
    preparation     of the index of the settings, while events are matched without it: step (compiling kernels, loading
                    kernels, building the index), for_s, done, of (algorithms whose kernels are compiled, of how many),
                    left_s (an estimate for compiling; null: unknown); null once the index is in use
    totals          since the start, the counters of TOTALS (metrics.py says what each counts): batches, events,
                    read_bytes, matched, matches, ...
    dead_letters    since the start, by reason; those of which there are none are left out
    publish_errors  since the start, by request and error: requests of tasks that failed at first
    rates           of the last minute: events_per_s, deliveries_per_s
    history         step_s, and for each of the last steps, the oldest first: the same rates, and latency_p50_s and
                    latency_p99_s of the stage total (null where no event matched)
    latency_s       of the last five minutes, by stage (wait, match, publish, commit, total): p50, p95, p99, max;
                    null where no event matched
    lag             a list of topic, partition, position, end, records, unknown_since (epoch s: the broker does not
                    answer since then, and end and records are null; null while it does)
    last_batch_at   epoch s; null before the first
    in_hand         batch, stage (prepare, measure, match, publish), without_progress_s (since the stage began, or went
                    on); null between two batches
    stalled_s       for how long there has been something to read and nothing was committed, while the broker answered
    broker          answered_at (epoch s; null: never), error (null: it answers)
    spark           heap_bytes
    executors       those of Spark that run now: id, host, cores, running, done and failed (tasks since the executor
                    started), deliveries (since the job started)
    subscribers     number (of those with metrics), whole (whether the sums of earlier processes are in them), and the
                    busiest, each with subscriber, deliveries_per_s (of late), deliveries, bytes, matches, dead_letters
                    (by reason), last_event_at, since (epoch s); null where metrics.topic is empty
    resident_bytes  of the processes below the driver: jvm, workers, other
    troubles        the last warnings and errors, the newest first: at (epoch s), level, event, detail

Keys may be added; those that are here stay, with their units.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from streaming.latencies import TOTAL, Latencies
from streaming.monitoring.figures import INTERVAL_S, Figures
from streaming.monitoring.reporting import by_request
from streaming.monitoring.verdicts import ailing, notes, stalled_s, unsaved_s, waiting, without_progress_s
from streaming.monitoring.view import JobView, SubscribersView, Trouble
from streaming.version import VERSION

Document = dict[str, Any]


def _health(view: JobView) -> Document:
    reasons = ailing(view)
    return {"ok": not reasons, "reasons": reasons}


def _ready(view: JobView) -> Document:
    reasons = waiting(view)
    return {"ok": not reasons, "reasons": reasons, "notes": notes(view)}


VERDICTS = {"health": _health, "ready": _ready}


def document(view: JobView) -> Document:
    about, figures, now = view.about, view.figures, view.now
    past = about.past
    return {
        "job": {
            "query": about.query,
            "version": VERSION,
            "algorithm": about.algorithm,
            "codec": about.codec,
            "pid": about.pid,
            "phase": view.phase,
            "started_at": about.started_at,
            "uptime_s": round(now - about.started_at, 1),
            "start_s": view.start_s,
            "restarts": past.restarts if past else None,
            "last_exit_code": past.exit_code if past else None,
            "standby_ready": about.is_standby_ready() if about.is_standby_ready else None,
        },
        **{name: verdict(view) for name, verdict in VERDICTS.items()},
        "state": _state(view),
        "preparation": _preparation(view),
        "totals": figures.totals(),
        "dead_letters": dict(figures.dead_letters),
        "publish_errors": by_request(figures.publish_errors),
        "rates": {
            "events_per_s": round(figures.per_second("events", now), 1),
            "deliveries_per_s": round(figures.per_second("deliveries", now), 1),
        },
        "history": {
            "step_s": INTERVAL_S,
            "events_per_s": figures.series("events", now),
            "deliveries_per_s": figures.series("deliveries", now),
            "latency_p50_s": _latency_series(figures, 0.5, now),
            "latency_p99_s": _latency_series(figures, 0.99, now),
        },
        "latency_s": {stage: _seconds(latencies) for stage, latencies in figures.recent(now).items()},
        "lag": _lag(view),
        "last_batch_at": figures.last_batch_at,
        "in_hand": view.in_hand
        and {
            "batch": view.in_hand.batch,
            "stage": view.in_hand.stage,
            "without_progress_s": round(without_progress_s(view), 1),
        },
        "stalled_s": round(stalled_s(view), 1),
        "broker": {"answered_at": view.broker.answered_at, "error": view.broker.error},
        "spark": {
            "heap_bytes": dict(view.progress.heap_bytes),
        },
        "executors": [
            {**asdict(executor), "deliveries": figures.executors.get(executor.id, 0)}
            for executor in view.progress.executors
        ],
        "subscribers": _subscribers(view.subscribers),
        "resident_bytes": dict(view.resident_bytes),
        "troubles": [
            {"at": trouble.at, "level": trouble.level, "event": trouble.event, "detail": _detail(trouble)}
            for trouble in view.troubles
        ],
    }


def _latency_series(figures: Figures, quantile: float, now: float) -> list[float | None]:
    in_ms = figures.latency_series(TOTAL, quantile, now)
    return [None if ms is None else round(ms / 1000, 4) for ms in in_ms]


def as_json(document: Document) -> bytes:
    """The document in ASCII, so that it can hold any text."""
    return (json.dumps(document, allow_nan=False) + "\n").encode("ascii")


def _lag(view: JobView) -> list[Document]:
    since = view.broker.unknown_since
    return [
        {
            "topic": lag.topic,
            "partition": lag.partition,
            "position": lag.position,
            "end": lag.end if since is None else None,
            "records": lag.records if since is None else None,
            "unknown_since": since,
        }
        for lag in view.lag
    ]


def _state(view: JobView) -> Document | None:
    state = view.state
    if state is None:
        return None
    return {
        "version": state.version,
        "subscriptions": state.subscriptions,
        "segments": state.segments,
        "bytes": state.bytes,
        "compacting": state.compacting,
        "compactions": sum(state.compactions.counts.values()),
        "compaction_s": _seconds(state.compactions),
        "index": state.index,
        "saved_at": state.saved_at,
        "unsaved_s": round(unsaved_s(view), 1),
    }


def _subscribers(view: SubscribersView | None) -> Document | None:
    if view is None:
        return None
    busiest = [
        {
            "subscriber": one.metrics.subscriber,
            "deliveries_per_s": round(one.deliveries_per_s, 1),
            "deliveries": one.metrics.deliveries,
            "bytes": one.metrics.size_bytes,
            "matches": one.metrics.matches,
            "dead_letters": one.metrics.dead_letters,
            "last_event_at": one.metrics.last_event_ms / 1000 or None,
            "since": one.metrics.since_ms / 1000,
        }
        for one in view.busiest
    ]
    return {"number": view.number, "whole": view.is_whole, "busiest": busiest}


def _preparation(view: JobView) -> Document | None:
    preparation = view.preparation
    if preparation is None:
        return None
    left_s = preparation.left_s(view.now)
    return {
        "step": preparation.step,
        "for_s": round(view.now - preparation.since, 1),
        "done": preparation.done,
        "of": preparation.of,
        "left_s": None if left_s is None else round(left_s, 1),
    }


def _seconds(latencies: Latencies) -> Document | None:
    if not latencies.counts:
        return None
    return {name: None if ms is None else ms / 1000 for name, ms in latencies.summary().items()}


def _detail(trouble: Trouble) -> str:
    fields = ", ".join(f"{name}: {value}" for name, value in trouble.fields.items())
    return " ".join(filter(None, (trouble.message, fields)))
