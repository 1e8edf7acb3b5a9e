"""Run the demo: send events, read deliveries, draw both, and compare them with the definition of matching."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from commands import HOME
from config import Settings
from matchers.language import naive
from matchers.language.parsing import parse
from rig.job import JobProcess
from rig.place import Place, place
from streaming.errors import JobError
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S
from streaming.latencies import STAGES, TOTAL, Latencies

START_TIMEOUT_S = 300.0  # of the job
QUIET_S = 300.0  # the demo gives up after this time without progress
FIRST = 2_000  # events of a job that has just started: Java's code is not compiled yet
PORTION = 250  # of them at once
PATIENCE_S = 10.0  # for a portion to be matched
FIRST_ROW = f"{TOTAL}, first {FIRST:,} events"

Delivery = tuple[int, str]  # (number of the event, subscriber)


@dataclass
class Seen:
    """Batches that the job has logged and deliveries that subscribers have received, so far."""

    index: str = ""  # the algorithm that matches, and why
    published: int = 0
    processed: int = 0
    deliveries: dict[Delivery, list[bytes]] = field(default_factory=dict)  # the ids that each copy lists
    examples: list[tuple[str, str, str]] = field(default_factory=list)  # (event, subscriber, ids)
    latencies: dict[str, Latencies] = field(default_factory=lambda: {s: Latencies() for s in (*STAGES, TOTAL)})
    first: Latencies = field(default_factory=Latencies)  # in total, of the FIRST events

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Add lines of the job's log."""
        for line in lines:
            if line["event"] == "job_started":
                self.index = line["index"]
            if line["event"] == "batch_finished":
                found = {
                    stage: Latencies.from_json(latencies) for stage, latencies in line["latency_histograms"].items()
                }
                if self.processed < FIRST:
                    self.first.update(found[TOTAL])
                else:
                    for stage, latencies in found.items():
                        self.latencies[stage].update(latencies)
                self.processed += line["event_count"]


def run(events: int, rate: int, algorithm: str, pull_the_plug: bool, console: Console) -> dict[str, Any]:
    """Run the demo and return the summary. Stops everything that it starts."""
    examples = HOME / "examples"
    lines = (examples / "stock_events.jsonl").read_bytes().splitlines()
    documents = [orjson.loads(line) for line in (examples / "subscriptions.jsonl").read_bytes().splitlines()]
    with console.status("starting Kafka") as status, place("demo", {"matching.algorithm": algorithm}) as here:
        settings, cluster = here.settings, here.cluster
        console.print(f"Kafka listens on {cluster.bootstrap_servers}")
        records = ((d["id"].encode(), orjson.dumps(d)) for d in documents)
        subscriptions = clients.write(cluster, settings.subscriptions.topic, records)
        subscribers = sorted({d["subscriber"] for d in documents})
        console.print(f"{subscriptions:,} subscriptions of {len(subscribers)} subscribers are on their topic")
        seen = Seen()
        status.update("starting the job: Spark, then the subscriptions")
        with JobProcess(here.flags, here.directory / "job.log") as job:
            job.wait_until_running(START_TIMEOUT_S)
            seen.add(job.new_lines())
            console.print(f"the job runs: exactly-once deliveries, matched with {seen.index}")
            status.stop()
            with (
                _reading(cluster, settings, subscribers, seen),
                _publishing(cluster, settings, lines, events, rate, seen),
            ):
                _watch(console, job, seen, events, pull_the_plug, here)
            job.ask_to_stop()
            status.update("computing the expected deliveries")
            status.start()
            expected = _expected(documents, lines, events)
            summary = _summary(console, seen, expected, subscriptions)
            status.update("stopping the job; it saves its state")
            job.stopped()
    return summary


@contextlib.contextmanager
def _publishing(
    cluster: Cluster, settings: Settings, lines: list[bytes], events: int, rate: int, seen: Seen
) -> Iterator[None]:
    """Events with their number as key: the first as fast as the job takes them, the others at a steady rate."""
    stopped = threading.Event()

    def records() -> Iterator[tuple[bytes, bytes]]:
        numbered = enumerate(islice(cycle(lines), events))
        first = islice(numbered, FIRST)
        for number, line in chain(_one_after_the_other(first, seen, stopped), clients.paced(numbered, rate)):
            if stopped.is_set():
                return
            yield str(number).encode(), line

    def publish() -> None:
        clients.write(cluster, settings.events.topic, records(), lambda n: setattr(seen, "published", n))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _one_after_the_other(
    events: Iterator[tuple[int, bytes]], seen: Seen, stopped: threading.Event
) -> Iterator[tuple[int, bytes]]:
    """The events in portions, each when the job has matched the one before: so none waits for others."""
    sent = 0
    while portion := list(islice(events, PORTION)):
        yield from portion
        sent += len(portion)
        end = time.monotonic() + PATIENCE_S
        while seen.processed < sent and time.monotonic() < end and not stopped.is_set():
            time.sleep(0.01)


@contextlib.contextmanager
def _reading(cluster: Cluster, settings: Settings, subscribers: list[str], seen: Seen) -> Iterator[None]:
    """Read the topics of all subscribers to show what comes, and all of them once more at the end."""
    stopped = threading.Event()
    prefix = settings.deliveries.prefix
    topics = [prefix + s for s in subscribers]

    def read(messages: Iterable[Message | None]) -> None:
        for message in messages:
            if message is None:
                if stopped.is_set():
                    return
                continue
            key, value, topic = message.key(), message.value(), message.topic()
            ids = dict(message.headers() or ())["ce_subscriptionids"]
            assert key is not None
            assert value is not None
            assert topic is not None
            assert isinstance(ids, bytes)
            number, subscriber = int(key), topic.removeprefix(prefix)
            seen.deliveries.setdefault((number, subscriber), []).append(ids)
            if number % 97 == 0 or not seen.examples:
                seen.examples = [*seen.examples[-4:], (value.decode(), subscriber, ids.decode())]

    thread = threading.Thread(target=read, args=(clients.read(cluster, topics, follow=True),))
    thread.start()
    try:
        yield
        time.sleep(1.0)  # a second copy would have come by now
    finally:
        stopped.set()
        thread.join()
    seen.deliveries.clear()
    read(clients.read(cluster, topics, follow=False, settled=True))


def _watch(console: Console, job: JobProcess, seen: Seen, events: int, pull_the_plug: bool, here: Place) -> None:
    """Wait until all events are done. The offsets count for a batch whose log line was lost in a crash."""
    changed = time.monotonic()
    last = (0, 0, 0)
    pulled = False
    topic = here.settings.events.topic
    places = [TopicPartition(topic, p) for p in range(here.cluster.topics().partitions()[topic])]
    with (
        contextlib.closing(Consumer(here.cluster.client(group_id=here.settings.query.name))) as group,
        Live(console=console, refresh_per_second=4, get_renderable=lambda: _picture(seen, events)) as live,
    ):
        while True:
            job.check()
            seen.add(job.new_lines())
            now = (seen.published, seen.processed, len(seen.deliveries))
            if now != last:
                last, changed = now, time.monotonic()
            quiet = time.monotonic() - changed
            if pulled and seen.published >= events:
                committed = sum(max(0, place.offset) for place in group.committed(places, TIMEOUT_S))
            else:
                committed = seen.processed
            if committed >= events:
                break
            if quiet > QUIET_S:
                raise JobError(f"no progress for {QUIET_S:.0f} s, at {seen.processed:,} of {events:,} events")
            if pull_the_plug and not pulled and seen.published >= events // 2:
                pull_the_plug_at = seen.published
                job.kill_and_restart(START_TIMEOUT_S)
                console.print(f"kill -9 of the job after {pull_the_plug_at:,} events, and a restart")
                pulled = True
                changed = time.monotonic()
            time.sleep(0.1)
        live.refresh()


def _picture(seen: Seen, events: int) -> Group:
    counts = Text.assemble(
        ("events in ", "dim"),
        (f"{seen.published:,}/{events:,}", "bold"),
        ("   matched ", "dim"),
        (f"{seen.processed:,}", "bold"),
        ("   deliveries out ", "dim"),
        (f"{len(seen.deliveries):,}", "bold green"),
    )
    who = Table("subscriber", "because of", "event", box=None, header_style="dim", pad_edge=False)
    for event, subscriber, ids in seen.examples:
        who.add_row(subscriber, ", ".join(json.loads(ids)), Text(event, no_wrap=True, overflow="ellipsis"))
    return Group(counts, _latency_table(seen), who)


def _latency_table(seen: Seen) -> Table:
    table = Table("latency, ms", box=None, header_style="dim", pad_edge=False)
    for name in ("p50", "p95", "p99", "max"):
        table.add_column(name, justify="right")
    rows = {**seen.latencies, FIRST_ROW: seen.first}
    for name, latencies in rows.items():
        quantiles = latencies.summary().values()
        table.add_row(
            name, *("-" if ms is None else f"{ms:,.0f}" for ms in quantiles), style="bold" if name == TOTAL else ""
        )
    return table


def _expected(documents: list[dict[str, Any]], lines: list[bytes], events: int) -> dict[Delivery, list[str]]:
    """The expected deliveries with their ids, computed from the definition of matching, not from an index."""
    patterns = {d["id"]: parse(d["pattern"]) for d in documents}
    subscriber_of = {d["id"]: d["subscriber"] for d in documents}
    expected: dict[Delivery, list[str]] = {}
    matched = naive.match(patterns, (orjson.loads(line) for line in lines[:events]))
    for number in range(events):
        for id in matched[number % len(lines)]:
            expected.setdefault((number, subscriber_of[id]), []).append(id)
    return expected


def _summary(console: Console, seen: Seen, expected: dict[Delivery, list[str]], subscriptions: int) -> dict[str, Any]:
    """The summary. An unexpected delivery, or one with other ids, counts as `duplicated`."""
    copies = Counter({delivery: len(lists) for delivery, lists in seen.deliveries.items()})
    right = {
        d
        for d, ids in expected.items()
        if any(sorted(json.loads(c)) == sorted(ids) for c in seen.deliveries.get(d, ()))
    }
    summary = {
        "events": seen.published,
        "subscriptions": subscriptions,
        "deliveries": copies.total(),
        "missing": len(expected) - len(right),
        "duplicated": copies.total() - len(right),
        "latency_ms": seen.latencies[TOTAL].summary(),
        "latency_first_ms": seen.first.summary(),
    }
    console.print()
    if summary["missing"] or summary["duplicated"]:
        console.print(f"[bold red]wrong:[/] {summary['missing']:,} missing, {summary['duplicated']:,} duplicated")
    else:
        console.print(
            f"[bold green]OK:[/] {len(expected):,} deliveries expected and received, none missing, none twice. "
            "Next: docs/quick-start.md"
        )
    return summary
