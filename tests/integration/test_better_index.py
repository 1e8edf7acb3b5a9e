"""A job whose kernels are not compiled matches without an index, and changes to it between two batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson

from streaming.kernels import stamp
from tests.integration.conftest import CommandLine
from tests.integration.test_job import Job, job, lines, records, subscription


def said(running: Job, event: str) -> list[dict[str, object]]:
    return [line for line in running.lines if line["event"] == event]


def test_every_event_before_during_and_after_the_change_is_delivered_once(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    directory = stamp.places().write
    (directory / "compiled-sff.json").unlink(missing_ok=True)  # so it has to look whether they are compiled
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(*(subscription(f"s{i}", "alice", x=[{"numeric": [">=", 0]}]) for i in range(30))))
    sent = 0
    with job(sluice, "-s", "matching.algorithm=sff") as running:
        running.running()
        assert said(running, "running")[0]["subscriptions"] == 30
        (waiting,) = said(running, "compiling kernels, matching without an index")
        assert waiting["algorithm"] == "scan"

        def send() -> None:
            nonlocal sent
            sluice("produce", stdin=lines({"x": sent}))
            sent += 1
            running.until("done with the event", lambda: running.total("events") == sent)

        send()
        sluice("subscribe", "--wait", stdin=lines(subscription("t", "bob", x=[{"numeric": [">=", 0]}])))
        while not any(line["index"] == "sff" for line in said(running, "parts compacted")):
            assert sent < 200, "the index is not there"
            send()
        for _ in range(3):
            send()
    assert stamp.is_compiled("sff")
    for subscriber, first, of in (("alice", 0, 30), ("bob", 1, 1)):
        delivered = records(kafka, f"{sluice.name}.to.{subscriber}")
        assert Counter(orjson.loads(record.value)["x"] for record in delivered) == Counter(range(first, sent))
        assert {len(orjson.loads(dict(record.headers)["ce_subscriptionids"])) for record in delivered} == {of}
