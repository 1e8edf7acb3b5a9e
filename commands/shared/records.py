"""Write records to topics and read them, with progress on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
from confluent_kafka import Message

from commands.shared.flags import Answering
from commands.shared.terminal import counted, emit, eprint, note, out, progress_of
from config import Settings
from streaming.admin import change_acks
from streaming.admin.subscription_topic import Read, decided
from streaming.documents.change_order import Decisions
from streaming.kafka import clients
from streaming.kafka.clients import Cluster
from streaming.text_format import plain


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
        note(f"{counted(written, what)} written to {topic}")


def changed(settings: Settings, records: Iterable[clients.Writable], what: str, answering: Answering) -> int:
    """Write to the subscriptions topic and, if asked to wait, print the job's answers. Returns the number refused."""
    pending = change_acks.PendingChanges()
    starts = change_acks.starts(Cluster.of(settings), settings.subscriptions.status_topic) if answering.wait else {}
    taken = pending.take if answering.wait else lambda _: None
    write(settings, settings.subscriptions.topic, records, what, answering.as_json and not answering.wait, taken)
    refused = 0
    for answer in change_acks.answers(Cluster.of(settings), starts, pending, answering.timeout_s):
        refused += answer.refused
        if answering.as_json:
            emit(answer, answering.as_json)
        else:
            eprint(f"{plain(answer.id)}: {answer}")
    return refused


def subscriptions_topic(settings: Settings) -> Read:
    return reader(settings, settings.subscriptions.topic, "documents read")


def decisions(settings: Settings) -> Decisions:
    """The last decision of the job on each id."""
    statuses = reader(settings, settings.subscriptions.status_topic, "statuses read")
    return decided(Cluster.of(settings).topics(), settings, statuses)


def reader(settings: Settings, topic: str, what: str) -> Read:
    """A function that reads a topic from its first record to its present end, as often as it is called.

    The first call shows progress; later calls do not, since results may be on the terminal already.
    """
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
