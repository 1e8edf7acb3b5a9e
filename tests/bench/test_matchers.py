"""`bench matchers` at toy sizes: the answers are checked, never the time."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import run_stream
from bench.errors import BenchError
from bench.matching.answers import Answer, compare, part
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import EVENTS_AT_ONCE, Effort, measure
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, Algorithm, EventBatch, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.algorithms import auto
from matchers.algorithms.auto.choosing import Choice
from matchers.contract.matcher import AdaptiveMatcher
from matchers.registry import runnable
from tests.bench.running import QUICK, bench
from tests.support.documents import HOME, steps

TINY = ("-n", "300", "-d", "5", "-k", "1-3", "-w", "0.6", "--events", "12", *QUICK)
KEYS = ["algorithm", "us_per_event", "build_s", "memory_bytes", "matches", "events_measured", "batch", "checked"]


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@dataclass(frozen=True, eq=False)
class SpoiledMatcher(Matcher):
    """Lists what `scan` lists, spoiled."""

    inner: Matcher
    spoil: Callable[[list[int]], list[int]]

    def match(self, events: EventBatch) -> MatchBatch:
        found = self.inner.match(events)
        spoiled = [self.spoil(found.of(e).tolist()) for e in range(len(found))]
        offsets = np.concatenate(([0], np.cumsum([len(s) for s in spoiled]))).astype(np.int64)
        return MatchBatch(offsets, np.array([i for s in spoiled for i in s], np.int32))


def spoil(monkeypatch: pytest.MonkeyPatch, how: Callable[[list[int]], list[int]], approximate: bool = False) -> None:
    """Put a matcher `spoiled` among the algorithms."""

    def build(table: SubscriptionTable) -> Matcher:
        return SpoiledMatcher(ALGORITHMS["scan"](table), how)

    monkeypatch.setitem(ALGORITHMS, "spoiled", Algorithm(build, approximate=approximate))


def with_all(ids: list[int]) -> list[int]:
    return sorted({*ids, 0, 1, 2})


@pytest.mark.parametrize("name", runnable())
def test_every_algorithm_is_measured_and_its_answer_checked(name: str) -> None:
    result = bench("-a", name, "--json", *TINY)
    assert result.exit_code == 0, result.output
    (one,) = objects(result)
    assert list(one)[: len(KEYS)] == KEYS
    assert one["algorithm"] == name
    assert one["checked"] is True
    assert one["matches"] > 0
    assert one["checked_by"] == "scan"
    assert 5 <= one["events_measured"] <= 12
    assert one["batch"] == 5
    assert 0 < one["us_per_event"] <= one["us_per_event_median"]
    assert 0 < one["cpu_us_per_event"] <= one["cpu_us_per_event_median"]
    assert one["memory_bytes"] > 0
    assert one["build_s"] >= 0


@pytest.mark.parametrize(("document", "count"), [("docs/benchmarks.md", 6), ("docs/papers.md", 7)])
def test_the_commands_of_the_documents_run_at_a_toy_size(document: str, count: int, tmp_path: Path) -> None:
    commands = [
        shlex.split(step.command)
        for step in steps(document)
        if not {"living", "system", "choices", "search", "make"} & set(step.command.split())
    ]  # they have tests
    assert all(command[:3] == ["python", "run_stream.py", "bench"] for command in commands)
    assert len(commands) == count
    toy = {
        "matchers": ("-n", "300", "--events", "12", "--seconds", "0.01", "--settling", "0.05"),
        "library": ("--rules", "300", "--events", "12", "--rounds", "2"),
        "sweep": ("--scale", "0.0002", "--seconds", "0", "--rounds", "1", "--settling", "0", "--out", str(tmp_path)),
    }
    for _, _, *arguments in commands:
        one = () if "sweep" not in arguments or "--figures" in arguments else ("--figures", "11")
        result = CliRunner().invoke(run_stream.app, [*arguments, *one, *toy[arguments[1]]])
        assert result.exit_code == 0, result.output


def test_algorithms_come_in_the_order_asked_for() -> None:
    assert [one["algorithm"] for one in objects(bench("-a", "counting, scan", "--json", *TINY))] == ["counting", "scan"]


def test_without_names_all_but_naive_are_measured() -> None:
    found = [one["algorithm"] for one in objects(bench("--json", *TINY))]
    assert found == [name for name in runnable() if not ALGORITHMS[name].definition]


def test_people_get_a_table() -> None:
    result = bench("-a", "scan,counting", *TINY)
    heads, scan, counting = result.stdout.splitlines()
    assert heads.split("  ")[0] == "algorithm"
    assert scan.split()[0::5][:2] == ["scan", "1.00"]
    assert counting.split()[0] == "counting"
    assert counting.split()[-1] == "yes"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda ids: ids[1:], "missed"),
        (with_all, "too many"),
        (lambda ids: ids[::-1], "WRONG"),
        (lambda ids: ids + ids[-1:], "WRONG"),
    ],
)
def test_a_wrong_answer_is_told(monkeypatch: pytest.MonkeyPatch, how: Callable[[Any], Any], message: str) -> None:
    spoil(monkeypatch, how)
    result = bench("-a", "spoiled", "--json", *TINY)
    assert result.exit_code == 1
    assert objects(result)[0]["checked"] is False
    result = bench("-a", "scan,spoiled", *TINY)
    assert result.exit_code == 1
    assert message in result.stdout


def test_an_approximate_algorithm_may_list_more(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, with_all, approximate=True)
    result = bench("-a", "spoiled", "--json", *TINY)
    assert result.exit_code == 0
    (one,) = objects(result)
    assert one["checked"] is True
    assert 0 < one["false_positive_rate"] < 1


def test_an_approximate_algorithm_must_not_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda ids: ids[1:], approximate=True)
    assert bench("-a", "spoiled", *TINY).exit_code == 1


@dataclass(frozen=True, eq=False)
class Counting(SpoiledMatcher):
    """Tells how many values an event has."""

    def profile(self, events: EventBatch) -> dict[str, float]:
        return {"values": len(events.value) / len(events), "a model's limit": 1234.5}


@pytest.mark.parametrize("scenario", [TINY, ("--scenario", "event-bus", "-n", "300", "--events", "12", *QUICK)])
def test_a_profile_is_told_where_a_matcher_has_one(monkeypatch: pytest.MonkeyPatch, scenario: tuple[str, ...]) -> None:
    monkeypatch.setitem(ALGORITHMS, "counted", Algorithm(lambda table: Counting(ALGORITHMS["scan"](table), list)))
    scan, counted = objects(bench("-a", "scan,counted", "--profile", "--json", *scenario))
    assert "profile" not in scan
    values = 5 if scenario == TINY else 13
    assert counted["profile"] == {"values": values, "a model's limit": 1234.5}
    result = bench("-a", "scan,counted", "--profile", *scenario)
    assert [" ".join(line.split()) for line in result.stdout.splitlines()[-3:]] == [
        "algorithm per event counter",
        f"counted {values} values",
        "counted 1,234 a model's limit",
    ]


def test_without_a_profile_there_is_a_note() -> None:
    result = bench("-a", "scan", "--profile", "--json", *TINY)
    assert result.exit_code == 0
    assert "profile" not in objects(result)[0]
    assert "None of the measured algorithms has a profile." in result.stderr


def test_nobody_is_asked_for_a_profile_that_nobody_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "counted", Algorithm(lambda table: Counting(ALGORITHMS["scan"](table), list)))
    assert "profile" not in objects(bench("-a", "counted", "--json", *TINY))[0]


def test_options_reach_their_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def build(table: SubscriptionTable, g: int = 1, way: str = "") -> Matcher:
        given.update(g=g, way=way)
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "optional", Algorithm(build))
    result = bench("-a", "optional", "--option", "optional.g=32", "--option", "optional.way=fast", "--json", *TINY)
    assert given == {"g": 32, "way": "fast"}
    assert objects(result)[0]["options"] == given


def test_an_option_that_an_algorithm_rejects_is_a_wrong_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(table: SubscriptionTable, g: int = 1) -> Matcher:
        raise MatchingError(f"g must be 1, not {g}")

    monkeypatch.setitem(ALGORITHMS, "optional", Algorithm(build))
    result = bench("-a", "optional", "--option", "optional.g=2", *TINY)
    assert result.exit_code == 2
    assert "g must be 1, not 2" in result.stderr


def test_what_an_algorithm_takes_as_functions_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(table: SubscriptionTable, g: int = 1, clock: Callable[[], float] = perf_counter) -> Matcher:
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "optional", Algorithm(build))
    result = bench("-a", "optional", "--option", "optional.clock=2", *TINY)
    assert result.exit_code == 2
    assert "no option 'clock'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "scna"], "unknown algorithm 'scna'; did you mean 'scan'?"),
        (["--option", "scan.g=1"], "scan has no option 'g': it takes none"),
        (["--option", "scan"], "an option is algorithm.name=value, such as hem.g=32"),
        (["-a", "scan", "--option", "counting.g=1"], "'counting' is not measured"),
        (["--predicates", "many"], "use a number or a range such as 1-10"),
        (["--value-distribution", "nromal"], "did you mean 'normal'?"),
        (["--dataset", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--width", "2"], "width cannot be 2.0"),
    ],
)
def test_wrong_flags_are_rejected_with_what_would_work(arguments: list[str], message: str) -> None:
    result = bench(*TINY, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@dataclass(frozen=True, eq=False)
class Recording(SpoiledMatcher):
    """Keeps how many events each call had."""

    calls: list[int]

    def match(self, events: EventBatch) -> MatchBatch:
        self.calls.append(len(events))
        return super().match(events)


def test_all_get_the_batch_that_was_asked_for_however_slow_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def slow(ids: list[int]) -> list[int]:
        sleep(0.002)
        return ids

    def build(table: SubscriptionTable) -> Matcher:
        calls.clear()
        return Recording(ALGORITHMS["scan"](table), slow, calls)

    monkeypatch.setitem(ALGORITHMS, "slow", Algorithm(build))
    workload = Workload(subscriptions=50, attributes=3, predicates=(1, 2), events=20)
    slowest, counting = measure(
        workload, [MeasuredAlgorithm("slow"), MeasuredAlgorithm("counting")], Effort(0.001, 2, batch=8)
    )
    assert calls == [8, 8, 8]  # round 0, and two that count
    assert (slowest.batch, counting.batch) == (8, 8)


class Learning(AdaptiveMatcher):
    """Lists what `scan` lists, and learns from the first `lessons` events, and from those of two calls later on."""

    def __init__(self, table: SubscriptionTable, lessons: int = 300, later: tuple[int, int] = (0, 0)) -> None:
        self.inner, self.lessons, self.later = ALGORITHMS["scan"](table), lessons, later
        self.seen = self.calls = self.learnt_later = 0

    @property
    def learnt(self) -> int:
        return min(self.seen, self.lessons) + self.learnt_later

    @property
    def settled(self) -> bool:
        return self.seen >= self.lessons

    def match(self, events: EventBatch) -> MatchBatch:
        self.calls += self.settled
        self.seen += len(events)
        self.learnt_later += self.calls in self.later
        return self.inner.match(events)

    def memory_bytes(self) -> int:
        return 0


SMALL = Workload(subscriptions=50, attributes=3, predicates=(1, 2), events=20)


def learning(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Learning]:
    """Put `learning` among the algorithms; returns the matchers that will be built."""
    built: list[Learning] = []

    def build(table: SubscriptionTable) -> Matcher:
        built.append(Learning(table, **options))
        return built[-1]

    monkeypatch.setitem(ALGORITHMS, "learning", Algorithm(build))
    return built


def test_an_algorithm_that_learns_has_settled_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    built = learning(monkeypatch)
    (one,) = measure(SMALL, [MeasuredAlgorithm("learning")], Effort(60.0, rounds=3, batch=10))
    assert one.adaptation is not None
    assert one.adaptation.settled
    assert one.adaptation.events == 512  # 300 in batches of 256
    assert min(one.adaptation.wall_s, one.adaptation.cpu_s) > 0
    assert built[-1].calls == 4 * 2  # rounds of two batches


def test_a_batch_from_which_it_learns_is_matched_again_and_timed_as_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    built = learning(monkeypatch, later=(3, 6))  # the first call of round 1, and of round 2
    (one,) = measure(SMALL, [MeasuredAlgorithm("learning")], Effort(60.0, rounds=3, batch=10))
    assert one.adaptation is not None
    assert one.adaptation.events == 512 + 2 * 10
    assert built[-1].calls == 4 * 2 + 2
    assert len(one.us) == 2


def test_an_algorithm_without_the_time_to_settle_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    learning(monkeypatch, lessons=10**9)
    (one,) = measure(SMALL, [MeasuredAlgorithm("learning")], Effort(60.0, rounds=1, batch=10, settling_s=0.01))
    assert one.adaptation is not None
    assert not one.adaptation.settled
    result = bench("-a", "learning", *TINY)
    assert [line.split()[-2:] for line in result.stdout.splitlines()[-1:]] == [["not", "settled"]]


@pytest.mark.parametrize("name", [name for name in runnable() if name in ("ada_rein", "wpa_rein", "pem")])
def test_those_that_learn_settle(name: str) -> None:
    options = {} if name == "pem" else {"false_positives": 0.3}
    workload = Workload(subscriptions=5_000, attributes=5, predicates=(1, 3), width=0.6, events=20)
    candidate = MeasuredAlgorithm(name, options)
    (one,) = measure(workload, [candidate], Effort(0.05, rounds=2, batch=10))
    assert one.checked
    assert one.adaptation is not None
    assert one.adaptation.settled


@dataclass(frozen=True, eq=False)
class Short(SpoiledMatcher):
    """Answers all events but the last of each call of so many."""

    events: int

    def match(self, events: EventBatch) -> MatchBatch:
        found = self.inner.match(events)
        return part(found, 0, len(found) - (len(found) == self.events))


def test_an_algorithm_that_answers_fewer_events_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = ALGORITHMS["scan"]
    monkeypatch.setitem(ALGORITHMS, "short", Algorithm(lambda table: Short(scan(table), list, events=5)))
    result = bench("-a", "short", *TINY)
    assert result.exit_code == 2
    assert "the algorithm answered 4 events, and scan 5" in " ".join(result.stderr.replace("│", " ").split())


DECISION_S = 0.05


def decide_slowly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let `auto` take DECISION_S to decide on a table; returns the sizes of those it will have decided on."""
    decided: list[int] = []

    def choose(table: SubscriptionTable, *_: object) -> tuple[list[Choice], dict[str, Matcher]]:
        decided.append(table.n_subscriptions)
        sleep(DECISION_S)
        return [Choice(1, 1.0, "scan", 1.0)], {"scan": ALGORITHMS["scan"](table)}

    monkeypatch.setattr(auto, "choose", choose)
    monkeypatch.setattr(auto, "asked", lambda _: ["tiles", "scan"])
    monkeypatch.setattr(auto, "_chosen", {})
    return decided


def test_the_decision_of_auto_is_in_its_build_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = decide_slowly(monkeypatch)
    workload = replace(SMALL, subscriptions=300)
    (one,) = measure(workload, [MeasuredAlgorithm("auto")], Effort(0.0, 1, batch=10))
    assert decided == [300, 300]  # before, to compile
    assert one.build_s >= DECISION_S
    assert len(auto._chosen) == 1  # still as before the measured build


def spoil_after(monkeypatch: pytest.MonkeyPatch, events: int) -> None:
    """Put `spoiled` among the algorithms: it misses whatever comes after so many events of a round."""

    class Late(SpoiledMatcher):
        def match(self, batch: EventBatch) -> MatchBatch:
            right = self.inner.match(batch)
            if np.array_equal(batch.value[:3], last.value[:3]):
                return MatchBatch(np.zeros_like(right.offsets), right.subscription[:0])
            return right

    last = SMALL.batch().part(events, events + 10)
    monkeypatch.setitem(ALGORITHMS, "spoiled", Algorithm(lambda table: Late(ALGORITHMS["naive"](table), list)))


@pytest.mark.parametrize(("checking_s", "by"), [(60.0, "scan"), (0.0, "scan on 10 events, counting on the others")])
def test_every_event_that_is_timed_is_checked(monkeypatch: pytest.MonkeyPatch, checking_s: float, by: str) -> None:
    clock = Clock()
    monkeypatch.setattr("bench.matching.measure.perf_counter", clock)

    def slowly(ids: list[int]) -> list[int]:
        clock.now_s += 0.001  # so that it is not the fastest
        return ids

    scan = ALGORITHMS["scan"]
    monkeypatch.setitem(ALGORITHMS, "slow", Algorithm(lambda table: SpoiledMatcher(scan(table), slowly)))
    spoil_after(monkeypatch, 10)
    monkeypatch.setitem(ALGORITHMS, "scan", Algorithm(lambda table: Slow(scan(table), clock)))
    candidates = [MeasuredAlgorithm(name) for name in ("slow", "counting", "spoiled")]
    slow, counting, spoiled = measure(SMALL, candidates, Effort(0.4, 1, batch=10, checking_s=checking_s))
    assert [one.events_measured for one in (slow, counting, spoiled)] == [20, 20, 20]
    assert (slow.checked, counting.checked, spoiled.checked) == (True, True, False)
    assert slow.checked_by == spoiled.checked_by == by
    assert counting.checked_by == ("scan" if by == "scan" else "scan on 10 events")


@pytest.mark.parametrize("asked", [True, False])
def test_scan_answers_few_events_at_once_unless_it_is_measured(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    """`scan` with ten million subscriptions needs half an hour for a batch of 8,192 events."""
    scan, sizes = ALGORITHMS["scan"], set[int]()

    class Seen(SpoiledMatcher):
        def match(self, batch: EventBatch) -> MatchBatch:
            sizes.add(len(batch))
            return self.inner.match(batch)

    monkeypatch.setitem(ALGORITHMS, "scan", Algorithm(lambda table: Seen(scan(table), list)))
    measure(SMALL, [MeasuredAlgorithm("counting"), *[MeasuredAlgorithm("scan")] * asked], Effort(0.0, 1, batch=20))
    of_compiling = {len(SMALL.small().prepared())}
    assert max(sizes - of_compiling) == (20 if asked else EVENTS_AT_ONCE)


@dataclass
class Clock:
    """Only what is slow takes time by it."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, eq=False)
class Slow(Matcher):
    """A matcher so slow that a batch fills its round."""

    inner: Matcher
    clock: Clock

    def match(self, events: EventBatch) -> MatchBatch:
        self.clock.now_s += 0.05 * len(events)
        return self.inner.match(events)


def test_markdown_is_a_table_with_a_row_for_each_algorithm() -> None:
    result = bench("-a", "scan,counting", "--markdown", *TINY)
    head, line, *found = [row.strip("|").split("|") for row in result.stdout.splitlines()]
    assert head[0].strip() == "algorithm"
    assert {cell.strip().strip(":") for cell in line} == {"---"}
    assert [row[0].strip() for row in found] == ["scan", "counting"]
    assert {len(row) for row in found} == {len(head)}


@pytest.mark.parametrize(
    ("document", "title", "definitions"),
    [("docs/benchmarks.md", "## The matching algorithms", False), ("matchers/README.md", "## The algorithms", True)],
)
def test_the_tables_of_algorithms_have_a_row_for_each_one_registered(
    document: str, title: str, definitions: bool
) -> None:
    section = (HOME / document).read_text().split(f"{title}\n")[1].split("\n## ")[0]
    first_table = section[section.index("\n| ") :].strip().split("\n\n")[0]
    rows = [line.strip("|").split("|")[0].strip(" `") for line in first_table.splitlines()]
    names = [row for row in rows[2:] if "learning" not in row]
    registered = [name for name, algorithm in ALGORITHMS.items() if definitions or not algorithm.definition]
    assert sorted(names) == sorted(registered)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="memory is limited on Linux only")
def test_an_index_that_the_memory_does_not_hold_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])  # MemTotal comes first

    def build(table: SubscriptionTable) -> Matcher:
        np.empty((kb - 10_000) * 1024, np.uint8)  # without a limit only more than there is in all is rejected
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "huge", Algorithm(build))
    result = bench("-a", "huge,counting", "--json", *TINY)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["algorithm"] for line in result.stdout.splitlines()] == ["counting"]
    assert "Left out for memory: huge." in result.stderr
    monkeypatch.setitem(ALGORITHMS, "scan", Algorithm(build))
    result = bench("-a", "counting", *TINY)
    assert result.exit_code == 2
    assert "does not fit into free memory; use fewer --subscriptions" in " ".join(
        result.stderr.replace("│", " ").split()
    )


def test_an_index_that_fits_only_without_the_others_is_measured_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def build(table: SubscriptionTable) -> Matcher:
        attempts.append(table)
        if len(attempts) == 1:
            raise MemoryError
        return ALGORITHMS["scan"](table)

    monkeypatch.setitem(ALGORITHMS, "large", Algorithm(build))
    result = bench("-a", "large,counting", "--json", *TINY)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["algorithm"] for line in result.stdout.splitlines()] == ["large", "counting"]
    assert "Measured after the others, for memory: large in turn 2." in result.stderr


def test_the_first_round_decides_how_many_events_the_others_repeat() -> None:
    workload = Workload(subscriptions=50, attributes=3, predicates=(1, 2), events=9)
    (one,) = measure(workload, [MeasuredAlgorithm("counting")], Effort(seconds=0.0, rounds=4, batch=4))
    assert (one.rounds, one.batch, one.events_measured) == (4, 4, 4)
    (one,) = measure(workload, [MeasuredAlgorithm("counting")], Effort(seconds=60.0, rounds=2, batch=4))
    assert (one.rounds, one.batch, one.events_measured) == (2, 4, 9)
    assert len(one.us) == len(one.matched) == 3


def test_answers_are_compared_for_the_same_events() -> None:
    def batch(*events: list[int]) -> MatchBatch:
        offsets = np.concatenate(([0], np.cumsum([len(e) for e in events]))).astype(np.int64)
        return MatchBatch(offsets, np.array([i for e in events for i in e], np.int32))

    reference = batch([1, 2], [], [3])
    assert compare(reference, reference) == Answer(3)
    assert compare(batch([1], [2], [3]), reference) == Answer(3, missed=1, extra=1, same=False)
    for n, other in ((2, batch([1, 2], [])), (4, batch([1, 2], [], [3], [4])), (0, batch())):
        with pytest.raises(BenchError, match=f"the algorithm answered {n} events, and scan 3"):
            compare(other, reference)
    with pytest.raises(BenchError, match="answered 0 events, and scan 0"):
        compare(batch(), batch())
