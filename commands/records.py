"""Records, written to topics and read from them; the terminal says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
from confluent_kafka import Message

from commands.flags import Answering
from commands.terminal import out, progress_of, say, show, tell
from config import Settings
from offline.documents import plain
from streaming import activation, clients
from streaming.clients import Cluster
from streaming.registered import Read


def write(
    settings: Settings,
    topic: str,
    records: Iterable[clients.Writable],
    what: str,
    as_json: bool = False,
    taken: Callable[[Any], None] = lambda _: None,
) -> None:
    with progress_of(f"{what} to {topic}") as progress:
        written = clients.write(Cluster.of(settings), topic, records, progress, taken)
    if as_json:
        print(orjson.dumps({"written": written, "topic": topic}).decode())
    else:
        tell(f"{written:,} {what} written to {topic}")


def changed(settings: Settings, records: Iterable[clients.Writable], what: str, asked: Answering) -> int:
    """Write to the subscriptions topic and, if asked to wait, say what the job answers; returns how many it refused."""
    outstanding = activation.Outstanding()
    starts = activation.starts(Cluster.of(settings), settings.subscriptions.status_topic) if asked.wait else {}
    taken = outstanding.take if asked.wait else lambda _: None
    write(settings, settings.subscriptions.topic, records, what, asked.as_json and not asked.wait, taken)
    refused = 0
    for answer in activation.answers(Cluster.of(settings), starts, outstanding, asked.timeout_s):
        refused += answer.refused
        if asked.as_json:
            show(answer, asked.as_json)
        else:
            say(f"{plain(answer.id)}: {answer}")
    return refused


def subscriptions_topic(settings: Settings) -> Read:
    return reader(settings, settings.subscriptions.topic, "documents read")


def reader(settings: Settings, topic: str, what: str) -> Read:
    """A topic from its first record to its present end, as often as it is called. The first time it shows how far it
    is; later what was found may be on the terminal already."""
    calls = 0

    def read() -> Iterator[Message | None]:
        nonlocal calls
        calls += 1
        with progress_of(what, quiet=calls > 1 and out.is_terminal) as progress:
            for count, message in enumerate(clients.read(Cluster.of(settings), [topic], follow=False)):
                if count % 1_000 == 0:
                    progress(count)
                yield message

    return read
