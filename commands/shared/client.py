"""Make the client of a command, and report changes, their answers and past deliveries on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import orjson

from commands.shared.flags import Answering
from commands.shared.signals import stop_on_signals
from commands.shared.terminal import counted, emit, eprint, note, out, progress_of
from config import Settings
from streaming.client import Client, WrittenChanges
from streaming.documents.starts import Start
from streaming.text_format import plain


def client_of(settings: Settings) -> Client:
    """Make a client. It shows no progress of reading a topic again, since results may be on the terminal."""
    shown: set[str] = set()

    @contextmanager
    def progress(what: str, total: int | None = None) -> Iterator[Any]:
        with progress_of(what, total, quiet=what in shown and out.is_terminal) as bar:
            shown.add(what)
            yield bar

    return Client(settings, progress)


def report(changes: WrittenChanges, what: str, settings: Settings, answering: Answering) -> list[str]:
    """Print how many changes were written and, with --wait, the job's answers. Returns the rejected ids."""
    report_written(changes.count, what, settings.subscriptions.topic, answering.as_json and not answering.wait)
    rejected = []
    for answer in changes.acks(answering.timeout_s) if answering.wait else ():
        if answer.rejected:
            rejected.append(answer.id)
        if answering.as_json:
            emit(answer, answering.as_json)
        else:
            eprint(f"{plain(answer.id)}: {answer}")
    return rejected


def deliver_all_past(
    client: Client,
    ids: Iterable[str],
    start: Start | None,
    rate: float | None,
    answering: Answering,
    rejected: Collection[str] = (),
) -> bool:
    """Deliver the past events of subscriptions that were not rejected, one after the other. Returns False if a signal
    stopped it."""
    stop = stop_on_signals()
    wanted = dict.fromkeys(id for id in ids if id not in rejected)
    return all(deliver_past(client, id, start, rate, answering, stop) for id in wanted)


def deliver_past(
    client: Client, id: str, start: Start | None, rate: float | None, answering: Answering, stop: Event
) -> bool:
    """Deliver the past events of a subscription. Returns False if `stop` ended it. Raises JobError."""
    with client.catch_up(id, start, timeout_s=answering.timeout_s) as replay:
        if replay.done == replay.size:
            events = "the past events that were not deleted" if replay.summary.deleted else "all past events"
            note(f"{plain(id)}: {events} are delivered; replay {replay.name} is finished")
        else:
            note(str(replay))
        with progress_of(f"of {replay.size:,} offsets", replay.size) as progress:
            summary = replay.run(stop, rate, progress)
    if summary.events or summary.deleted or not summary.finished:
        note(str(summary))
    if answering.as_json:
        emit(summary, answering.as_json)
    if not summary.finished:
        note(f"stopped; the same command, or `replay {id} --name {summary.name}`, resumes it")
    return summary.finished


def report_written(count: int, what: str, topic: str, as_json: bool) -> None:
    if as_json:
        print(orjson.dumps({"written": count, "topic": topic}).decode())
    else:
        note(f"{counted(count, what)} written to {topic}")
