"""A pattern against the events of a topic, before anybody subscribes."""

from __future__ import annotations

import json

from streaming.kafka.topics import Topic, Topics
from streaming.text_format import time_of
from tests.integration.conftest import CommandLine
from tests.integration.streaming.admin.test_replay import BEGIN_MS, produce


def test_what_a_pattern_would_have_matched(sluice: CommandLine, kafka: str) -> None:
    settings = sluice.settings()
    assert Topics(kafka, {}).create([Topic(settings.events.topic, 2)]) == {}
    events = [(n % 2, n, json.dumps({"n": n}).encode(), None) for n in range(100)]
    produce(settings, *events, (0, 50, b"{not json", None))
    begin, end = time_of(BEGIN_MS + 10_000, "T"), time_of(BEGIN_MS + 90_000, "T")
    pattern = '{"n": [{"numeric": [">=", 50]}], "$partition": [1]}'
    found = json.loads(sluice("backtest", pattern, "--from", begin, "--to", end, "--examples", "1", "--json"))
    steps = found.pop("steps")
    (example,) = found.pop("examples")
    assert found == {
        "topic": settings.events.topic,
        "events": 80,
        "matched": 20,
        "unread": 0,
        "deleted": 0,
        "step_s": 10,
        "finished": True,
    }
    assert sum(step["matched"] for step in steps) == 20
    assert (example["partition"], example["offset"], json.loads(example["value"])) == (1, 25, {"n": 51})
    first, *_ = sluice("backtest", "{}", "--from", "1d").splitlines()
    assert first == f"100 of 101 events in {settings.events.topic} match (99 %); 1 could not be read"
    assert "needs a list of what it may be" in sluice("backtest", '{"n": 5}', code=1)


def test_wrong_arguments_are_named(sluice: CommandLine) -> None:
    assert "not JSON" in sluice("backtest", "{", code=2)
    assert "--from must be before --to" in sluice("backtest", "{}", "--from", "1h", "--to", "2h", code=2)
