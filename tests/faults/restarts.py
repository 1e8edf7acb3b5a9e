"""Kill the driver of a supervised job again and again, and measure how long that stops deliveries.

    python -m tests.faults.restarts --subscriptions 250000 --kills 5 [--standby]

Prints a JSON line per kill: seconds from the kill to each line of the log that a start has, and the longest time
without a commit of new events. With --standby a second process stands by. All deliveries are checked at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from functools import partial

from rig import reading
from rig.check import Answer, check
from rig.child import Child
from rig.job import JobProcess
from rig.load import Load
from rig.place import PARTITIONS, START_TIMEOUT_S, Place, place
from rig.processes import kill
from rig.setting import setting
from tests.faults.checking.commits import Commits

STEPS = ("process_started", "standby_started", "monitoring_started", "state_restored", "job_started")
WARM_S = 25.0  # between two kills: the supervisor has prepared the next start by then
NAME = "restarts"


def main(load: Load, kills: int, standby: bool, settings: dict[str, str]) -> bool:
    with place(NAME, {"deliveries.layout": "shared", **settings}) as here, ExitStack() as stack:
        topics = here.settings.subscriptions.topic, here.settings.events.topic
        generator = stack.enter_context(Child("rig.generator", here.writing(load)))
        generator.wait_for("subscriptions")
        log = here.directory / "job.log"
        job = stack.enter_context(JobProcess(here.flags, log, supervised=True, stands_by=standby))
        job.wait_until_running(START_TIMEOUT_S)
        generator.go()
        commits = stack.enter_context(Commits(here.cluster, NAME, dict.fromkeys(topics, PARTITIONS), topics[1]))
        for _ in range(kills):
            if standby:
                job.wait_for("ready", partial(_is_ready, job), START_TIMEOUT_S)
            time.sleep(WARM_S)
            print(json.dumps(_killed(job, commits)), flush=True)  # noqa: T201
        generator.wait_for("done")
        end = sum(commits.ends().values())
        job.wait_for("done", lambda: sum(commits.committed().values()) >= end, START_TIMEOUT_S)
        answer = _answer(here)
        job.stop()
    print(json.dumps({"right": answer.right, **answer.as_data()}), flush=True)  # noqa: T201
    return answer.right


def _killed(job: JobProcess, commits: Commits) -> dict[str, float]:
    """Kill the driver; return the seconds until each step of a start, and the longest ones without a commit of new
    events."""
    began_s, at = time.monotonic(), time.time()
    running = job.lines("job_started")[-1]["pid"]
    kill([driver for driver in job.tree().drivers if driver.pid == running])
    job.wait_for("running", lambda: _at(job, "job_started") > at, START_TIMEOUT_S)
    seen = len(commits.seen)
    job.wait_for("at work", lambda: _events(commits, -1) > _events(commits, seen - 1), START_TIMEOUT_S)
    steps = {step: round(_at(job, step) - at, 2) for step in STEPS if _at(job, step) > at}
    return {**steps, "without_commit": round(commits.longest_gap_s(began_s, time.monotonic()), 2)}


def _events(commits: Commits, number: int) -> int:
    return sum(commits.events_of(commits.seen[number]).values())


def _is_ready(job: JobProcess) -> bool:
    """Whether another process stands by for the one that runs."""
    return _at(job, "standby_ready") > _at(job, "standby_started")


def _at(job: JobProcess, event: str) -> float:
    """When it last logged such a line (epoch s); 0 if never."""
    lines = job.lines(event)
    return datetime.fromisoformat(lines[-1]["timestamp"]).timestamp() if lines else 0.0


def _answer(here: Place) -> Answer:
    changes = reading.read_changes(here.cluster, here.settings.subscriptions.topic)
    statuses = reading.read_statuses(here.cluster, here.settings.subscriptions.status_topic, changes, PARTITIONS)
    events = reading.read_events(here.cluster, here.settings.events.topic)
    return check(changes, statuses, events, reading.read_deliveries(here.cluster, here.deliveries(), events, None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=250_000)
    parser.add_argument("--rate", type=float, default=1_000.0, help="events per second")
    parser.add_argument("--changes", type=float, default=10.0, help="changes per second")
    parser.add_argument("--minutes", type=float, default=3.0, help="of the load")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--standby", action="store_true", help="a second process stands by")
    parser.add_argument(
        "--set", action="append", default=[], type=setting, metavar="NAME=VALUE", help="a setting of the job"
    )
    given = parser.parse_args()
    wanted = Load(
        subscriptions=given.subscriptions,
        events_per_second=given.rate,
        changes_per_second=given.changes,
        minutes=given.minutes,
    )
    sys.exit(0 if main(wanted, given.kills, given.standby, dict(given.set)) else 1)
