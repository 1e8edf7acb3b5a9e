"""A job whose clock is hours ahead ends, since the broker rejects its records, and loses nothing."""

from __future__ import annotations

from pathlib import Path

from tests.faults.clock.clocks import ROLES, Clocks
from tests.integration.conftest import CommandLine
from tests.integration.running import job, lines, records
from tests.integration.streaming.driver.test_deleted_records import EVERYTHING, numbers, write

AHEAD_S = 7_200.0  # Kafka's message.timestamp.after.max.ms is an hour


def test_a_job_whose_clock_is_hours_ahead_ends_and_says_why(sluice: CommandLine, kafka: str, tmp_path: Path) -> None:
    clocks, topic = Clocks(tmp_path / "clocks"), f"{sluice.name}.events"
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(EVERYTHING))
    sluice.environment |= clocks.environment
    with job(sluice, "--supervise", fresh=True) as running:
        running.running()
        write(kafka, topic, 0, 10)
        running.until("done", lambda: running.total("event_count") == 10)
        for role in ROLES:
            clocks.set(role, AHEAD_S)
        write(kafka, topic, 10, 20)
        assert running.ended() == 1
    assert "invalid timestamp" in "".join(running.other) + str(running.lines[-3:])
    for role in ROLES:
        clocks.set(role, 0.0)
    with job(sluice, fresh=True) as again:
        again.running()
        again.until("done", lambda: again.total("event_count") == 10)
    assert numbers(kafka, f"{sluice.name}.to.alice") == [*range(20)]
    assert records(kafka, f"{sluice.name}.dead") == []
