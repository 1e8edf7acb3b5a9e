"""Monitoring: figures add up, verdicts have reasons, and texts from outside are escaped."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from streaming import log_events
from streaming.documents.records import OF_DELIVERIES, REASONS
from streaming.documents.subscriber_metrics import SubscriberMetrics
from streaming.errors import BrokerUnreachable
from streaming.latencies import STAGES, TOTAL, Latencies, by_stage
from streaming.monitoring import status, verdicts
from streaming.monitoring.exposition import BOUNDS_S, Exposition
from streaming.monitoring.figures import INTERVAL_S, INTERVALS, Figures
from streaming.monitoring.memory import resident_bytes
from streaming.monitoring.metrics import LABELS
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.reporting import Report, Stage, by_request
from streaming.monitoring.verdicts import BEAT_S, BROKER_S, ailing, waiting
from streaming.monitoring.view import (
    BUILDING,
    COMPILING,
    LOADING,
    RUNNING,
    STARTING,
    STOPPING,
    About,
    BrokerEnds,
    Executor,
    JobView,
    Lag,
    SparkProgress,
    SubscribersView,
    SubscriberView,
    Trouble,
)
from streaming.monitoring.web import page
from streaming.monitoring.web.elements import POLICY, hash_of
from streaming.monitoring.wording import SHOWN_PARTITIONS, seconds
from streaming.process.supervision import RestartHistory
from streaming.rows import EVENTS, SUBSCRIPTIONS, CommitTimes, Published, ReadProgress
from streaming.source_topics import SourceTopics
from tests.support.doubles.stage import ALICE, ListSink, Reports, change, event, pipeline, state, step

EXECUTORS = (Executor("0", "one", 1, 0, 7, 1), Executor("12", "two", 2, 1, 5, 0))
ABOUT = About("orders", "scan", "json", 1234, 1_000.0, 300, 30, RestartHistory(2, -9), lambda: True)
TOPICS = SourceTopics("subs", ["events"])
ANN = SubscriberMetrics("orders", "ann", 7, 4_000, 8, {"oversize": 2}, 999_000_500, 900_000_000)
BOB = SubscriberMetrics("orders", "bob", 1, 10, 1, {}, 0, 900_000_000)
HOSTILE = '<script>alert("x")</script>&\'"\ud800\x00\u2028{}'


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Asked:
    """A broker that says where topics end, or why it does not."""

    ends: Mapping[tuple[str, int], int] = field(default_factory=lambda: {("events", 0): 0, ("subs", 0): 0})
    error: str = ""

    def __call__(self) -> Mapping[tuple[str, int], int]:
        if self.error:
            raise BrokerUnreachable(self.error)
        return self.ends


def report(start: float, latencies_ms: tuple[float, ...] = (), committed: float = 0.0, **more: Any) -> Report:
    """Return the report of a batch with an event for each latency, each with two deliveries."""
    committed = committed or start
    n = len(latencies_ms)
    own = Report(1, 0.0, start=start)
    own.stages.append(Stage("prepare", start, committed))
    own.saw([ReadProgress(EVENTS, 0, n, records=n, size_bytes=10 * n, timestamp_ms=round(1000 * start))])
    times = CommitTimes(matched=start, sent=committed, committed=committed)
    timestamps_ms = np.rint(1000 * committed - np.array(latencies_ms)).astype(np.int64)
    counts = {"events": n, "matches": 3 * n, "deliveries": 2 * n, "aborted": 0}
    none = {"dead_letters": Counter[str](), "errors": Counter[str]()}
    latencies = by_stage(timestamps_ms, start, times)
    changed: dict[str, Any] = {**counts, **none, "transactions": [times], "latencies": latencies, **more}
    own.add_task(replace(PUBLISHED, **changed))
    own.fields()
    return own


PUBLISHED = Published(
    commits=1,
    met=3,
    attributes=12,
    batches=9,
    events=2,
    matches=5,
    deliveries=4,
    over_quota=0,
    dead_letters=Counter(undecodable_event=1),
    aborted=1,
    size_bytes=1_000,
    partitions=1,
    errors=Counter({"Produce NOT_LEADER_FOR_PARTITION": 2}),
    encoded_s=0.25,
    transactions=[CommitTimes(1_000_000.0, 1_000_000.1, 1_000_000.2)],
    latencies=by_stage([999_999_000, 999_999_990], 999_999.0, (1_000_000.0, 1_000_000.1, 1_000_000.2)),
)


def monitor(clock: Clock | None = None, asked: Asked | None = None) -> Monitor:
    clock = clock or Clock()
    made = Monitor(replace(ABOUT, started_at=clock()), TOPICS, asked or Asked(), clock)
    made.enter(STARTING, state({(EVENTS, 0): 0, (SUBSCRIPTIONS, 0): 0}))
    return made


def running(clock: Clock | None = None, asked: Asked | None = None) -> Monitor:
    made = monitor(clock, asked)
    made.enter(RUNNING)
    made.ask()
    return made


def families(view: JobView) -> dict[str, Metric]:
    _, text = Exposition(lambda: view).page("")
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def values(view: JobView, name: str) -> dict[tuple[str, ...], float]:
    """Return the values by the labels, in the order of their names."""
    samples = (sample for family in families(view).values() for sample in family.samples)
    return {tuple(sample.labels.values()): sample.value for sample in samples if sample.name == name}


def busy() -> JobView:
    """Return the view of a job that has done some of everything."""
    clock = Clock()
    made = running(clock, Asked({("events", 0): 7, ("subs", 0): 0}))
    more = {"dead_letters": {"oversize": 3}, "aborted": 1, "errors": PUBLISHED.errors, "executor": "0"}
    first = report(clock.now, (10.0, 200.0), clock.now + 0.1, **more)
    first.counts["over_quota"] = 2
    made.batch(first)
    made.batch(report(clock.now, (3_000.0,), clock.now + 0.1))
    made.beat(lambda: SparkProgress({("events", 0): 3}, {"used": 1, "max": 2}, EXECUTORS))
    view = made.view()
    assert view.state is not None
    state = replace(view.state, saved_at=clock.now - 600, unsaved_since=clock.now - 50)
    subscribers = SubscribersView(2, True, (SubscriberView(ANN, 1.25), SubscriberView(BOB, 0.0)), (ANN,))
    return replace(view, resident_bytes={"jvm": 5}, state=state, subscribers=subscribers)


# --- figures ---


@given(batches=st.lists(st.lists(st.floats(0.1, 1e6), max_size=5).map(tuple), max_size=5))
def test_figures_are_the_sum_of_all_batches(batches: list[tuple[float, ...]]) -> None:
    figures, together = Figures(), Latencies()
    reports = [report(1e9, latencies, 1e9 + 5) for latencies in batches]
    for one in reports:
        figures = figures.with_batch(one, 1e9 + 6)
        together.update(one.latencies[TOTAL])
    n = sum(map(len, batches))
    assert (figures.batches, figures.events, figures.bytes) == (len(batches), n, 10 * n)
    assert {name: figures.counts[name] for name in ("matched", "matches", "deliveries")} == {
        "matched": n,
        "matches": 3 * n,
        "deliveries": 2 * n,
    }
    assert figures.latencies[TOTAL] == together
    assert figures.recent(1e9 + 6)[TOTAL].counts == together.counts
    assert sum(figures.durations.counts.values()) == len(batches)


def test_a_view_does_not_change_any_more() -> None:
    made = running()
    before = made.view()
    made.batch(report(1.0, (5.0,)))
    assert (before.figures.events, made.view().figures.events) == (0, 1)
    assert not any(latencies.counts for latencies in before.figures.latencies.values())


def test_rates_are_of_whole_intervals_and_forget() -> None:
    now = 1_000_000.0
    figures = Figures().with_batch(report(now, (1.0,) * 20), now).with_batch(report(now, (1.0,) * 30), now)
    assert figures.series("events", now)[-1] == 0  # its slot is not over
    assert figures.series("events", now + INTERVAL_S)[-1] == 10
    assert figures.per_second("deliveries", now + 60) == 100 / 60
    assert figures.per_second("deliveries", now + 61 + INTERVAL_S) == 0
    assert figures.recent(now + 301)[TOTAL].counts == {}
    later = figures.with_batch(report(now), now + INTERVAL_S * (INTERVALS + 1))
    assert len(later.intervals) == 1
    assert len(later.series("events", now)) == INTERVALS


def test_quantiles_are_of_whole_intervals_and_none_where_no_event_matched() -> None:
    now = 1_000_000.0
    figures = Figures().with_batch(report(now, (10.0,) * 98 + (3_000.0,) * 2), now)
    for quantile, ms in ((0.5, 10.0), (0.99, 3_000.0)):
        series = figures.latency_series(TOTAL, quantile, now + INTERVAL_S)
        assert len(series) == INTERVALS
        assert series[-1] == pytest.approx(ms, rel=0.03)
        assert set(series[:-1]) == {None}
    view = replace(busy(), now=now + INTERVAL_S)
    history = status.document(view)["history"]
    assert (history["latency_p50_s"][-2:], history["latency_p99_s"][-1]) == ([None, pytest.approx(0.2, rel=0.03)], 3.0)
    text = page.html(status.document(view)).decode()
    assert text.count('<polyline points="119,1.0 119.5,1.0"') == 1
    assert text.count('class="minor"') == 1
    assert "total, p99 above p50: 10 min, maximum 3.00 s" in text


# --- metrics ---


def test_histograms_are_the_latencies_of_the_stages() -> None:
    view = busy()
    for stage in (*STAGES, TOTAL):
        latencies = view.figures.latencies[stage]
        name = "sluice_event_latency_seconds"
        buckets = {le: n for (le, of), n in values(view, f"{name}_bucket").items() if of == stage}
        assert list(buckets) == [*map(str, BOUNDS_S), "+Inf"]
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets["+Inf"] == values(view, f"{name}_count")[stage,] == sum(latencies.counts.values()) == 3
        assert isclose(values(view, f"{name}_sum")[stage,], latencies.sum_ms / 1000)
    total = {le: n for (le, of), n in values(view, "sluice_event_latency_seconds_bucket").items() if of == TOTAL}
    assert [total[le] for le in ("0.005", "0.025", "0.1", "0.25", "2.5", "5.0")] == [0, 1, 1, 2, 2, 3]


@given(latencies_ms=st.lists(st.floats(0.1, 1e6), max_size=20))
def test_a_bucket_counts_what_lies_below_it_but_for_two_percent(latencies_ms: list[float]) -> None:
    found = Latencies()
    for ms in latencies_ms:
        found.add(ms)
    *counts, of_all = found.below([1000 * bound for bound in BOUNDS_S])
    assert of_all == len(latencies_ms)
    for bound, count in zip(BOUNDS_S, counts, strict=True):
        assert sum(ms <= 1000 * bound / 1.021 for ms in latencies_ms) <= count
        assert count <= sum(ms <= 1000 * bound * 1.000001 for ms in latencies_ms)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sluice_events_total", {(): 3}),
        ("sluice_read_bytes_total", {(): 30}),
        ("sluice_matched_events_total", {(): 3}),
        ("sluice_matches_total", {(): 9}),
        ("sluice_deliveries_total", {(): 6}),
        ("sluice_deliveries_over_quota_total", {(): 2}),
        ("sluice_transactions_aborted_total", {(): 1}),
        ("sluice_slot_transactions_total", {(): 2}),
        ("sluice_published_bytes_total", {(): 2_000}),
        ("sluice_publish_encoding_seconds_total", {(): 0.5}),
        ("sluice_publish_errors_total", {("NOT_LEADER_FOR_PARTITION", "Produce"): 2}),
        ("sluice_workers_lost_total", {(): 0}),
        ("sluice_workers_hung_total", {(): 0}),
        ("sluice_batches_total", {(): 2}),
        ("sluice_batch_duration_seconds_count", {(): 2}),
        ("sluice_changes_total", {("accepted",): 0, ("rejected",): 0}),
        ("sluice_dead_letters_total", {(reason,): 3 * (reason == "oversize") for reason in REASONS}),
        ("sluice_restarts_total", {(): 2}),
        ("sluice_lag_records", {("0", "events"): 4, ("0", "subs"): 0}),
        ("sluice_position_records", {("0", "events"): 3, ("0", "subs"): 0}),
        ("sluice_ready", {(): 1}),
        ("sluice_standby_ready", {(): 1}),
        ("sluice_healthy", {(): 1}),
        ("sluice_subscriptions", {(): 0}),
        ("sluice_state_saved_timestamp_seconds", {(): 999_400}),
        ("sluice_state_unsaved_seconds", {(): 50}),
        ("sluice_executors", {(): 2}),
        ("sluice_executor_tasks_total", {("0", "one"): 8, ("12", "two"): 5}),
        ("sluice_executor_deliveries_total", {("0", "one"): 4, ("12", "two"): 0}),
        ("sluice_subscriber_deliveries_total", {("ann",): 7}),
        ("sluice_subscriber_delivered_bytes_total", {("ann",): 4_000}),
        ("sluice_subscriber_matches_total", {("ann",): 8}),
        (
            "sluice_subscriber_dead_letters_total",
            {(reason, "ann"): 2 * (reason == "oversize") for reason in OF_DELIVERIES},
        ),
        ("sluice_subscriber_last_event_timestamp_seconds", {("ann",): 999_000.5}),
        ("sluice_jvm_heap_bytes", {("used",): 1, ("max",): 2}),
        ("sluice_processes_resident_bytes", {("jvm",): 5}),
    ],
)
def test_what_prometheus_reads(name: str, expected: Mapping[tuple[str, ...], float]) -> None:
    assert values(busy(), name) == expected


UNITS = ("seconds", "bytes", "ratio", "records", "per_second")
COUNTS = {  # gauges that count things, which they name
    *(
        "sluice_ready",
        "sluice_healthy",
        "sluice_standby_ready",
        "sluice_state_version",
        "sluice_state_segments",
        "sluice_subscriptions",
    ),
    "sluice_executors",
}


def test_names_and_labels_are_as_prometheus_wants_them() -> None:
    view = busy()
    _, text = Exposition(lambda: view).page("")
    described = set(re.findall(r"^# HELP (\S+) .*\S$", text.decode(), re.MULTILINE))
    own = {name: family for name, family in families(view).items() if name.startswith("sluice_")}
    assert len(own) > 30
    for name, family in own.items():
        assert re.fullmatch("[a-z][a-z0-9_]*", name)
        assert {name, f"{name}_total"} & described, f"{name} has no HELP"
        assert family.samples, f"{name} says nothing"
        for sample in family.samples:
            assert not {"subscription", "id"} & sample.labels.keys()
            assert sample.labels.get("subscriber", "ann") == "ann"  # who is listed
            assert all(re.fullmatch("[a-z]+", label) for label in sample.labels)
        if family.type == "counter":
            assert {sample.name for sample in family.samples} == {f"{name}_total"}
        elif name not in COUNTS and name != "sluice_build_info":
            assert name.endswith(UNITS), f"{name} has no unit"
        if family.type == "histogram":
            assert {sample.name.removeprefix(name) for sample in family.samples} == {"_bucket", "_sum", "_count"}


def test_the_process_is_there_too() -> None:
    assert {"process_resident_memory_bytes", "process_cpu_seconds", "python_info"} <= families(busy()).keys()


@pytest.mark.parametrize("accept", ["text/plain;version=x", "application/openmetrics-text; version=1.0.0-rc", "", "?"])
def test_a_version_of_metrics_that_is_none_gets_plain_text(accept: str) -> None:
    kind, text = Exposition(busy).page(accept)
    assert kind.startswith("text/plain")
    assert text.startswith(b"# HELP")


def test_clocks_of_two_machines_never_make_a_stage_negative() -> None:
    latencies = by_stage([999_999_000], 1_000.0, (999.0, 1_000.5, 1_000.6))
    assert all((of.summary()["max"] or 0.0) >= 0 for of in latencies.values())


def test_open_metrics_are_given_to_who_asks_for_them() -> None:
    kind, text = Exposition(busy).page("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_a_label_from_outside_stays_a_label() -> None:
    view = replace(busy(), lag=(Lag('a"b\n\\x 1\nsluice_events_total 9', 0, 0, 1),))
    assert values(view, "sluice_lag_records") == {("0", 'a"b\n\\x 1\nsluice_events_total 9'): 1}


# --- the pipeline counts ---


def test_the_pipeline_says_what_became_of_everything() -> None:
    sink = ListSink(aborts=1)
    p = pipeline(sink, absent={"to.bob"})
    p.observer = reports = Reports()
    step(p, change(0, "a", ALICE), change(1, "b", {"subscriber": "bob", "pattern": {"x": [1]}}), change(2, "c", {}))
    step(p, event(0, {}), event(1, {"x": 1}), event(2, b"{"), event(3, {"x": "1" * 2_000}), most=1)
    sink.aborts = 2
    step(p, event(4, {"x": 1}))
    names = ("changes", "rejected", "deliveries", "undecodable", "transactions_aborted")
    assert [(one.events, *(one.counts[name] for name in names), one.dead_letters) for one in reports.seen] == [
        (0, 2, 1, 0, 0, 1, {"rejected_subscription": 1}),
        (4, 0, 0, 1, 1, 0, {"missing_topic": 1, "undecodable_event": 1}),
        (1, 0, 0, 1, 0, 2, {"missing_topic": 1}),
    ]


def test_the_line_of_a_batch_adds_up_what_its_tasks_published() -> None:
    own = Report(1, 0.0, start=999_999.0)
    assert "publish_error_counts" not in own.fields()
    own.stages.append(Stage("match", own.start, own.start + 2))
    for errors in (PUBLISHED.errors, {"EndTxn NOT_COORDINATOR": 1}, PUBLISHED.errors):
        own.add_task(replace(PUBLISHED, errors=Counter(errors)))
    line = own.fields()
    counts = ("matched_event_count", "match_count", "delivery_count", "undecodable_count", "aborted_transaction_count")
    assert [line[name] for name in counts] == [6, 15, 12, 3, 3]
    assert [line[name] for name in ("slot_transaction_count", "published_bytes", "encode_ms")] == [3, 3_000, 750.0]
    assert line["publish_error_counts"] == {
        "Produce": {"NOT_LEADER_FOR_PARTITION": 4},
        "EndTxn": {"NOT_COORDINATOR": 1},
    }
    assert line["dead_letter_counts"] == {"undecodable_event": 3}


# --- verdicts ---


def test_it_is_ready_when_the_query_runs_and_the_broker_answers() -> None:
    clock, asked = Clock(), Asked(error="the broker is away")
    made = Monitor(ABOUT, TOPICS, asked, clock)
    assert waiting(made.view()) == ["the state is being restored", "no broker response yet"]
    made.enter(STARTING, state())
    made.ask()
    assert waiting(made.view()) == ["the query is being started", "the broker is away"]
    made.enter(RUNNING)
    asked.error = ""
    made.ask()
    assert waiting(made.view()) == []
    asked.error = "away again"
    made.ask()
    assert waiting(made.view()) == []  # it answered a moment ago
    clock.now += BROKER_S + 1
    assert waiting(made.view()) == ["the broker has not answered for 31 s: away again"]
    asked.error = ""
    made.ask()
    made.enter(STOPPING)
    assert waiting(made.view()) == ["the job is stopping"]


def test_it_is_alive_for_as_long_as_the_query_is_seen() -> None:
    clock = Clock()
    made = running(clock)
    clock.now += BEAT_S
    assert ailing(made.view()) == []
    clock.now += 1
    assert ailing(made.view()) == ["no sign of life from the Spark query for 31 s"]
    made.beat(SparkProgress)
    assert ailing(made.view()) == []


@pytest.mark.parametrize("phase", [STARTING, STOPPING])
def test_who_restores_or_stops_may_take_long(phase: str) -> None:
    clock = Clock()
    made = running(clock)
    made.enter(phase)
    clock.now += 1e6
    assert ailing(made.view()) == []


def test_without_batches_it_is_alive_only_while_there_is_nothing_to_read() -> None:
    clock, asked = Clock(), Asked()
    made = running(clock, asked)

    def later(seconds: float) -> list[str]:
        clock.now += seconds
        made.beat(SparkProgress)
        made.ask()
        return ailing(made.view())

    assert later(10_000) == []
    asked.ends = {("events", 0): 5, ("subs", 0): 0}
    assert later(1) == []  # it has only just come
    assert later(300) == []
    assert later(1) == [
        "nothing was committed for 301 s while 5 records wait (monitoring.stalled_after_s = 300)",
    ]
    made.progressed()
    assert later(300) == []
    assert later(1) != []
    assert made._state is not None
    made._state.positions = {(EVENTS, 0): 5, (SUBSCRIPTIONS, 0): 0}
    assert later(0) == []


def test_a_batch_whose_tasks_commit_is_alive_however_long_it_takes_and_one_that_hangs_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, asked = Clock(), Asked({("events", 0): 500, ("subs", 0): 7})
    offsets = {("events", 0): 0}
    wanted: list[Any] = []

    def committed(partitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        wanted.append(partitions)
        if asked.error:
            raise BrokerUnreachable(asked.error)
        return dict(offsets)

    made = Monitor(replace(ABOUT, started_at=clock()), TOPICS, asked, clock, committed)
    made.enter(RUNNING, state({(EVENTS, 0): 0, (SUBSCRIPTIONS, 0): 7}))
    made.doing(3, "match")

    def later(seconds: float) -> tuple[list[str], int]:
        """The reasons of /health, and how many /ready has."""
        clock.now += seconds
        made.beat(SparkProgress)
        made.ask()
        made.look_at_tasks()
        made.look()
        return ailing(made.view()), len(waiting(made.view()))

    assert later(1) == ([], 0)
    with caplog.at_level(logging.INFO, "sluice.monitoring"):
        for n in range(40):
            offsets["events", 0] = n
            assert later(25) == ([], 0)
        assert wanted[0] == [("events", 0)]
        assert not caplog.records
        asked.error = "for a moment"
        made.look_at_tasks()
        asked.error = ""
        assert later(299) == ([], 1)
        made.doing(3, "prepare")
        made.doing(3, "match")  # it is tried again
        stalled = ["nothing was committed for 301 s while 461 records wait (monitoring.stalled_after_s = 300)"]
        assert later(2) == (stalled, 0)
        assert later(40)[1] == 1
        offsets["events", 0] += 1
        assert later(1) == ([], 0)
    events = [(record.getMessage(), record.__dict__["fields"]["stalled_s"]) for record in caplog.records]
    no_progress = "batch_stalled"
    assert events == [
        (no_progress, 299.0),
        ("batch_resumed", 301.0),
        (no_progress, 42.0),
        ("batch_resumed", 43.0),
    ]


def test_the_lag_counts_from_what_tasks_have_committed_though_their_epoch_goes_on() -> None:
    clock, asked = Clock(), Asked({("events", 0): 500, ("subs", 0): 7})
    made = Monitor(ABOUT, TOPICS, asked, clock, lambda _: {("events", 0): 490})
    made.enter(RUNNING, state({(EVENTS, 0): 100, (SUBSCRIPTIONS, 0): 7}))
    made.ask()
    assert [lag.records for lag in made.view().lag] == [400, 0]
    made.doing(3, "match")
    made.look_at_tasks()
    assert [lag.records for lag in made.view().lag] == [10, 0]


def test_what_was_committed_in_another_batch_is_no_progress_of_this_one() -> None:
    clock, asked = Clock(), Asked({("events", 0): 500, ("subs", 0): 0})
    offsets = {("events", 0): 0}
    made = Monitor(replace(ABOUT, started_at=clock()), TOPICS, asked, clock, lambda _: dict(offsets))
    made.enter(RUNNING, state({(EVENTS, 0): 0, (SUBSCRIPTIONS, 0): 0}))
    for batch in (1, 2):
        made.doing(batch, "match")
        offsets["events", 0] += 100
        clock.now += 31
        made.ask()
        made.look_at_tasks()
        assert len(waiting(made.view())) == 1


def test_a_standstill_of_the_broker_is_no_reason_for_a_restart() -> None:
    clock, asked = Clock(), Asked({("events", 0): 5, ("subs", 0): 0})
    made = running(clock, asked)

    def later(seconds: float) -> list[str]:
        clock.now += seconds
        made.beat(SparkProgress)
        made.ask()
        return ailing(made.view())

    assert later(200) == []
    asked.error = "no answer"
    for _ in range(10):
        assert later(100) == []
    asked.error = ""
    assert later(1) == []  # it has as long again
    assert later(300) == []
    assert later(1) != []
    asked.error = "no answer"
    assert later(29) != []  # a moment without an answer begins nothing anew
    asked.error = ""
    assert later(1) != []


def test_a_batch_that_makes_no_progress_is_logged_once_and_the_job_is_not_ready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    made = running(clock)

    def later(seconds: float) -> list[str]:
        """The reasons of /ready; the broker still answers."""
        clock.now += seconds
        made.ask()
        made.look()
        return waiting(made.view())

    with caplog.at_level(logging.INFO, "sluice.monitoring"):
        made.doing(7, "prepare")
        assert later(29) == []
        made.doing(7, "match")
        assert later(30) == []
        assert later(1) == [
            "batch 7 has made no progress in its stage 'match' for 31 s (monitoring.stuck_after_s = 30); check "
            "the brokers, to which tasks publish, and Spark's Python workers (streaming.worker.daemon): a single "
            "stopped worker holds up the whole batch"
        ]
        assert len(later(100)) == 1
        (warning,) = caplog.records
        assert (warning.levelname, warning.getMessage()) == ("WARNING", "batch_stalled")
        fields = warning.__dict__["fields"]
        assert (fields["batch_id"], fields["stage"], fields["stalled_s"]) == (7, "match", 31.0)
        assert fields["hint"].startswith("the brokers")
        assert values(made.view(), "sluice_batch_without_progress_seconds") == {(): 131.0}
        shown = {"batch": 7, "stage": "match", "without_progress_s": 131.0}
        assert status.document(made.view())["in_hand"] == shown
        made.doing(7, "publish")
        assert later(0) == []
        made.idle()
        assert later(1_000) == []
    _, note = caplog.records
    assert (note.levelname, note.getMessage()) == ("INFO", "batch_resumed")
    assert note.__dict__["fields"] == {"batch_id": 7, "stage": "match", "stalled_s": 131.0}


def test_a_large_batch_that_makes_progress_is_ready(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    made = running(clock)
    for _ in range(20):
        for stage in ("prepare", "match", "publish", "publish"):
            made.doing(1, stage)
            clock.now += 30
            made.look()
            made.ask()
            assert waiting(made.view()) == []
    assert not caplog.records


def test_each_batch_that_makes_no_progress_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    made = running(clock)
    with caplog.at_level(logging.INFO, "sluice.monitoring"):
        for number in (1, 2):
            made.doing(number, "match")
            clock.now += 40
            made.look()
    events = [(r.getMessage(), r.__dict__["fields"]["batch_id"]) for r in caplog.records]
    no_progress = "batch_stalled"
    assert events == [(no_progress, 1), ("batch_resumed", 1), (no_progress, 2)]


@pytest.mark.parametrize("phase", [STARTING, STOPPING])
def test_a_batch_of_a_job_that_starts_or_stops_may_take_long(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    made = running(clock)
    made.doing(1, "match")
    made.enter(phase)
    clock.now += 1_000
    made.look()
    assert not caplog.records


def test_a_batch_that_makes_no_progress_is_noticed_by_a_thread_of_the_monitor() -> None:
    """The main thread may wait for Spark as the batch does, and there may be no broker to ask."""
    made = Monitor(replace(ABOUT, stuck_after_s=0), TOPICS)
    made.enter(RUNNING)
    made.doing(1, "match")
    time.sleep(0.01)  # the clock goes on
    with made:
        while not made.view().troubles:
            time.sleep(0.01)
    assert made.view().troubles[0].event == "batch_stalled"


def test_while_events_are_matched_without_an_index_everything_says_so_and_the_job_is_ready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    made = running(clock)
    assert made._state is not None
    made.look()
    assert (verdicts.notes(made.view()), status.document(made.view())["preparation"]) == ([], None)
    assert values(made.view(), "sluice_without_index_seconds") == {(): 0}
    made._state.pending_index = Future()
    for done in range(4):
        made.preparing(COMPILING, done, 14)
        clock.now += 20
    made.ask()
    made.look()
    view = made.view()
    note = "matching without an index, slowly, for 80 s: compiling kernels, 3 of 14 algorithms done, about 200 s left"
    document = status.document(view)
    assert document["ready"] == {"ok": True, "reasons": [], "notes": [note]}
    assert document["preparation"] == {"step": COMPILING, "for_s": 80.0, "done": 3, "of": 14, "left_s": 200.0}
    assert values(view, "sluice_without_index_seconds") == {(): 80}
    assert note in parsed(view)[1].text
    clock.now += 200
    assert verdicts.notes(made.view())[0].endswith("3 of 14 algorithms done")  # later than estimated
    made.doing(1, "match")
    clock.now += 31
    made.ask()
    with caplog.at_level(logging.INFO, "sluice.monitoring"):
        made.look()
        (reason,) = waiting(made.view())
        first = "check the kernels and the index, which are not ready (compiling kernels); then the brokers"
        assert first in reason
        assert caplog.records[0].__dict__["fields"]["hint"] in reason
        made.idle()
        made.preparing(LOADING)
        made.preparing(BUILDING)
        assert [note[-20:] for note in verdicts.notes(made.view())] == ["w: building the index"[-20:]]
        made._state.pending_index = None
        made.look()
        made.look()
    assert verdicts.notes(made.view()) == []
    assert [record.getMessage() for record in caplog.records].count("index_ready") == 1


def test_offsets_without_a_row_count_as_read_once_spark_is_past_them() -> None:
    clock, asked = Clock(), Asked({("events", 0): 5, ("subs", 0): 2})
    made = running(clock, asked)
    assert [lag.records for lag in made.view().lag] == [5, 2]
    clock.now += 10
    made.beat(lambda: SparkProgress(ends={("events", 0): 5, ("subs", 0): 1}))
    assert [lag.records for lag in made.view().lag] == [0, 1]


def test_that_the_broker_is_away_is_logged_once_and_shown() -> None:
    asked = Asked(error="away")
    with monitor(asked=asked) as made:
        while made.view().broker.error is None:
            time.sleep(0.01)
    for _ in range(3):
        made.ask()
    view = made.view()
    assert view.broker.error == "away"
    assert [trouble.event for trouble in view.troubles] == ["end_offsets_unavailable"]


def test_the_last_warnings_are_kept() -> None:
    log = logging.getLogger("sluice.batch")
    with Monitor(ABOUT, TOPICS) as made:
        log.info("nothing")
        for i in range(12):
            log.warning("workers_lost", extra={"fields": {"row_count": i}})
        log.warning("subscriptions_lost", extra={"fields": {"subscription_count": 1, "subscription_ids": ["s1"]}})
        log.warning("workers_lost", extra={"fields": {"row_count": 11}})
    log.warning("too late")
    troubles = made.view().troubles
    assert len(troubles) == 10
    assert troubles[0].message == log_events.EVENTS["workers_lost"].meaning
    assert (troubles[0].level, troubles[0].event, troubles[0].fields) == ("warning", "workers_lost", {"row_count": 11})
    assert troubles[1].fields == {"subscription_count": 1}  # the page of the status needs no token, ids do


# --- status and page ---


def views() -> list[Callable[[], JobView]]:
    def bare() -> JobView:
        return Monitor(replace(ABOUT, past=None), TOPICS, clock=Clock()).view()

    def hostile() -> JobView:
        trouble = Trouble(1.0, HOSTILE, HOSTILE, {HOSTILE: HOSTILE, "more": object()})
        broker = BrokerEnds({}, None, HOSTILE)
        progress = SparkProgress(heap_bytes={HOSTILE: 1})
        about = replace(ABOUT, query=HOSTILE, algorithm=HOSTILE)
        subscribers = SubscribersView(1, False, (SubscriberView(ANN._replace(subscriber=HOSTILE), 1.0),))
        return replace(
            busy(),
            about=about,
            troubles=(trouble,),
            lag=(Lag(HOSTILE, 0, 0, 1),),
            broker=broker,
            progress=progress,
            subscribers=subscribers,
        )

    return [bare, busy, hostile]


@pytest.mark.parametrize("view", views(), ids=lambda view: view.__name__)
def test_the_status_is_json_and_says_what_is_documented(view: Callable[[], JobView]) -> None:
    found = json.loads(status.as_json(status.document(view())))
    assert status.__doc__ is not None
    documented = re.findall(r"^    ([a-z_]+) +\S", status.__doc__, re.MULTILINE)
    assert list(found) == documented
    for key in (key for value in found.values() if isinstance(value, dict) for key in value):
        names = (*re.split(r"[\s,;()]+", status.__doc__), *LABELS, *REASONS, *by_request(PUBLISHED.errors))
        assert key in names or key in (*STAGES, TOTAL) or not key.isascii() or key.startswith("<"), key


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(view: JobView) -> tuple[str, Tags]:
    text = page.html(status.document(view)).decode()
    found = Tags()
    found.feed(text)
    return text, found


@pytest.mark.parametrize("view", views(), ids=lambda view: view.__name__)
def test_no_text_from_outside_becomes_a_part_of_the_page(view: Callable[[], JobView]) -> None:
    text, found = parsed(view())
    assert (found.tags.count("script"), found.tags.count("style")) == (1, 1)
    assert "alert(" not in text or '<script>alert("x")</script>&' in found.text
    assert "<script>alert" not in text
    assert not [a for a in found.attributes if a.startswith("on") or a in ("style", "href", "src")]
    assert "://" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028]|&#", text)


def test_the_page_shows_what_the_status_says() -> None:
    _, found = parsed(busy())
    for shown in ("orders", "oversize", "ready", "alive", "restarts", "last after exit code -9"):
        assert shown in found.text


def test_the_page_shows_the_busiest_subscribers() -> None:
    _, found = parsed(busy())
    assert "Busiest subscribers, last minute" in found.text
    assert "ann1.274.0 kB21970-01-12 13:30:00 UTCbob0110 bytes0-of 2;" in found.text
    assert "none yet" in parsed(replace(busy(), subscribers=SubscribersView()))[1].text
    assert "metrics.topic is empty" in parsed(replace(busy(), subscribers=None))[1].text


def test_labels_name_subscribers_once_the_sums_are_whole() -> None:
    view = busy()
    assert view.subscribers is not None
    for subscribers in (None, replace(view.subscribers, is_whole=False)):
        assert values(replace(view, subscribers=subscribers), "sluice_subscriber_deliveries_total") == {}


def test_totals_are_named_in_words_and_bytes_have_their_unit() -> None:
    _, found = parsed(busy())
    assert LABELS.keys() == status.document(busy())["totals"].keys()
    sizes = ("read30 bytes", "published by tasks2.0 kB", "Produce NOT_LEADER_FOR_PARTITION2")
    assert all(words in found.text for words in (*LABELS.values(), *sizes))
    assert "over_quota" not in found.text


def test_the_reason_for_an_index_has_a_line_of_its_own_and_wraps() -> None:
    view = busy()
    assert view.state is not None
    why = "tiles, because it was the fastest of five for events like those of the last minutes"
    text, _ = parsed(replace(view, state=replace(view.state, index=why)))
    assert f'</table><div class="dim">index: {why}</div></section>' in text


def test_while_the_broker_stands_still_the_lag_is_unknown_and_not_the_last_one() -> None:
    clock, asked = Clock(), Asked({("events", 0): 7, ("subs", 0): 0})
    made = running(clock, asked)
    assert values(made.view(), "sluice_lag_records") == {("0", "events"): 7, ("0", "subs"): 0}
    assert parsed(made.view())[1].text.count("unknown") == 0
    clock.now += 70
    asked.error = "no answer"
    made.ask()
    view = made.view()
    lag = status.document(view)["lag"]
    assert lag[0] == {
        "topic": "events",
        "partition": 0,
        "position": 0,
        "end": None,
        "records": None,
        "unknown_since": 1_000_000.0,
    }
    assert values(view, "sluice_lag_records") == {}
    assert values(view, "sluice_position_records") == {("0", "events"): 0, ("0", "subs"): 0}
    assert "unknown since 1970-01-12 13:46:40 UTC" in parsed(view)[1].text
    many = replace(view, lag=tuple(Lag("orders.in", n, 0, n) for n in range(100)))
    assert "90 othersunknown" in parsed(many)[1].text
    asked.error = ""
    made.ask()
    assert status.document(made.view())["lag"][0]["records"] == 7
    assert values(made.view(), "sluice_lag_records") == {("0", "events"): 7, ("0", "subs"): 0}


def test_the_title_says_whether_somebody_should_look() -> None:
    clock, asked = Clock(), Asked()
    made = monitor(clock, asked)
    made.ask()
    titles = [parsed(made.view())[0]]
    made.enter(RUNNING)
    titles.append(parsed(made.view())[0])
    clock.now += BEAT_S + 1
    made.ask()
    titles.append(parsed(made.view())[0])
    for text, title in zip(titles, ("not ready", "running", "not alive"), strict=True):
        assert f"<title>orders: {title}</title>" in text


def test_without_scripts_the_page_is_loaded_again_all_the_same() -> None:
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in parsed(busy())[0]


def test_many_partitions_do_not_make_the_page_long() -> None:
    _, found = parsed(replace(busy(), lag=tuple(Lag("orders.in", n, 0, n) for n in range(100))))
    assert found.text.count("orders.in") == SHOWN_PARTITIONS
    assert "90 others" in found.text


@pytest.mark.parametrize(
    ("s", "written"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (9.994, "9.99 s"),
        (9.996, "10.0 s"),
        (99.96, "100 s"),
        (7_200.0, "7,200 s"),
    ],
)
def test_times_have_three_digits_or_so(s: float | None, written: str) -> None:
    assert seconds(s) == written


def test_the_policy_allows_the_script_and_style_that_are_there_and_nothing_else() -> None:
    text = page.html(status.document(busy())).decode()
    for tag in ("style", "script"):
        inline = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        assert f"{tag}-src {hash_of(inline)};" in POLICY
    assert POLICY.startswith("default-src 'none'; ")
    assert "unsafe" not in POLICY


# --- memory ---


def test_memory_is_by_what_processes_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def process(pid: int, name: str, parent: int, pages: int, *command: str) -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text("".join(f"{word}\0" for word in command))
        rest = ["S", str(parent), *["0"] * 40]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(rest)}\n")
        (tmp_path / str(pid) / "statm").write_text(f"0 {pages} 0 0 0 0 0\n")

    (tmp_path / "stat").write_text("btime 0\n")
    for pid, name, parent, pages in (
        *((10, "python", 1, 100), (11, "java", 10, 20), (12, "python (x) y", 11, 3), (13, "python", 12, 4)),
        *((14, "python", 10, 5), (15, "other", 1, 1_000)),
    ):
        process(pid, name, parent, pages)
    process(16, "python", 10, 30, "python", "-m", "streaming.worker.daemon", "--preload", "5")
    process(17, "python", 16, 40, "python -m streaming.worker.daemon --preload 5")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    found = {kind: size // os.sysconf("SC_PAGE_SIZE") for kind, size in resident_bytes(10).items()}
    assert found == {"jvm": 20, "workers": 77, "other": 5}


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = {*threading.enumerate()}  # of other tests, which may end meanwhile
    yield
    assert {*threading.enumerate()} <= before
