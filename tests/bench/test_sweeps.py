"""`bench sweep`: the papers' experiments at a toy size, as files."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from typer.testing import CliRunner, Result

import run_stream
from bench.matching import memory, turns
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.matching.measurement import Measurement
from bench.matching.updating import update_times
from bench.papers import PAPERS, pcm, sweeps, tables
from bench.papers.draw import draw
from bench.papers.figures import METRICS, UPDATES, Figure, Point, Ratio, Value, lines, over, over_option
from bench.papers.sweeps import Row
from bench.workloads.distributions import UNIFORM, Distribution
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, Algorithm, EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.algorithms import wpa_rein
from matchers.algorithms.wpa_rein.matching_time import UnitTimes
from matchers.papers.updates import UPDATABLE

NORMAL = Distribution("normal", 0.02)
QUICK = Effort(seconds=0.0, rounds=1, batch=1, settling_s=0.0)
TOY = Figure(
    "toy",
    "1",
    "A toy",
    "n, subscriptions",
    over("subscriptions", (1_000, 2_000)),
    Workload(attributes=4, predicates=(2, 2), events=3),
    lines("scan", "counting", "nobody"),
    metrics=("us", "memory"),
    stated=(
        Value("scan", 1_000, 10.0),
        Value("scan", None, 20.0, scope="elsewhere"),
        Ratio("scan", "counting", 2.0),
        Ratio("counting", "counting", 0.5, 2_000, 1_000, "memory", "twice as many"),
        Ratio("nobody", "scan", 0.1),
    ),
)


def sweep(directory: Path, *arguments: str) -> Result:
    flags = ["--scale", "0.0002", "--seconds", "0", "--rounds", "1", "--settling", "0", "--out", str(directory)]
    return CliRunner().invoke(run_stream.app, ["bench", "sweep", *arguments, *flags])


def dataset_of(row: Row) -> Path | None:
    assert isinstance(row.workload, Workload)
    return row.workload.dataset


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_figure_becomes_tables_and_a_picture(tmp_path: Path) -> None:
    result = sweep(tmp_path, "hem", "--figures", "5")
    assert result.exit_code == 0, result.output
    files = ["hem-5.csv", "hem-5-stated.csv", "hem-5.png"]
    assert result.stdout.splitlines() == [str(tmp_path / name) for name in files]
    found = rows(tmp_path / "hem-5.csv")
    assert [row["value"] for row in found if row["series"] == "scan"] == ["60", "200", "600", "1000", "1400", "1800"]
    assert {row["checked"] for row in found} == {"True"}
    assert float(found[0]["us_per_event"]) > 0
    (figure,) = sweeps.figures("hem", ["5"])
    assert {row["series"] for row in found} == {s.label for s in figure.series}
    assert rows(tmp_path / "hem-5-stated.csv")[0]["paper"] == "0.099"
    assert (tmp_path / "hem-5.png").read_bytes().startswith(b"\x89PNG")


def test_several_panels_of_single_events_and_names_are_drawn(tmp_path: Path) -> None:
    result = sweep(tmp_path, "rein", "--figures", "8,10,table3")
    assert result.exit_code == 0, result.output
    assert {file.name for file in tmp_path.glob("*.png")} == {"rein-8.png", "rein-10.png", "rein-table3.png"}
    points = tuple(Point(x, {"values": values}, label=values.name) for x, values in enumerate((UNIFORM, NORMAL)))
    outcome = sweeps.run(replace(TOY, points=points, stated=()), 0.1, QUICK)
    assert [row.columns["value"] for row in outcome.rows if row.label == "scan"] == ["uniform", "normal"]
    assert draw(outcome, tmp_path).exists()


def test_each_stated_number_of_a_table_has_its_own_beside_it(tmp_path: Path) -> None:
    """REIN's table III, with the times of single events, and one of three columns of table V."""
    for figure in sweeps.figures("rein", ["table3", "table5-normal"]):
        outcome = sweeps.run(figure, 0.0002, Effort(seconds=60.0, rounds=1, batch=1, settling_s=0.0))
        tables.write(outcome, tmp_path)
    spread = rows(tmp_path / "rein-table3-stated.csv")
    assert [(row["metric"], row["paper"]) for row in spread if row["statement"].startswith("rein")] == [
        ("us_max", "2029100"),
        ("us_min", "1097700"),
        ("us_std", "149800"),
        ("selectivity", "0.00091"),
    ]
    ours = {(row["metric"], row["statement"]): float(row["ours"]) for row in spread}
    for row in rows(tmp_path / "rein-table3.csv"):
        if row["series"] != "scan":
            at = f"{row['series']} at 2,000,000"
            assert 0 < ours["us_min", at] < float(row["us_per_event"]) < ours["us_max", at]
            assert ours["us_std", at] < ours["us_max", at] - ours["us_min", at]
    column = rows(tmp_path / "rein-table5-normal-stated.csv")
    assert [float(row["paper"]) for row in column][:3] == [155_400, 309_800, 468_000]
    assert len([row["ours"] for row in column if row["ours"]]) == 10
    assert {row["value_distribution"] for row in rows(tmp_path / "rein-table5-normal.csv")} == {"normal:0.02"}


def test_real_data_serve_where_they_have_attributes_enough(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("\n".join(" ".join(str((i * j) % 7) for j in range(1, 31)) for i in range(40)))
    (figure,) = sweeps.figures("hem", ["9"])
    outcome = sweeps.run(replace(figure, points=figure.points[:2]), 1e-4, QUICK, data)
    assert [dataset_of(row) for row in outcome.rows if row.label == "scan"] == [data, None]
    assert "With 100 attributes, more than data.txt has, values are uniform." in outcome.notes


def test_what_the_paper_states_stands_beside_ours(tmp_path: Path) -> None:
    outcome = sweeps.run(TOY, 0.5, QUICK)
    assert outcome.notes == ("Not among the algorithms here: nobody.",)
    assert [row.workload.subscriptions for row in outcome.rows] == [500, 500, 1_000, 1_000]
    scan, counting = outcome.values("scan", "us"), outcome.values("counting", "us")
    memory = outcome.values("counting", "memory")
    mean = sum(scan[x] / counting[x] for x in (1_000, 2_000)) / 2
    expected = [scan[1_000], None, pytest.approx(mean), memory[2_000] / memory[1_000], None]
    assert [statement.ours for statement in outcome.statements()] == expected
    assert draw(outcome, tmp_path).exists()


def test_a_series_without_the_option_that_is_varied_is_left_out() -> None:
    figure = replace(TOY, points=over_option("g", (1, 2)), series=lines("scan"), stated=())
    outcome = sweeps.run(figure, 1.0, QUICK)
    assert outcome.rows == ()
    assert outcome.notes == ("Left out, for want of its option g: scan.",)


def test_a_fixed_series_has_no_options_of_a_point() -> None:
    (scan,) = lines("scan")
    figure = replace(TOY, points=over_option("c", (1, 2)), series=(replace(scan, fixed=True), *lines("hem")), stated=())
    outcome = sweeps.run(replace(figure, workload=replace(TOY.workload, subscriptions=50)), 1.0, QUICK)
    assert [(row.x, row.label) for row in outcome.rows] == [(1, "scan"), (1, "hem"), (2, "scan"), (2, "hem")]
    assert [row.columns["options"] for row in outcome.rows] == ["{}", '{"c": 1}', "{}", '{"c": 2}']


def test_options_are_varied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = []

    def build(table: SubscriptionTable, g: int = 0) -> Matcher:
        given.append(g)
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "optional", Algorithm(build))
    small = replace(TOY.workload, subscriptions=100)
    figure = replace(TOY, points=over_option("g", (1, 8)), series=lines("optional"), workload=small, log_x=True)
    outcome = sweeps.run(figure, 1.0, QUICK)
    assert sorted(set(given)) == [1, 8]
    assert draw(outcome, tmp_path).exists()


def test_updates_are_measured_where_an_algorithm_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inserted, deleted = [], []

    class Growing:
        def __init__(self, table: SubscriptionTable) -> None:
            self.inner = ALGORITHMS["scan"](table)
            self.n = table.n_subscriptions

        def match(self, events: EventBatch) -> MatchBatch:
            """It does not find what is inserted, and finds what is deleted."""
            return self.inner.match(events)

        def insert(self, table: SubscriptionTable) -> int:
            inserted.append(table.n_subscriptions)
            self.n += table.n_subscriptions
            return self.n - table.n_subscriptions

        def delete(self, subscriptions: ArrayLike) -> None:
            deleted.append(np.size(subscriptions))

        def memory_bytes(self) -> int:
            return 0

    monkeypatch.setitem(ALGORITHMS, "growing", ALGORITHMS["scan"])
    monkeypatch.setitem(UPDATABLE, "growing", Growing)
    figure = replace(TOY, series=lines("scan", "growing"), metrics=("insertion", *sorted(UPDATES)), stated=())
    outcome = sweeps.run(figure, 0.1, QUICK)
    assert inserted == [10, *[1] * 25, 25, 10, *[1] * 50, 50]
    assert deleted == [1, 100, *[1] * 25, 1, 200, *[1] * 50]
    assert {(row.label, row.checked) for row in outcome.rows} == {("scan", True), ("growing", False)}
    for metric in UPDATES:
        assert outcome.values("scan", metric) == {}
        assert outcome.values("growing", metric).keys() == {1_000, 2_000}
    assert outcome.metrics() == ["insertion", *sorted(UPDATES)]
    assert draw(outcome, tmp_path).exists()


@pytest.mark.parametrize(("paper", "number"), [("rein", "12"), ("rein", "13"), ("pem", "updates")])
def test_the_papers_updates_are_measured(paper: str, number: str, tmp_path: Path) -> None:
    result = sweep(tmp_path, paper, "--figures", number)
    assert result.exit_code == 0, result.output
    found = rows(tmp_path / f"{paper}-{number}.csv")
    updated = {row["series"] for row in found if row["us_per_delete"]}
    assert updated == {row["series"] for row in found if row["us_per_insert"]}
    assert updated >= {"rein", "tama"}


@pytest.mark.parametrize("name", UPDATABLE)
def test_an_index_that_was_updated_matches_right(name: str) -> None:
    workload = Workload(subscriptions=5_000, attributes=4, predicates=(2, 2), events=40)
    assert update_times(MeasuredAlgorithm(name), workload).checked


def test_a_measured_improvement_stands_beside_the_predicted_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = UnitTimes(beta_s=2e-9, gamma_s=1e-9, delta_s=3e-10, epsilon_s=1e-11)
    monkeypatch.setattr(wpa_rein, "unit_times", lambda clock, buckets: times)  # on a busy machine delta may be 0
    result = sweep(tmp_path, "eem", "--figures", "theorem1")
    assert result.exit_code == 0, result.output
    found = rows(tmp_path / "eem-theorem1.csv")
    us = {(row["value"], row["series"]): float(row["us_per_event"]) for row in found}
    for row in found:
        base = us[row["value"], "F = 0"]
        assert float(row["improvement"]) == pytest.approx(1 - float(row["us_per_event"]) / base)
        predicted = [float(row[f"improvement_by_{name}"]) for name in ("lemma_2", "eq_2")]
        assert row["series"] != "F = 0" or predicted == [0.0, 0.0]
        assert row["series"] != "F = 0.1" or min(predicted) > 0.0
    assert (tmp_path / "eem-theorem1.png").exists()


def test_a_wrong_answer_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build(table: SubscriptionTable) -> Matcher:
        nothing = SubscriptionTable.from_intervals(
            [0], [0], [2.0], [3.0], n_subscriptions=table.n_subscriptions, n_columns=table.n_columns
        )
        return ALGORITHMS["scan"](nothing)

    monkeypatch.setitem(ALGORITHMS, "counting", Algorithm(build))
    result = sweep(tmp_path, "hem", "--figures", "8")
    assert result.exit_code == 1
    assert "counting at 0.1 is WRONG" in result.stderr


def test_points_may_have_their_own_batch_and_leave_series_out(tmp_path: Path) -> None:
    points = (Point(1, batch=1), Point(2, batch=2), Point(3, batch=3, only=("scan",)))
    figure = replace(TOY, points=points, workload=replace(TOY.workload, subscriptions=50, events=7), stated=())
    outcome = sweeps.run(figure, 1.0, Effort(seconds=60.0, rounds=1))
    assert [(row.x, row.label, row.columns["batch"]) for row in outcome.rows] == [
        *((x, label, x) for x in (1, 2) for label in ("scan", "counting")),
        (3, "scan", 3),
    ]
    assert draw(outcome, tmp_path).exists()


def test_a_sweep_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built: list[int] = []

    def build(table: SubscriptionTable) -> Matcher:
        built.append(table.n_subscriptions)
        return ALGORITHMS["scan"](table)

    class Stopped(Exception):
        pass

    def stop_after_the_first(outcome: sweeps.Outcome) -> None:
        tables.write_measured(outcome, tmp_path)
        raise Stopped

    monkeypatch.setitem(ALGORITHMS, "nobody", Algorithm(build))
    with pytest.raises(Stopped):
        sweeps.run(TOY, 0.5, QUICK, keep=stop_after_the_first)
    first = rows(tmp_path / "toy-1.csv")
    assert [row["value"] for row in first] == ["500"] * 3
    built.clear()
    outcome = sweeps.run(TOY, 0.5, QUICK, known=tables.read(tmp_path / "toy-1.csv"))
    assert set(built) == {1_000}
    tables.write(outcome, tmp_path)
    assert rows(tmp_path / "toy-1.csv")[:3] == first
    assert [row["value"] for row in rows(tmp_path / "toy-1.csv")] == ["500"] * 3 + ["1000"] * 3
    assert all(statement.ours for statement in outcome.statements() if statement.claim != "scan: elsewhere")
    assert draw(outcome, tmp_path).exists()


@pytest.mark.parametrize("change", [{"seed": 2}, {"effort": replace(QUICK, batch=2)}, {"scale": 0.25}])
def test_rows_of_another_run_are_measured_again(change: dict[str, Any], tmp_path: Path) -> None:
    small = replace(TOY, points=TOY.points[:1])
    file = tables.write_measured(sweeps.run(small, 0.5, QUICK), tmp_path)
    told: list[tuple[Row, ...]] = []
    run = {"scale": 0.5, "effort": QUICK, **change}
    sweeps.run(small, **run, known=tables.read(file), keep=lambda outcome: told.append(outcome.rows))
    assert all(len(row.us) for row in told[0])  # a row from a file has no single times


def test_what_the_memory_does_not_hold_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    attempts: list[int] = []

    def build(table: SubscriptionTable) -> Matcher:
        attempts.append(table.n_subscriptions)
        if table.n_subscriptions == 1_000:
            raise MemoryError
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "nobody", Algorithm(build))
    figure = replace(TOY, workload=replace(TOY.workload, subscriptions=10), stated=TOY.stated[2:])
    points = (Point(1_000, {"subscriptions": 500}), Point(2_000, {"subscriptions": 1_000}))
    outcome = sweeps.run(replace(figure, points=points), 1.0, QUICK)
    assert outcome.notes == ("At 2,000 left out for memory: nobody.",)
    assert [(row.x, row.label) for row in outcome.left_out] == [(2_000, "nobody")]
    assert (2_000, "scan") in [(row.x, row.label) for row in outcome.rows]
    file, *_ = tables.write(outcome, tmp_path)
    assert [row["left_out"] for row in rows(file)] == ["", "", "", "", "", "memory"]
    assert draw(outcome, tmp_path).exists()
    attempts.clear()
    again = sweeps.run(replace(figure, points=points), 1.0, QUICK, known=tables.read(file))
    assert attempts == []
    assert again.notes == outcome.notes


def test_what_fits_only_without_the_others_is_measured_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def build(table: SubscriptionTable) -> Matcher:
        attempts.append(table.n_subscriptions)
        if len(attempts) == 1:
            raise MemoryError
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "nobody", Algorithm(build))
    outcome = sweeps.run(replace(TOY, points=TOY.points[:1], stated=()), 1.0, QUICK)
    assert [(row.label, row.columns["turn"]) for row in outcome.rows] == [("scan", 1), ("counting", 1), ("nobody", 2)]
    assert outcome.left_out == ()
    assert outcome.notes == ()


def test_if_the_answers_of_all_do_not_fit_each_is_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_alone(workload: Any, candidates: Sequence[MeasuredAlgorithm], *others: Any) -> list[Measurement]:
        if len(candidates) > 1 or candidates[0].algorithm == "nobody":
            raise MemoryError
        return measure(workload, candidates, *others)

    monkeypatch.setitem(ALGORITHMS, "nobody", ALGORITHMS["scan"])
    monkeypatch.setattr(turns, "measure", measure_alone)
    outcome = sweeps.run(replace(TOY, points=TOY.points[:1], stated=()), 1.0, QUICK)
    assert [(row.label, row.columns["turn"]) for row in outcome.rows] == [("scan", 2), ("counting", 3)]
    assert [row.label for row in outcome.left_out] == ["nobody"]


def test_what_takes_too_long_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    builds: list[int] = []

    def build(table: SubscriptionTable) -> Matcher:
        builds.append(table.n_subscriptions)
        return ALGORITHMS["counting"](table)

    def clock() -> float:
        """Each build of 2,000 subscriptions takes an hour more."""
        return perf_counter() + 3_600.0 * builds.count(2_000)

    monkeypatch.setattr("bench.matching.measure.perf_counter", clock)
    monkeypatch.setitem(ALGORITHMS, "nobody", Algorithm(build))
    figure, effort = replace(TOY, stated=()), replace(QUICK, limit_s=3_000.0)
    outcome = sweeps.run(figure, 1.0, effort)
    assert [(row.x, row.label) for row in outcome.left_out] == [(2_000, "nobody")]
    assert [row.label for row in outcome.rows] == ["scan", "counting", "nobody", "scan", "counting"]
    assert outcome.notes == ("At 2,000 left out for time: nobody.",)
    file, *_ = tables.write(outcome, tmp_path)
    assert [row["left_out"] for row in rows(file)] == ["", "", "", "", "", "time"]
    builds.clear()
    assert sweeps.run(figure, 1.0, effort, known=tables.read(file)).notes == outcome.notes
    assert builds == []


def test_a_sweep_ends_with_what_it_left_out(tmp_path: Path) -> None:
    result = sweep(tmp_path, "hem", "--figures", "3,5", "--limit", "0")
    assert result.exit_code == 0, result.output
    assert (
        "hem-5: At 300,000 left out for time: counting, rein, ada_rein, tama, opindex, hem, hem with checks."
        in result.stderr
    )
    assert result.stderr.rstrip().endswith(
        "left out for time: counting, rein, ada_rein, tama, opindex, hem, hem with checks."
    )
    assert {row["series"] for row in rows(tmp_path / "hem-5.csv") if not row["left_out"]} == {"scan"}


def test_more_memory_than_there_is_is_rejected() -> None:
    with memory.limited(), pytest.raises(MemoryError):
        np.ones(1 << 40)
    np.ones(1 << 10)


def test_a_run_in_batches_stands_beside_that_of_single_events(tmp_path: Path) -> None:
    for arguments, name, ours in (((), "hem-4", "ours"), (("--batch", "2"), "hem-4-batches-of-2", "ours_in_batches")):
        result = sweep(tmp_path, "hem", "--figures", "4", *arguments)
        assert result.exit_code == 0, result.output
        assert {row["batch"] for row in rows(tmp_path / f"{name}.csv")} == {arguments[-1] if arguments else "1"}
        stated = rows(tmp_path / f"{name}-stated.csv")
        assert all(row[ours] for row in stated)
        assert [bool(row[f"{ours}_cpu"]) for row in stated] == [row["metric"] == "us_per_event" for row in stated]
        assert (tmp_path / f"{name}.png").exists()


def test_the_sweep_of_tiles_measures_all_exact_algorithms() -> None:
    exact = {name for name, a in ALGORITHMS.items() if not (a.approximate or a.definition or a.chooses)}
    for figure in PAPERS["tiles"]:
        assert {series.algorithm for series in figure.series} == exact | {"wpa_rein"}
    assert [point.x for figure in PAPERS["tiles"] for point in figure.points if point.only] == [10_000_000, 50]


def test_the_sweep_of_pcm_runs_ocm_on_one_thread_and_on_as_many_as_the_paper_where_there_are_cores() -> None:
    threads = {s.options["threads"]: s.label for s in pcm.ALL if s.algorithm == "ocm"}
    assert sorted(threads) == sorted({1, min(6, os.cpu_count() or 1)})
    assert threads[max(threads)] == pcm.OCM
    assert all(label == f"ocm, {n} thread{'s' * (n > 1)}" for n, label in threads.items())


def test_a_figure_of_real_events_needs_some_and_another_wants_none(tmp_path: Path) -> None:
    outcome = sweeps.run(replace(TOY, real=True), 1.0, QUICK)
    assert (outcome.rows, outcome.notes) == ((), ("It is about real events, which --dataset would give.",))
    data = tmp_path / "data.txt"
    data.write_text("\n".join(" ".join(str((i * j) % 7) for j in range(1, 5)) for i in range(40)))
    for real, used in ((True, data), (None, data), (False, None)):
        outcome = sweeps.run(replace(TOY, real=real), 0.1, QUICK, data)
        assert {dataset_of(row) for row in outcome.rows} == {used}


def test_our_own_series_stands_beside_the_fastest_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(ALGORITHMS, "nobody", ALGORITHMS["counting"])
    outcome = sweeps.run(replace(TOY, ours="nobody", stated=()), 0.5, QUICK)
    (file,) = tables.write_rivals([outcome, replace(outcome, rows=())], tmp_path)
    assert file.name == "toy-fastest.csv"
    assert [row["value"] for row in rows(file)] == ["500", "1000"]
    for row, x in zip(rows(file), (1_000, 2_000), strict=True):
        times = {label: outcome.values(label, "us")[x] for label in ("scan", "counting")}
        ours = outcome.values("nobody", "us")[x]
        assert row["fastest"] == min(times, key=times.__getitem__)
        assert float(row["us_per_event"]) == min(times.values())
        assert (row["ours"], float(row["ours_us_per_event"])) == ("nobody", ours)
        assert float(row["ratio"]) == pytest.approx(min(times.values()) / ours)
    assert tables.write_rivals([sweeps.run(TOY, 0.1, QUICK)], tmp_path) == []


def test_the_sweep_of_tiles_runs_without_tiles_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(ALGORITHMS, "tiles", raising=False)
    result = sweep(tmp_path, "tiles", "--figures", "texts,stock")
    assert result.exit_code == 0, result.output
    names = ("tiles-texts.csv", "tiles-texts.png", "tiles-fastest.csv")
    assert result.stdout.splitlines() == [str(tmp_path / name) for name in names]
    assert "tiles-texts: Not among the algorithms here: tiles" in result.stderr
    assert "tiles-stock: left out" in result.stderr
    found = rows(tmp_path / "tiles-fastest.csv")
    assert [row["value"] for row in found] == ["10", "100", "1000", "10000", "100000"]
    assert {row["ratio"] for row in found} == {""}


@pytest.mark.parametrize("figure", [f for paper in PAPERS.values() for f in paper], ids=lambda figure: figure.name)
def test_every_experiment_states_what_can_be_run(figure: Figure) -> None:
    labels = {series.label for series in figure.series}
    assert len(labels) == len(figure.series)
    assert figure.metrics
    assert set(figure.metrics) <= METRICS.keys()
    xs = [point.x for point in figure.points]
    assert len(set(xs)) == len(xs)
    assert figure.ours in {*labels, ""}
    for point in figure.points:
        replace(figure.workload, **point.workload)
        assert set(point.only) <= labels
    for stated in figure.stated:
        assert stated.metric in figure.metrics
        assert stated.x is None or stated.x in xs
        assert ({stated.label} if isinstance(stated, Value) else {stated.of, stated.to}) <= {*labels, pcm.BE_TREE_13}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hme"], "unknown paper 'hme'; did you mean 'hem'?"),
        (["rein", "--figures", "99"], "rein has no experiment '99'; known: 7, table3, 8"),
    ],
)
def test_unknown_papers_and_figures_are_rejected(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = sweep(tmp_path, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_scale_of_nothing_is_rejected(tmp_path: Path) -> None:
    result = CliRunner().invoke(run_stream.app, ["bench", "sweep", "hem", "--scale", "0", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "scale cannot be 0" in result.stderr
