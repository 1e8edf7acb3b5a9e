"""Traces as a real collector receives them over HTTP."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.common.http import _OTLPHTTPClient
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Kinds

from config import Settings
from rig.broker import free_port
from streaming.documents.trace_context import TRACED_EVENTS
from streaming.driver import assembly
from streaming.driver.isolation import WorkersLost
from streaming.monitoring import tracing
from streaming.monitoring.reporting import CommittedTransaction, Observer, Observers, Report, Stage
from streaming.monitoring.tracing import Traces
from streaming.rows import EVENTS, SUBSCRIPTIONS, CommitTimes, Published, ReadProgress, Row
from streaming.version import VERSION
from tests.support.doubles.collector import Collector, Span, collector
from tests.support.doubles.stage import ALICE, ListSink, Reports, apply, change, event, pipeline, state, step, work
from tests.support.logged import fields_of
from tests.support.patience import PATIENCE_S, until

HOME = Path(__file__).resolve().parents[4]
NOON = 1_750_000_000.0  # epoch s
SOME_TRACE, SOME_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")  # ms
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", f"{PATIENCE_S:g}")
    monkeypatch.setattr(f"{_OTLPHTTPClient.__module__}._OTLPHTTPClient._compute_backoff", lambda *_: 0.01)  # s
    monkeypatch.setattr(tracing, "LAST_S", PATIENCE_S)


@pytest.fixture
def receiver() -> Iterator[Collector]:
    with collector() as one:
        yield one


def traces(address: str) -> Traces:
    return Traces(address, "orders", "events", "subs")


def rows(events: int, changes: int) -> list[Row]:
    at_ms = round(1000 * (NOON - 2))
    return [
        ReadProgress(EVENTS, 0, events, records=events, size_bytes=10 * events, timestamp_ms=at_ms),
        ReadProgress(SUBSCRIPTIONS, 0, changes, records=changes, size_bytes=changes, timestamp_ms=at_ms),
    ]


PUBLISHED = Published(
    commits=1,
    met=3,
    attributes=12,
    batches=9,
    events=2,
    matches=2,
    deliveries=1,
    over_quota=0,
    dead_letters=Counter(oversize=2),
    aborted=3,
    size_bytes=100,
    partitions=1,
    encoded_s=0.01,
    transactions=[CommitTimes(NOON + 0.75, NOON + 0.8, NOON + 0.85)],
)


def report(number: int = 1) -> Report:
    """Return the report of a batch in two pieces: workers were lost once; a task published, and after it the driver."""
    own = Report(number, 0.0, start=NOON)
    own.stages += [
        Stage("measure", NOON + 0.1, NOON + 0.2),
        Stage("prepare", NOON + 0.2, NOON + 0.3),
        Stage("match", NOON + 0.3, NOON + 0.6, "MemoryError \ud800"),
        Stage("prepare", NOON + 0.6, NOON + 0.7),
        Stage("match", NOON + 0.7, NOON + 0.9),
    ]
    own.saw(rows(events=2, changes=1))
    own.add_task(PUBLISHED)
    own.add(CommittedTransaction([], {}, 0, NOON + 1.4, NOON + 1.5, NOON + 1.6, NOON + 1.7))
    own.counts["workers_lost"] = 1
    own.state = {"version": 7, "subscriptions": 5, "segments": 2}
    own.fields()
    own.ended = NOON + 1.8
    return own


def of(rows: list[Row]) -> Report:
    own = Report(1, 0.0, start=NOON, ended=NOON + 2)
    own.stages.append(Stage("match", NOON, NOON + 1))
    own.saw(rows)
    for row in rows:
        if isinstance(row, Published):
            own.add_task(replace(row, transactions=[CommitTimes(NOON, NOON, NOON)] * len(row.transactions)))
    return own


def sent(receiver: Collector, *reports: Report) -> list[Span]:
    with traces(receiver.url) as observer:
        for one in reports:
            observer.batch(one)
    return [span for trace in receiver.traces().values() for span in trace]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was logged at level INFO and above."""
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.levelno >= logging.INFO]


def test_a_batch_is_a_trace_of_its_stages(receiver: Collector) -> None:
    root, *others = sent(receiver, report())
    names = {span.id: span.name for span in (root, *others)}
    assert (root.name, root.parent_id, root.error) == ("batch", b"", None)
    assert [(span.name, names[span.parent_id]) for span in others] == [
        ("measure", "batch"),
        ("prepare", "batch"),
        ("match", "batch"),
        ("prepare", "batch"),
        ("match", "batch"),
        ("publish", "match"),
        ("send", "publish"),
        ("commit", "publish"),
        ("publish", "batch"),
        ("send", "publish"),
        ("commit", "publish"),
        ("apply", "batch"),
    ]
    assert [span.error for span in others if span.name == "match"] == ["MemoryError ?", None]
    kinds = {span.name: span.kind for span in (root, *others)}
    assert kinds == dict.fromkeys(("measure", "prepare", "match", "publish", "apply"), Kinds.SPAN_KIND_INTERNAL) | {
        "batch": Kinds.SPAN_KIND_CONSUMER,
        "send": Kinds.SPAN_KIND_PRODUCER,
        "commit": Kinds.SPAN_KIND_CLIENT,
    }


def test_times_are_true_and_lie_within_those_of_the_parent(receiver: Collector) -> None:
    found = sent(receiver, report())
    by_id = {span.id: span for span in found}
    root, *others = found
    assert [round(t / 1e9 - NOON, 3) for t in (root.start_ns, root.end_ns)] == [0.0, 1.8]
    commits = [
        (round(s.start_ns / 1e9 - NOON, 3), round(s.end_ns / 1e9 - NOON, 3)) for s in others if s.name == "commit"
    ]
    assert commits == [(0.8, 0.85), (1.5, 1.6)]
    for span in others:
        assert by_id[span.parent_id].start_ns <= span.start_ns <= span.end_ns <= by_id[span.parent_id].end_ns
    for one, next_one in pairwise(span for span in others if span.parent_id == root.id):
        assert one.end_ns <= next_one.start_ns


def test_the_root_says_what_the_batch_did(receiver: Collector) -> None:
    root, *others = sent(receiver, report(number=42))
    assert root.facts == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 3,
        "messaging.consumer.group.name": "orders",
        "sluice.batch": 42,
        "sluice.bytes": 21,
        "sluice.waited_ms": 2_000.0,
        "sluice.false_positives": 0.0,
        "sluice.rows.events": 2,
        "sluice.rows.subscriptions": 1,
        "sluice.matched": 2,
        "sluice.matches": 2,
        "sluice.deliveries": 1,
        "sluice.undecodable": 0,
        "sluice.changes": 0,
        "sluice.rejected": 0,
        "sluice.over_quota": 0,
        "sluice.workers_lost": 1,
        "sluice.workers_hung": 0,
        "sluice.transactions_aborted": 3,
        "sluice.deleted_unread": 0,
        "sluice.slot_transactions": 1,
        "sluice.published_bytes": 100,
        "sluice.dead_letters.oversize": 2,
        "sluice.state.version": 7,
        "sluice.state.subscriptions": 5,
        "sluice.state.segments": 2,
    }
    facts = {span.name: span.facts for span in others}
    assert facts["send"]["messaging.operation.type"] == "send"
    assert facts["commit"]["messaging.operation.type"] == "settle"
    assert {name: root.resource[name] for name in ("service.name", "service.version")} == {
        "service.name": "orders",
        "service.version": VERSION,
    }
    assert root.resource["service.instance.id"]


@pytest.mark.parametrize(("given", "topic"), [(rows(1, 0), "events"), (rows(0, 1), "subs"), (rows(1, 1), None)])
def test_a_destination_is_named_if_all_rows_are_of_it(receiver: Collector, given: Any, topic: str | None) -> None:
    root, *_ = sent(receiver, of(given))
    assert root.facts.get("messaging.destination.name") == topic


def test_each_batch_has_a_trace_of_its_own(receiver: Collector) -> None:
    sent(receiver, report(1), report(2))
    found = receiver.traces().values()
    assert sorted(trace[0].facts["sluice.batch"] for trace in found) == [1, 2]
    assert {len(trace) for trace in found} == {13}


def header(value: bytes | None, name: str = "traceparent") -> list[dict[str, Any]]:
    return [{"key": "other", "value": b"x"}, {"key": name, "value": value}]


PARENT = f"00-{SOME_TRACE}-{SOME_SPAN}-01".encode()
GOOD = header(PARENT)
BAD: tuple[Any, ...] = (None, [], header(None), header(b"\xff"), header(b"00-0-0-00"), header(PARENT, "Traceparent"))


@pytest.mark.parametrize(
    ("transactions", "links"),
    [
        ([BAD], 0),
        ([[*BAD, GOOD]], 1),
        ([[GOOD] * (TRACED_EVENTS + 5)], TRACED_EVENTS),
        ([[*[None] * TRACED_EVENTS, GOOD]], 0),
        ([[GOOD] * (TRACED_EVENTS - 1), [None, GOOD, GOOD]], TRACED_EVENTS),
        ([[None] * (TRACED_EVENTS + 5), [GOOD]], 1),
    ],
)
def test_a_batch_links_to_the_traces_of_the_first_events_of_its_transactions(
    receiver: Collector, transactions: Any, links: int
) -> None:
    subscribed = state()
    apply(subscribed, [change(0, "a", ALICE)])
    batches = [[event(0, {"x": 1}, headers=headers) for headers in transaction] for transaction in transactions]
    root, *_ = sent(receiver, of(work(subscribed, *batches)))
    assert root.links == [(bytes.fromhex(SOME_TRACE), bytes.fromhex(SOME_SPAN))] * links


def test_stages_of_transactions_follow_each_other() -> None:
    p = pipeline(ListSink(aborts=1))
    step(p, change(0, "s1", ALICE))
    p.observer = reports = Reports()
    step(p, event(0, {"x": 1}), event(1, {"x": 1}), change(1, "s2", ALICE), most=1)
    (own,) = reports.seen
    assert [stage.name for stage in own.stages] == ["prepare", "match", "publish", "apply"]
    assert [part.name for part in own.stages[1].parts] == ["publish"] * 2
    times = [t for stage in own.stages for leaf in leaves(stage) for t in (leaf.began, leaf.ended)]
    assert times == sorted(times)
    assert times[0] >= own.start


def leaves(stage: Stage) -> list[Stage]:
    return [leaf for part in stage.parts for leaf in leaves(part)] if stage.parts else [stage]


def test_a_stage_that_fails_says_why() -> None:
    own = Report(1, 0.0)
    with pytest.raises(WorkersLost), own.stage("match"):
        raise WorkersLost("no memory", again=True)
    (stage,) = own.stages
    assert (stage.name, stage.failed) == ("match", "no memory")


@pytest.mark.parametrize("status", [404, 503])
def test_a_collector_that_rejects_and_then_takes_is_told_of_once_each(
    receiver: Collector, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sluice")
    receiver.status = status
    with traces(receiver.url) as observer:

        def batch(n: int) -> None:
            before = receiver.requests
            observer.batch(report(n))
            until(lambda: receiver.requests > before)

        def taken() -> bool:
            observer.batch(report(9))
            return bool(receiver.spans)

        for n in range(3):
            batch(n)
        until(lambda: lines(caplog))
        receiver.status = 200
        until(taken)
        until(lambda: len(lines(caplog)) == 2)
    assert lines(caplog) == [("WARNING", "trace_export_failed"), ("INFO", "trace_export_recovered")]
    (warning, _) = [r for r in caplog.records if r.levelno >= logging.INFO]
    assert fields_of(warning)["endpoint"] == receiver.url
    assert ("Not Found" if status == 404 else "Service Unavailable") in fields_of(warning)["error"]


def test_a_collector_that_is_not_there_costs_one_warning(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with traces(f"http://127.0.0.1:{free_port()}/v1/traces") as observer:
        for n in range(1_000):  # more spans than may wait
            observer.batch(report(n))
        until(lambda: lines(caplog))
        observer.batch(report())
    assert lines(caplog) == [("WARNING", "trace_export_failed")]
    assert "refused" in fields_of(caplog.records[-1])["error"]
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("opentelemetry").propagate


def test_a_collector_that_does_not_answer_holds_up_neither_batches_nor_the_end(
    receiver: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "LAST_S", 0.1)
    receiver.open.clear()
    with traces(receiver.url) as observer:
        observer.batch(report())
        until(lambda: receiver.requests)
        observer.batch(report())
    (ending,) = [thread for thread in threading.enumerate() if thread.name == "sluice-traces"]
    receiver.open.set()
    ending.join()


def test_what_waits_at_the_end_is_sent(receiver: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    assert len(sent(receiver, report())) == 13
    assert "sluice-traces" not in {thread.name for thread in threading.enumerate()}


def test_the_job_tells_traces_of_its_batches_if_it_is_to(receiver: Collector) -> None:
    nobody = Observer()
    monitor: Any = nobody
    with ExitStack() as last:
        assert assembly.observer(Settings(), monitor, last) is nobody
        settings = Settings.model_validate({"monitoring": {"traces": receiver.url}, "query": {"name": "q"}})
        observer = assembly.observer(settings, monitor, last)
        assert isinstance(observer, Observers)
        observer.progressed()
        observer.batch(report())
    assert {span.resource["service.name"] for span in receiver.spans} == {"q"}


def test_who_wants_no_traces_loads_nothing_of_opentelemetry() -> None:
    code = (
        "import sys, run_stream, streaming.driver.job; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
