"""Write corrupted records to both topics of the running job: `make fuzz-job MINUTES=10`.

The job must not stop. Each record that is no event or no change, by what Python's decoding of it says, must be among
the dead letters once, with its key, bytes and headers, and no other one; each change must have one status.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from config import Settings
from rig.job import JobProcess
from rig.place import PARTITIONS, place
from rig.records import RecordOrigin, origin_of, status_of
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S
from tests.faults.checking.commits import Commits
from tests.faults.load import rubbish
from tests.support.generators import workloads
from tests.support.programs.fuzz import hostile, spoiled

PER_S = 300.0  # records, of both topics together
LARGE = 0.001  # of all
MB = 1 << 20
IDS, SUBSCRIBERS = 500, 10
START_TIMEOUT_S, DONE_TIMEOUT_S = 300.0, 300.0
SHOWN = 10
TELL_S = 10.0

Headers = list[tuple[str, bytes | None]]


class Written(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers


def event(r: Random) -> Written:
    kind = r.random()
    value = (
        r.randbytes(MB) if kind < LARGE / 2
        else spoiled(r, {"x": "a" * MB}) if kind < LARGE
        else r.choice([None, b"", r.randbytes(r.randrange(300))]) if kind < 0.2
        else spoiled(r, workloads.event(r, exotic=False))
    )  # fmt: skip
    return Written(r.choice([None, b"", b"key", r.randbytes(8)]), value, headers(r))


def change(r: Random) -> Written:
    """A compacted topic takes no record without a key."""
    id = f"s{r.randrange(IDS)}"
    pattern = hostile(r) if r.random() < 0.002 else workloads.fields(r, 2)
    document = {"id": id, "subscriber": f"r{r.randrange(SUBSCRIBERS)}", "pattern": pattern}
    kind = r.random()
    value = (
        r.randbytes(MB) if kind < LARGE
        else r.choice([None, b"", r.randbytes(r.randrange(300))]) if kind < 0.2
        else spoiled(r, document)
    )  # fmt: skip
    return Written(r.choice([id.encode()] * 8 + [b"", r.randbytes(8)]), value, headers(r))


def headers(r: Random) -> Headers:
    if r.random() < 0.8:
        return []
    names = ["h", "é", "ce_id", "content-type", "sluice_reason", "ce_matchversion"]
    return [(r.choice(names), r.choice([None, b"", r.randbytes(20)])) for _ in range(r.randint(1, 4))]


def run(minutes: float, seed: int, tell: Callable[[str], None]) -> bool:
    """Whether all was right."""
    with place("spoiled") as here:
        settings, cluster = here.settings, here.cluster
        sources = {settings.events.topic: PARTITIONS, settings.subscriptions.topic: PARTITIONS}
        with (
            Commits(cluster, "spoiled", sources, [settings.events.topic]) as commits,
            JobProcess(here.flags, here.directory / "job.log", supervised=True) as job,
        ):
            job.wait_until_running(START_TIMEOUT_S)
            tell(f"the job runs; seed {seed}")
            _write(settings, cluster, Random(seed), minutes, lambda: _alive(job), tell)
            target = commits.ends()

            def done() -> bool:
                _alive(job)
                committed = commits.committed()
                return all(committed[at] >= end for at, end in target.items())

            job.wait_for("done", done, DONE_TIMEOUT_S)
            job.stop()
        wrong = list(mistakes(settings, cluster))
        for text in wrong[:SHOWN]:
            tell(f"WRONG: {text}")
        tell(f"{sum(target.values()):,} records: " + (f"{len(wrong):,} mistakes" if wrong else "all right"))
        return not wrong


def mistakes(settings: Settings, cluster: Cluster) -> Iterator[str]:
    sources = [settings.events.topic, settings.subscriptions.topic]
    bad: dict[RecordOrigin, Written] = {}
    changes: set[tuple[int, int]] = set()
    for message in _read(cluster, sources):
        at = RecordOrigin(message.topic(), message.partition(), message.offset())
        key, value = message.key(), message.value()
        is_event = at.topic == settings.events.topic
        if not (rubbish.is_event(value) if is_event else rubbish.is_change(key, value)):
            bad[at] = Written(key, value, message.headers() or [])
        if not is_event:
            changes.add((at.partition, at.offset))
    times: Counter[RecordOrigin] = Counter()
    for message in _read(cluster, [settings.dead_letters.topic]):
        own = dict(message.headers())
        at = origin_of(own)
        times[at] += 1
        kept = message.headers()[: int(own["sluice_headers"])]
        if at not in bad:
            yield f"{at} is good, but a dead letter: {own['sluice_detail'].decode()}"
        elif (message.key(), message.value(), kept) != bad[at]:
            yield f"{at} has another key, value or headers as a dead letter"
    yield from (f"{at} is {times[at]} times among the dead letters" for at in bad if times[at] != 1)
    answered: Counter[tuple[int, int]] = Counter()
    for message in _read(cluster, [settings.subscriptions.status_topic]):
        status = status_of(message.value())
        answered[status.partition, status.offset] += 1
    yield from (f"the change at {at} has {answered[at]} statuses" for at in changes if answered[at] != 1)
    yield from (f"there is a status of a change at {at}, where there is none" for at in answered.keys() - changes)


def _write(
    settings: Settings,
    cluster: Cluster,
    r: Random,
    minutes: float,
    alive: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    failed: list[str] = []
    options = cluster.client(enable_idempotence=True, linger_ms=5, message_max_bytes=8 * MB)

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.str())

    producer = Producer(options, on_delivery=delivered)
    makers = {settings.events.topic: event, settings.subscriptions.topic: change}
    end = time.monotonic() + 60 * minutes
    told = time.monotonic()
    topics = [settings.events.topic] * 2 + [settings.subscriptions.topic]
    for written, topic in enumerate(clients.paced(iter(lambda: r.choice(topics), None), PER_S)):
        one = makers[topic](r)
        producer.produce(topic, one.value, one.key, headers=[*one.headers])
        producer.poll(0)
        now = time.monotonic()
        if now - told >= TELL_S:
            told = now
            alive()
            tell(f"{written:,} records written")
        if now > end:
            break
    left = producer.flush(TIMEOUT_S)
    assert not left, f"{left} records were not taken"
    assert not failed, failed[:SHOWN]


def _alive(job: JobProcess) -> None:
    job.check()
    if job.lines("job_restarted"):
        raise JobError(f"the job has stopped and started again:\n{job.last_lines()}")


def _read(cluster: Cluster, topics: list[str]) -> Iterator[Any]:
    return (message for message in clients.read(cluster, topics, follow=False) if message is not None)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.faults.spoiling", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=None)
    given = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    seed = time.time_ns() % 2**31 if given.seed is None else given.seed

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    try:
        return 0 if run(given.minutes, seed, tell) else 1
    except JobError as error:
        tell(f"FAILED: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
