"""`bench matchers --scenario event-bus`: the generated workload, and the way from bytes to positions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.workloads.documents import Documents
from bench.workloads.event_bus import EventBus
from matchers import ALGORITHMS, Index, MatchBatch
from matchers.language import naive
from matchers.language.parsing import parse
from matchers.registry import runnable
from tests.bench.running import QUICK, bench

TOY = EventBus(subscriptions=3_000, events=400)
TINY = ("--scenario", "event-bus", "-n", "300", "--events", "12", *QUICK)


def written(documents: Documents) -> list[dict[str, Any]]:
    return [documents.document(d) for d in range(len(documents))]


def test_a_rule_wants_a_source_some_types_a_range_and_sometimes_a_prefix() -> None:
    prefixes = 0
    for rule in written(TOY.patterns()):
        assert rule.keys() == {"source", "detail-type", "detail"}
        assert [source.startswith("source-") for source in rule["source"]] == [True]
        assert 1 <= len(set(rule["detail-type"])) == len(rule["detail-type"]) <= 3
        detail = rule["detail"]
        prefix = detail.pop("name", None)
        prefixes += prefix is not None
        assert prefix is None or 1 <= len(prefix[0]["prefix"]) <= 3
        ((number, (test,)),) = detail.items()
        assert number in {f"n{k}" for k in range(10)}
        above, low, below, high = test["numeric"]
        assert (above, below, high - low) == (">=", "<", 100_000)
        assert 0 <= low <= 900_000
    assert prefixes / 3_000 == pytest.approx(1 / 3, abs=0.05)


def test_an_event_has_13_fields_in_about_200_bytes() -> None:
    events = replace(TOY, events=5_000).messages()
    sizes = events.ends - events.begins
    assert sizes.min() >= 185
    assert 190 <= sizes.mean() <= 215
    found = written(events)
    for event in found:
        assert event.keys() == {"source", "detail-type", "detail"}
        assert event["detail"].keys() == {"name", *(f"n{k}" for k in range(10))}
    assert len(Counter(event["source"] for event in found)) == 50
    assert len(Counter(event["detail-type"] for event in found)) == 200
    values = np.array([[event["detail"][f"n{k}"] for k in range(10)] for event in found])
    assert np.allclose(np.quantile(values, (0.1, 0.5, 0.9)), (100_000, 500_000, 900_000), atol=10_000)


def test_the_same_seed_gives_the_same_and_another_seed_another() -> None:
    assert TOY.patterns().text.tobytes() == TOY.patterns().text.tobytes()
    assert TOY.messages().text.tobytes() == replace(TOY, subscriptions=7).messages().text.tobytes()
    other = replace(TOY, seed=2)
    assert TOY.patterns().text.tobytes() != other.patterns().text.tobytes()
    assert TOY.messages().text.tobytes() != other.messages().text.tobytes()


@pytest.mark.parametrize("name", ["scan", "counting", "hem"])
def test_positions_are_those_of_the_rules_that_an_index_finds(name: str) -> None:
    workload = TOY.prepared()
    patterns, events = written(TOY.patterns()), written(TOY.messages())
    found = workload.part(0, len(workload))
    for step in workload.steps(ALGORITHMS[name](workload.table)).values():
        found = step(found)
    assert isinstance(found, MatchBatch)
    ids = [sorted(str(workload.segment.ids[p]) for p in found.of(e)) for e in range(len(found))]
    assert ids == Index.build({str(i): pattern for i, pattern in enumerate(patterns)}).match(events)
    matches = [(int(id), e) for e, some in enumerate(ids) for id in some]
    assert len(matches) > 5
    assert all(naive.matches(parse(patterns[id]), events[e]) for id, e in matches)


@pytest.mark.parametrize("name", [name for name in runnable() if not ALGORITHMS[name].definition])
def test_every_algorithm_is_measured_and_its_answer_checked(name: str) -> None:
    result = bench("-a", name, "--json", *TINY)
    assert result.exit_code == 0, result.output
    one = json.loads(result.stdout)
    assert one["checked"] is True
    assert one["compile_s"] > 0
    assert list(one["us_of_step"]) == ["read", "encode", "match"]
    assert sum(one["us_of_step"].values()) == pytest.approx(one["us_per_event"], abs=0.001)


def test_people_see_the_share_of_each_step() -> None:
    heads, scan, _, compiled = bench("-a", "scan", *TINY).stdout.splitlines()
    assert heads.split()[2:5] == ["read", "encode", "match"]
    shares = [int(share.removesuffix("%")) for share in scan.split()[2:5]]
    assert 98 <= sum(shares) <= 102
    assert compiled.startswith("patterns to a table: ")


def test_events_are_measured_in_batches() -> None:
    (one,) = measure(TOY, [MeasuredAlgorithm("counting")], Effort(seconds=60.0, rounds=2, batch=150))
    assert (one.batch, one.events_measured, len(one.us)) == (150, 400, 3)
    assert one.checked
    assert one.matches > 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "0.3"], "--width is a flag of the scenario intervals"),
        (["-d", "20"], "--attributes is a flag of the scenario intervals"),
        (["--dataset", "data.txt"], "event-bus takes --subscriptions, --events, --seed"),
        (["-n", "0"], "subscriptions cannot be 0"),
        (["--scenario", "eventbus"], "unknown scenario 'eventbus'; did you mean 'event-bus'?"),
    ],
)
def test_wrong_flags_are_rejected_with_what_would_work(arguments: list[str], message: str) -> None:
    result = bench(*TINY, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
