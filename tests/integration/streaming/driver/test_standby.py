"""A process that stands by starts its job once the one that runs has ended: nothing is lost, and nothing twice."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

from streaming.process import checkpoint
from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.integration.steady_load import Load

ENOUGH = 50  # events


def ready(standby: Job) -> Job:
    standby.until("ready", lambda: logged(standby, "standby_ready"))
    assert not logged(standby, "job_started")
    return standby


def logged(one: Job, event: str) -> bool:
    return any(line["event"] == event for line in one.lines)


def at_work(one: Job) -> None:
    one.running().until("at work", lambda: one.total("event_count") > ENOUGH)


def test_a_standby_takes_over_from_a_killed_job_and_from_one_that_is_stopped(sluice: CommandLine, kafka: str) -> None:
    deliveries = f"{sluice.name}.all"
    sluice.environment |= {"SLUICE_DELIVERIES__LAYOUT": "shared", "SLUICE_DELIVERIES__TOPIC": deliveries}
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("a", "alice", n=[{"exists": True}])))
    load, location = Load(kafka, f"{sluice.name}.events"), Path(sluice.environment["SLUICE_QUERY__CHECKPOINT"])
    with load.running(), job(sluice, "--standby", fresh=True) as first:
        at_work(first)  # no other job runs, so it starts at once
        assert not logged(first, "standby_ready")
        with job(sluice, "--standby", fresh=True) as second:
            ready(second)
            scratch = (location / checkpoint.SCRATCH).readlink()
            first.process.send_signal(signal.SIGKILL)
            at_work(second)
            assert not scratch.exists()
            with job(sluice, "--standby", fresh=True) as third:
                ready(third)
                second.process.send_signal(signal.SIGTERM)
                assert second.ended() == 0
                at_work(third)
                with job(sluice, "--standby", fresh=True) as fourth:
                    ready(fourth).process.send_signal(signal.SIGTERM)  # one that only waited stops too
                    assert fourth.ended() == 0
                third.process.send_signal(signal.SIGTERM)
                assert third.ended() == 0
    with job(sluice, fresh=True) as last:
        last.running()
        found = Counter(json.loads(record.value)["n"] for record in records(kafka, deliveries, load.sent))
    assert found == Counter(range(load.sent))
    assert not list(location.glob("*scratch"))
