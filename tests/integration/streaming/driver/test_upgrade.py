"""Another version of Sluice takes over under load, while partitions are added: nothing is lost, and nothing twice."""

from __future__ import annotations

import json
import signal
import sys
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.integration.steady_load import Load
from tests.support.patience import PATIENCE_S
from tests.support.release import release

ENOUGH = 100  # events
FOR_ZOE = 7  # the event that is hers, too


class Release(CommandLine):
    """The code as another version, in a directory of its own, with a checkpoint of its own."""

    def __init__(self, sluice: CommandLine, home: Path, version: str) -> None:
        self.name = sluice.name
        self.environment = {**sluice.environment, "SLUICE_QUERY__CHECKPOINT": str(home / "checkpoint")}
        self._home = home
        release(home, version)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self._home / "run_stream.py"), *arguments]


def version_of(running: Job) -> str:
    url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")
    with urllib.request.urlopen(f"{url}/status.json", timeout=PATIENCE_S) as answer:
        return str(json.load(answer)["job"]["version"])


def test_another_version_takes_over_under_load_and_back(sluice: CommandLine, kafka: str, tmp_path: Path) -> None:
    deliveries = f"{sluice.name}.all"
    sluice.environment |= {"SLUICE_DELIVERIES__LAYOUT": "shared", "SLUICE_DELIVERIES__TOPIC": deliveries}
    old, new = Release(sluice, tmp_path / "old", "1.0.0"), Release(sluice, tmp_path / "new", "1.1.0")
    sluice("topics", "create", "--partitions", "2")
    sluice(
        "subscribe",
        stdin=lines(subscription("a", "alice", n=[{"exists": True}]), subscription("z", "zoe", n=[FOR_ZOE])),
    )
    load = Load(kafka, f"{sluice.name}.events")
    with ExitStack() as third_job:
        with load.running():
            with job(old, fresh=True) as first:
                first.running()
                assert version_of(first) == "1.0.0"
                first.until("at work", lambda: first.total("event_count") > ENOUGH)
                with job(new, fresh=True) as second:
                    second.running()
                    assert version_of(second) == "1.1.0"
                    assert first.ended() == 1
                    assert any("has taken over" in line for line in first.other)
                    admin = AdminClient({"bootstrap.servers": kafka})
                    admin.create_partitions([NewPartitions(load.topic, 3)])[load.topic].result(PATIENCE_S)
                    load.partitions = 3
                    second.until("at work", lambda: second.total("event_count") > ENOUGH)
                    second.process.send_signal(signal.SIGTERM)
                    assert second.ended() == 0
            old.environment["SLUICE_QUERY__CHECKPOINT"] = new.environment["SLUICE_QUERY__CHECKPOINT"]
            third = third_job.enter_context(job(old, fresh=True)).running()
            assert any(line["event"] == "state_restored" for line in third.lines)
            third.until("at work", lambda: third.total("event_count") > ENOUGH)
        records(kafka, deliveries, load.sent + 1)
    found = Counter((record.key, json.loads(record.value)["n"]) for record in records(kafka, deliveries))
    assert found == Counter([(b"zoe", FOR_ZOE), *((b"alice", n) for n in range(load.sent))])
    assert sluice("consume", "zoe") == f'{{"n": {FOR_ZOE}}}\n'
