"""Rules of EventBridge as people publish them match here what they match there, once they are rewritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from matchers import Index, PatternError
from matchers.language import naive
from matchers.language.parsing import parse
from offline import eventbridge
from offline.documents import Rejection
from offline.eventbridge import rewritten
from run_stream import app

RULES = [json.loads(line) for line in (Path(__file__).parent / "eventbridge.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("rule", RULES, ids=[rule["name"] for rule in RULES])
def test_a_rule_matches_here_what_it_matches_there(rule: dict[str, Any]) -> None:
    pattern = parse(rewritten(rule["rule"]))
    assert all(naive.matches(pattern, event) for event in rule["yes"])
    assert not any(naive.matches(pattern, event) for event in rule["no"])


def test_all_rules_together() -> None:
    index = Index.build({rule["name"]: rewritten(rule["rule"]) for rule in RULES})
    for rule in RULES:
        for event, ids in zip(rule["yes"] + rule["no"], index.match(rule["yes"] + rule["no"]), strict=True):
            assert (rule["name"] in ids) is (event in rule["yes"]), rule["name"]


def test_without_a_dot_and_an_operators_name_a_rule_stays_as_it_is() -> None:
    rule = {"a": ["x", {"prefix": "y"}], "b": {"c": [1]}, "$or": [{"d": [1]}, {"e": [2]}]}
    assert rewritten(rule) == rule


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"a.b": [1], "a": {"b": [2]}}, "field a.b: is named twice, with dots and as a nested field"),
        ({"a": [1], "a.b": [2]}, "field a: has conditions on its value and on fields within it"),
        ({"a.b": [2], "a": [1]}, "field a: is named twice"),
        ({"a.b": {"$or": [{"c": [1]}, {"d": [1]}]}, "a": {"b": {"$or": [{"c": [1]}, {"d": [1]}]}}}, "has an $or twice"),
        ({"$or": [{"a": [1]}]}, "field $or: is a field's name in EventBridge unless it has two patterns"),
        ({"x": {"$or": [5]}}, "field x.$or: is a field's name in EventBridge"),
        (["a"], "must be an object of fields"),
        ({".".join("a" * 33): [1]}, "nested deeper than 32"),
        ({"a.$or": ["x"]}, "a field cannot be called $or here"),
        ({"$or.x": [1]}, "a field cannot be called $or here"),
        ({"detail": {"$not": {"state": ["running"]}}}, "field detail: a field cannot be called $not here"),
        ({"detail.$not.state": ["running"]}, "a field cannot be called $not here"),
    ],
)
def test_what_has_no_equal_here(rule: Any, reason: str) -> None:
    with pytest.raises(PatternError) as error:
        rewritten(rule)
    assert reason in str(error.value)


def test_the_command_prints_subscriptions_and_names_what_it_cannot_translate(tmp_path: Path) -> None:
    text = json.dumps({"detail.state": ["stopped"]})
    rules = [
        {"Name": "stopped", "EventPattern": text, "State": "ENABLED"},
        {"Name": "off", "EventPattern": {"a": [1]}, "State": "DISABLED"},
        {"Name": "nightly", "ScheduleExpression": "rate(1 day)"},
        {"Name": "broken", "EventPattern": "{"},
        {"Name": "wrong", "EventPattern": {"a": "b"}},
        5,
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"Rules": rules}))
    result = CliRunner().invoke(app, ["translate", "eventbridge", str(file), "--subscriber", "alice"])
    assert result.exit_code == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"id": "stopped", "subscriber": "alice", "pattern": {"detail": {"state": ["stopped"]}}},
        {"id": "off", "subscriber": "alice", "pattern": {"a": [1]}, "paused": True},
    ]
    complaints = result.stderr.splitlines()
    wanted = ["the rule has a schedule", "EventPattern is not JSON", "field a: needs a list", "a rule is an object"]
    for number, reason in enumerate(wanted, 3):
        assert f"rule {number}: " in result.stderr
        assert reason in result.stderr
    assert len(complaints) >= len(wanted)

    (tmp_path / "one.json").write_text(text)
    result = CliRunner().invoke(app, ["translate", "eventbridge", str(tmp_path / "one.json"), "--subscriber", "alice"])
    assert (result.exit_code, json.loads(result.stdout)["id"]) == (0, "one")
    result = CliRunner().invoke(app, ["translate", "cobol", str(file), "--subscriber", "alice"])
    assert result.exit_code == 2
    assert "known: eventbridge" in result.stderr


def test_every_rule_of_a_file_has_an_id_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    named = {"Name": "a", "EventPattern": {"x": [1]}}
    file.write_text(json.dumps([{"source": ["a"]}, {"source": ["b"]}, named, named]))
    found = list(eventbridge.rules(file, "alice"))
    assert [one["id"] for one in found if isinstance(one, dict)] == ["rules-1", "rules-2", "a"]
    (rejected,) = (one for one in found if isinstance(one, Rejection))
    assert "an earlier rule has this id" in str(rejected)


def test_a_rule_that_is_rejected_takes_no_id_from_the_next(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(
        json.dumps([{"Name": "a", "EventPattern": {"$or": [5]}}, {"Name": "a", "EventPattern": {"x": [1]}}])
    )
    found = list(eventbridge.rules(file, "alice"))
    assert [isinstance(one, Rejection) for one in found] == [True, False]


@pytest.mark.parametrize(("schedule", "is_rejected"), [("rate(1 day)", True), ("", False)])
def test_a_rule_with_a_schedule_too_is_rejected(tmp_path: Path, schedule: str, is_rejected: bool) -> None:
    file = tmp_path / "rules.json"
    rule = {"Name": "a", "EventPattern": '{"source": ["a"]}', "ScheduleExpression": schedule}
    file.write_text(json.dumps([rule]))
    (found,) = eventbridge.rules(file, "alice")
    assert isinstance(found, Rejection) is is_rejected
