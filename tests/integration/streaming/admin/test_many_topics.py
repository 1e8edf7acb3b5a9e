"""Commands on several topics of events."""

from __future__ import annotations

import json
from collections import Counter

from tests.integration.conftest import CommandLine
from tests.integration.running import job, lines, records, subscription


def test_commands_know_the_topic_of_each_event(sluice: CommandLine, kafka: str) -> None:
    orders, trades = (f"{sluice.name}.{topic}" for topic in ("orders", "trades"))
    del sluice.environment["SLUICE_EVENTS__TOPIC"]
    sluice.environment["SLUICE_EVENTS__TOPICS"] = f"{orders},{trades}"
    sluice("topics", "create", "--partitions", "1")
    sluice("subscribe", stdin=lines(subscription("a", "alice", x=[1])))
    assert f"choose one of {orders}, {trades}" in sluice("produce", stdin=lines({"x": 1}), code=2)
    assert "is not a topic of events; choose one of" in sluice(
        "produce", "--topic", "other", stdin=lines({"x": 1}), code=2
    )
    sluice("produce", "--topic", orders, stdin=lines({"x": 1}, {"x": 2}))
    sluice("produce", "--topic", trades, stdin=lines({"x": 1}, "{bad", {"x": 1}))
    with job(sluice) as running:
        running.running()
        running.until("done", lambda: running.total("event_count") == 5)
    expected = [f"{orders}-0-0", f"{trades}-0-0", f"{trades}-0-2"]
    ids = [dict(record.headers)["ce_id"].decode() for record in records(kafka, f"{sluice.name}.to.alice")]
    assert sorted(ids) == expected

    letter = json.loads(sluice("dlq", "list", "--json"))
    assert (letter["origin"]["topic"], letter["origin"]["offset"]) == (trades, 1)
    sluice("dlq", "redrive", "--all-letters")
    assert [record.value for record in records(kafka, trades)][3:] == [b"{bad"]
    assert len(records(kafka, orders)) == 2

    found = json.loads(sluice("backtest", '{"x": [1]}', "--json"))
    assert (found["events"], found["matched"], found["unread"]) == (6, 3, 2)
    assert sorted((one["topic"], one["offset"]) for one in found["examples"]) == [(orders, 0), (trades, 0), (trades, 2)]
    summary = json.loads(sluice("replay", "a", "--from", "1h", "--name", "again", "--json"))
    assert (summary["events"], summary["delivered"], summary["finished"]) == (6, 3, True)
    sluice("replay", "a", "--name", "again")  # it is finished
    replayed = [dict(record.headers) for record in records(kafka, f"{sluice.name}.to.alice")][3:]
    assert Counter(headers["ce_id"].decode() for headers in replayed) == Counter(expected)
    assert {headers["sluice_replay"] for headers in replayed} == {b"again"}
    assert {f"topic {orders}", f"topic {trades}"} <= {
        json.loads(line)["check"] for line in sluice("doctor", "--json").splitlines()
    }
    assert f"{trades} " in sluice("dlq", "list", "--all")
