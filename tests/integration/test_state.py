"""A job that comes back: from what it saved, from what is left of that, from the topic, and divided into shards."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.integration.conftest import CommandLine
from tests.integration.test_job import Job, job, lines, records, subscription


def said(running: Job, event: str) -> list[dict[str, object]]:
    return [line for line in running.lines if line["event"] == event]


def test_a_job_goes_on_with_what_it_saved_and_without_if_that_is_spoiled(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    state = tmp_path / "checkpoint" / "state"
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(*(subscription(f"s{i}", "alice", x=[i]) for i in range(30))))
    with job(sluice) as first:
        first.running()
        assert said(first, "state built from the topic")[0]["subscriptions"] == 30
        sluice("subscribe", stdin=lines(subscription("s1", "bob", x=[1]), subscription("t", "bob", x=[2])))
        sluice("unsubscribe", "--wait", "s3")
        sluice("produce", stdin=lines({"x": 1}, {"x": 2}, {"x": 3}))
        first.until("done with three events", lambda: first.total("events") == 3)
    assert sorted(path.name[:8] for path in state.iterdir())[-1] == "version-"

    def deliveries() -> dict[str, list[bytes]]:
        return {who: sorted(r.value for r in records(kafka, f"{sluice.name}.to.{who}")) for who in ("alice", "bob")}

    assert deliveries() == {"alice": [b'{"x": 2}'], "bob": [b'{"x": 1}', b'{"x": 2}']}

    with job(sluice) as second:
        second.running()
        assert said(second, "saved state in use")[0]["subscriptions"] == 30
        sluice("produce", stdin=lines({"x": 1, "n": 2}, {"x": 3, "n": 2}))
        second.until("done with two events", lambda: second.total("events") == 2)

    newest = max(state.glob("version-*"))
    spoiled = bytearray(newest.read_bytes())
    spoiled[-100] ^= 1
    newest.write_bytes(spoiled)
    for part in state.glob("part-*"):
        part.write_bytes(part.read_bytes()[:-64])
    with job(sluice, "-s", "matching.shards=2") as third:
        third.running()
        assert said(third, "saved state not used")
        assert said(third, "state built from the topic")[0]["subscriptions"] == 30
        sluice("produce", stdin=lines({"x": 1, "n": 3}, {"x": 2, "n": 3}, {"x": 3, "n": 3}))
        third.until("done with three events", lambda: third.total("events") == 3)

    assert deliveries() == {
        "alice": [b'{"x": 2, "n": 3}', b'{"x": 2}'],
        "bob": [b'{"x": 1, "n": 2}', b'{"x": 1, "n": 3}', b'{"x": 1}', b'{"x": 2, "n": 3}', b'{"x": 2}'],
    }
    both = [r for r in records(kafka, f"{sluice.name}.to.bob") if r.value == b'{"x": 2, "n": 3}']
    assert [orjson.loads(dict(r.headers)["ce_subscriptionids"]) for r in both] == [["t"]]
