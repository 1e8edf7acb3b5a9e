"""`bench system`: tables of the outcomes of several systems, and systems that are stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.baselines import udf, udf_by_symbol
from bench.commands import app
from bench.system import kernels, run
from bench.system import ramp as ramp_module
from bench.system.baseline import of_known_events
from bench.system.flink import CHECKPOINT_INTERVAL_MS
from bench.system.kafka_streams import COMMIT_INTERVAL_MS
from bench.system.ramp import Row, draw, markdown, ramp, table
from bench.system.run import SYSTEMS, Course, Outcome
from bench.system.sluice import JobLog, Sluice
from bench.system.spark_alone import APPLICATIONS, Application
from bench.system.sustained import CRITERION, Verdict
from rig import reading
from rig.check import Answer, Changes, Deliveries, Events, check, from_the_start
from rig.load import Load
from streaming.errors import JobError
from streaming.latencies import STAGES, TOTAL, Latencies
from tests.unit.rig.test_check import right

LOAD = Load(subscriptions=1_000, symbols=10, events_per_second=100.0, minutes=1 / 60)
QUANTILES = {"p50": 12.0, "p95": 30.0, "p99": 40.0, "max": 41.0}
CPU = {"driver JVM": 0.2, "Python workers": 0.1, "broker": 0.1}


STEADY, BEHIND = Verdict(1.0, (15.0, 12.0, 12.5), grows=False), Verdict(0.877, (900.0, 1_200.0, 2_000.0), grows=True)


def outcome(
    load: Load,
    drain_s: float | None,
    done: int = 100,
    answer: Answer | None = None,
    verdict: Verdict | None = STEADY,
    warm_up: int = 0,
) -> Outcome:
    figures = {
        "events": 100,
        "events_done": done,
        "events_of_warm_up": warm_up,
        "done_s": 2.0,
        "drain_s": drain_s,
        "start_s": 5.0,
        "latency_ms": {"follower_second_half": QUANTILES if done else dict.fromkeys(QUANTILES)},
        "cpu_s": CPU,
        "memory_mb": {"driver JVM": {"end": 300.0}},
    }
    return Outcome(load, answer or right(done), 0, figures, verdict)


def test_a_row_of_a_system_that_was_done() -> None:
    row = Row.of("join", outcome(LOAD, drain_s=1.0))
    assert (row.right, row.sustained, row.events_per_second, row.deliveries_per_event) == (True, True, 100.0, 1.0)
    assert row.cpu_us_per_event == {"driver JVM": 2_000.0, "Python workers": 1_000.0, "broker": 1_000.0}
    assert row.as_data()["system"] == "join"
    assert row.thirds_ms == (15.0, 12.0, 12.5)
    assert row.undelivered_events == 0
    behind = Row.of("join", outcome(LOAD, drain_s=1.0, verdict=BEHIND))
    assert (behind.sustained, behind.events_per_second) == (False, 87.7)
    short = Row.of("join", outcome(LOAD, drain_s=1.0, verdict=None))
    assert (short.sustained, short.events_per_second, short.thirds_ms) == (None, 50.0, None)


def test_what_was_done_in_the_warm_up_is_in_no_figure() -> None:
    row = Row.of("join", outcome(LOAD, drain_s=1.0, done=100, answer=right(150), warm_up=50))
    assert (row.right, row.events_per_second, row.deliveries_per_event) == (True, 100.0, 1.0)
    assert row.cpu_us_per_event["broker"] == 1_000.0


def test_a_row_of_a_system_that_was_stopped_is_about_what_it_did() -> None:
    row = Row.of("udf", outcome(LOAD, drain_s=None, done=30))
    assert (row.right, row.sustained, row.events_per_second, row.deliveries_per_event) == (True, False, 15.0, 1.0)
    assert row.as_data()["undelivered_events"] == 70
    assert row.cpu_us_per_event == {}
    nothing = Row.of("udf", outcome(LOAD, drain_s=None, done=0))
    assert (nothing.sustained, nothing.events_per_second, nothing.latency_ms["p99"]) == (False, 0.0, None)


ROWS = [
    Row.of("sluice", outcome(LOAD, 1.0)),
    Row.of("join", outcome(LOAD, 4.0, verdict=BEHIND)),
    Row.of("join", outcome(LOAD, 4.0, verdict=None)),
    Row.of("udf", outcome(LOAD, None, done=0)),
    Row.of("udf", outcome(LOAD, None, done=30)),
    Row.of("udf_by_symbol", outcome(LOAD, 1.0, answer=right(100, twice=1))),
]
TEXTS = [
    ["sluice", "1,000", "100", "100", "yes", "12", "30", "40", "4,000", "3,000"],
    ["join", "1,000", "100", "88", "no", "12", "30", "40", "4,000", "3,000"],
    ["join", "1,000", "100", "50", "short", "12", "30", "40", "4,000", "3,000"],
    ["udf", "1,000", "100", "0", "no", "-", "-", "-", "-", "-"],
    ["udf", "1,000", "100", "15", "no", "≥ 12", "≥ 30", "≥ 40", "-", "-"],
    ["udf_by_symbol", "1,000", "100", "100", "WRONG", "12", "30", "40", "4,000", "3,000"],
]


def test_the_tables_have_a_row_for_each_system() -> None:
    head, line, *lines, empty, criterion = markdown(ROWS).splitlines()
    assert (empty, criterion) == ("", CRITERION)
    assert table(ROWS).caption == CRITERION
    assert head.startswith("| system | subscriptions | events/s | done/s |")
    assert line.startswith("| --- | ---: |")
    assert [[text.strip() for text in one.strip("|").split("|")] for one in lines] == TEXTS
    assert [list(column.cells) for column in table(ROWS).columns] == [
        list(column) for column in zip(*TEXTS, strict=True)
    ]


def test_the_picture_has_a_line_for_each_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    lines: list[Any] = []
    plot = Axes.plot

    def labelled(*arguments: Any, **named: Any) -> Any:
        lines.append(named.get("label"))
        return plot(*arguments, **named)

    monkeypatch.setattr(Axes, "plot", labelled)
    draw(ROWS, tmp_path / "system.png")
    systems = dict.fromkeys(row.system for row in ROWS)
    assert [label for label in lines if label] == [f"{system}, 1,000 subscriptions" for system in systems]
    assert (tmp_path / "system.png").stat().st_size > 1_000


def test_each_system_has_its_rates_until_one_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    most = {"sluice": 300, "join": 150}

    def measured(load: Load, flags: Mapping[str, str], tell: run.Tell, name: str, broker: Mapping[str, str]) -> Outcome:
        return outcome(load, drain_s=0.0 if load.events_per_second <= most[name] else None)

    monkeypatch.setattr(ramp_module, "run", measured)
    rows = list(ramp(LOAD, ["sluice", "join"], [1_000, 2_000], [400, 100, 200, 300], {}, lambda _: None))
    found = [(row.load.subscriptions, row.system, row.load.events_per_second, row.sustained) for row in rows]
    assert found == [
        (n, name, rate, rate <= most[name])
        for n in (1_000, 2_000)
        for name, rates in (("sluice", (100, 200, 300, 400)), ("join", (100, 200)))
        for rate in rates
    ]


class Slow:
    """A system that does ten events at once after so many seconds, and no more. It is the clock as well."""

    patience_s: float | None = 60.0
    pid = 0

    def __init__(self, batch_s: float) -> None:
        self._batch_s = batch_s
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds

    def check(self) -> None: ...

    def progress(self) -> str:
        return ""

    def done(self) -> tuple[int, int]:
        return 10 * (self._now >= self._batch_s), LOAD.subscriptions

    def midpoint(self) -> None: ...


def child(**report: Any) -> Any:
    return SimpleNamespace(report=report, check=lambda: None)


@pytest.mark.parametrize(
    ("written", "batch_s", "course"),
    [
        (10, 2.0, Course(10, 2.0, 2.0)),
        (100, 2.0, Course(10, 2.0, None)),
        (100, 90.0, Course(10, 90.0, None)),  # its time was over, but no batch had ended
        (100, 1_000.0, Course(0, 0.0, None)),
    ],
)
def test_a_system_is_stopped_when_its_time_is_over(
    written: int, batch_s: float, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: Any = Slow(batch_s)
    monkeypatch.setattr(run, "time", slow)
    usage: Any = SimpleNamespace(samples=[(0.0, {})])
    watch = run._Watch(LOAD, slow, child(events=written, done=True), child(), {}, lambda _: None)
    found = watch._until_done("done", usage)
    assert found.events == course.events
    assert found.done_s == pytest.approx(course.done_s, abs=0.2)
    assert found.drain_s == (None if course.drain_s is None else pytest.approx(course.drain_s, abs=0.2))


STOPPED = "enough was seen"


@pytest.mark.parametrize(("system", "compiled"), [("sluice", ["scan"]), ("join", [])])
def test_the_kernels_of_the_job_are_compiled_before_anything_is_measured(
    system: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def child(*_: Any) -> Any:
        raise JobError(STOPPED)

    here = SimpleNamespace(settings=SimpleNamespace(matching=SimpleNamespace(algorithm="scan")), writing=lambda _: {})
    asked: list[str] = []
    monkeypatch.setattr(run, "place", lambda *_, **__: nullcontext(here))
    monkeypatch.setattr(run, "compile_kernels", lambda algorithm, tell: asked.append(algorithm))
    monkeypatch.setattr(run, "Child", child)
    with pytest.raises(JobError, match=STOPPED):
        run.run(LOAD, {}, lambda _: None, system)
    assert asked == compiled


def test_kernels_are_compiled_once_in_a_process_and_that_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    told: list[str] = []
    results = iter([1, 0])

    def done(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(returncode=next(results), stderr="no room")

    monkeypatch.setattr(kernels, "subprocess", SimpleNamespace(run=done))
    with pytest.raises(JobError, match="ended with exit code 1:\nno room"):
        kernels.compile_kernels("hem", told.append)
    for _ in range(2):
        kernels.compile_kernels("hem", told.append)
    assert [command[-2:] for command in commands] == [["warm", "hem"]] * 2
    assert told == ["compiling the kernels of hem, if any are left"] * 2


def batch_finished(events: int, ms: float) -> dict[str, Any]:
    latencies = Latencies()
    latencies.add(ms, events)
    histograms = {stage: latencies.to_json() for stage in (*STAGES, TOTAL)}
    line = {"event": "batch_finished", "state_version": 7, "event_count": events}
    return {**line, "latency_histograms": histograms}


def test_what_the_job_did_in_the_warm_up_is_in_no_figure_of_its_log() -> None:
    sluice = Sluice.__new__(Sluice)
    logged = [[batch_finished(10, 900.0)], [batch_finished(5, 800.0)], [batch_finished(20, 30.0)]]
    job: Any = SimpleNamespace(new_lines=lambda: logged.pop(0))
    sluice._job, sluice._job_log = job, JobLog()
    assert sluice.done() == (10, 7)
    sluice.load_begins()
    assert sluice.done() == (35, 7)
    assert sluice._job_log.batches == 1
    assert {stage: latencies.max_ms for stage, latencies in sluice._job_log.latencies.items()} == dict.fromkeys(
        (*STAGES, TOTAL), 30.0
    )


def test_what_was_due_in_the_warm_up_is_in_no_latency() -> None:
    due_s, late_s = run._of_load([900.0, 1_000.0, 1_500.0], [5.0, 6.0, 7.0], began_ms=1_000.0)
    assert (due_s.tolist(), late_s.tolist()) == ([0.0, 0.5], [0.006, 0.007])


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--systems", "sluice,jion"], "unknown system 'jion'; did you mean 'join'?"),
        (
            ["--systems", "join", "--layout", "topic_per_subscriber"],
            "the baselines on Spark only support --layout shared",
        ),
    ],
)
def test_systems_that_cannot_be_measured_are_rejected(flags: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, ["system", *flags], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert reason in done.output


def test_each_application_is_a_file() -> None:
    files = {file.stem for file in (Path(run.__file__).parents[1] / "baselines").glob("*.py")}
    assert files == {"__init__", "topics", *APPLICATIONS}
    assert list(SYSTEMS) == ["sluice", *APPLICATIONS, *COMMIT_INTERVAL_MS, *CHECKPOINT_INTERVAL_MS]


def test_an_application_is_done_with_what_its_last_batch_reached(tmp_path: Path) -> None:
    application = Application.__new__(Application)
    application._checkpoint, application._subscriptions = tmp_path, 7
    assert application._batches() == []
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for batch, positions in enumerate(({"0": 0, "1": 0}, {"0": 3, "1": 4}, {"0": 30, "1": 40})):
        text = f"v1\n{{}}\n{json.dumps({'events': positions})}"
        (tmp_path / "offsets" / str(batch)).write_text(text)
    for name in ("0", "1", ".1.crc", ".2.tmp"):
        (tmp_path / "commits" / name).touch()
    assert application.done() == (7, 7)  # batch 2 is planned, not done


def test_both_udfs_find_what_a_join_would() -> None:
    rng = np.random.default_rng(4)
    subscriptions = [
        (f"s{id}", f"r{who}", f"S{symbol}", low, low + 5, least, least + 5)
        for id, (who, symbol, low, least) in enumerate(rng.integers((3, 2, 8, 8), size=(30, 4)).tolist())
    ]
    index = udf_by_symbol.by_symbol(subscriptions)
    several = 0
    for symbol, price, volume in rng.integers((3, 13, 13), size=(100, 3)).tolist():
        expected: dict[str, list[str]] = {}
        for id, who, wanted, low, _, least, _ in subscriptions:
            if wanted == f"S{symbol}" and price in range(low, low + 5) and volume in range(least, least + 5):
                expected.setdefault(who, []).append(id)
        assert udf.matches(subscriptions, f"S{symbol}", price, volume) == expected
        assert udf_by_symbol.matches(index, f"S{symbol}", price, volume) == expected
        several += any(len(ids) > 1 for ids in expected.values())
    assert several > 10


def record(**fields: Any) -> Any:
    return SimpleNamespace(**{name: lambda value=value: value for name, value in fields.items()})


def topics(monkeypatch: pytest.MonkeyPatch, records: Mapping[str, list[Any]]) -> None:
    def read(cluster: Any, names: list[str]) -> Iterator[Any]:
        return iter([one for name in names for one in records[name]])

    monkeypatch.setattr(reading, "_committed", read)


def test_of_a_system_that_was_stopped_only_what_it_was_done_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    value = b'{"symbol":"S1","price":5,"volume":7}'
    events = [record(partition=p, offset=o, key=None, value=value, topic="events") for p in (0, 1) for o in range(3)]
    delivered = [
        record(
            key=b"r1",
            value=value,
            headers=[("ce_id", f"events-{p}-{o}".encode()), ("ce_subscriptionids", b'["s0"]')],
        )
        for p, o in ((0, 0), (0, 1), (1, 0), (1, 2))  # the last is of the batch in which it was stopped
    ]
    topics(monkeypatch, {"events": events, "deliveries": delivered})
    changes = _changes([(0, 1, 1, 0, 10, 0, 10)])
    cluster: Any = SimpleNamespace(topics=lambda: SimpleNamespace(partitions=lambda: {"events": 2}))

    def checked(done: Mapping[int, int]) -> Answer:
        events = reading.read_events(cluster, "events", done)
        deliveries = of_known_events(reading.read_deliveries(cluster, ["deliveries"], events, None), version=1)
        return check(changes, from_the_start(changes, 2), events, deliveries)

    assert checked({0: 2, 1: 1}) == right(3)
    answer = checked({0: 2, 1: 2})
    assert (answer.expected, answer.missing) == (4, 1)


def test_subscriptions_that_were_there_from_the_start_count_for_all_events() -> None:
    rng = np.random.default_rng(2)
    subscriptions = [
        (id, *rng.integers((3, 2)).tolist(), low, low + 5, least, least + 5)
        for id, (low, least) in enumerate(rng.integers((8, 8), size=(20, 2)).tolist())
    ]
    events = rng.integers((2, 10, 10), size=(40, 3)).astype(np.int32)
    found: dict[tuple[int, int], list[int]] = {}
    for number, (symbol, price, volume) in enumerate(events.tolist()):
        for id, who, wanted, low, high, least, most in subscriptions:
            if wanted == symbol and low <= price < high and least <= volume < most:
                found.setdefault((number, who), []).append(id)
    changes = _changes(subscriptions)
    event, subscriber = (np.array(numbers) for numbers in zip(*found, strict=True))
    deliveries = Deliveries(
        event.astype(np.int64),
        subscriber.astype(np.int32),
        np.full(len(found), len(subscriptions)),
        event.astype(np.uint32),
        np.append(0, np.cumsum([len(ids) for ids in found.values()])),
        np.array([id for ids in found.values() for id in ids], np.int32),
    )
    seen = Events(np.array([0, 25, 40]), events[:, 0], events[:, 1:], np.arange(40, dtype=np.uint32))
    assert check(changes, from_the_start(changes, 2), seen, deliveries) == right(len(found))
    assert len(found) > 20


def _changes(rows: list[tuple[int, ...]]) -> Changes:
    """(id, subscriber, symbol, low, high, least, most), all in the first of two partitions."""
    a = np.array(rows, np.int32)
    n = len(rows)
    return Changes(np.array([0, n, n]), a[:, 0], a[:, 1], a[:, 2], a[:, [3, 5]], a[:, [4, 6]], np.zeros(n, np.int64))
