"""The client of a command, with progress on the terminal, and the answers to its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from commands.shared.flags import Answering
from commands.shared.terminal import counted, emit, eprint, note, out, progress_of
from config import Settings
from streaming.client import Client, WrittenChanges
from streaming.text_format import plain


def client_of(settings: Settings) -> Client:
    """The client of a command. A topic that it reads a second time shows no progress: the terminal may have results."""
    shown: set[str] = set()

    @contextmanager
    def progress(what: str, total: int | None = None) -> Iterator[Any]:
        with progress_of(what, total, quiet=what in shown and out.is_terminal) as bar:
            shown.add(what)
            yield bar

    return Client(settings, progress)


def report(changes: WrittenChanges, what: str, settings: Settings, answering: Answering) -> int:
    """Print how many changes were written and, if asked to wait, the job's answers. Returns the number refused."""
    report_written(changes.count, what, settings.subscriptions.topic, answering.as_json and not answering.wait)
    refused = 0
    for answer in changes.acks(answering.timeout_s) if answering.wait else ():
        refused += answer.refused
        if answering.as_json:
            emit(answer, answering.as_json)
        else:
            eprint(f"{plain(answer.id)}: {answer}")
    return refused


def report_written(count: int, what: str, topic: str, as_json: bool) -> None:
    if as_json:
        print(orjson.dumps({"written": count, "topic": topic}).decode())
    else:
        note(f"{counted(count, what)} written to {topic}")
