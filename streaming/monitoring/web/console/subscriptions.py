"""The page `/subscriptions`: search them by id and by subscriber."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.console.console import Console, SubscriptionList
from streaming.monitoring.web.console.frame import ConsoleAnswer, Fields, field, form, framed, quoted, to
from streaming.monitoring.web.elements import Content, note, section, table
from streaming.monitoring.wording import number
from streaming.text_format import time_of

PATH = "/subscriptions"
COLUMNS = ("id", "subscriber", "status", "expires", "document")


def answer(console: Console, fields: Fields) -> ConsoleAnswer:
    part_of_id, subscriber = fields.get("q", ""), fields.get("subscriber", "")
    listed = console.subscriptions(part_of_id, subscriber)
    return framed(
        "Subscriptions",
        PATH,
        section(
            "Search",
            form(
                PATH,
                field("the id contains", "q", part_of_id),
                field("the subscriber is", "subscriber", subscriber),
                button="Search",
                id="search",
            ),
        ),
        section(_title(listed, subscriber), *_result(listed, part_of_id), class_="rows"),
    )


def _title(listed: SubscriptionList, subscriber: str) -> str:
    registered = f"{number(listed.total)} subscriptions"
    if listed.of_subscriber is None:
        return registered
    return f"{number(listed.of_subscriber)} of {registered} are those of {quoted(subscriber)}"


def _result(listed: SubscriptionList, part_of_id: str) -> Iterator[Content]:
    if not listed.found:
        yield note(f"none has an id that contains {quoted(part_of_id)}" if part_of_id else "none")
        return
    rows = [
        (
            to("/subscription", one.id, id=one.id),
            to(PATH, one.subscriber, subscriber=one.subscriber),
            one.status(listed.now_ms),
            "-" if one.expires_at_ms is None else time_of(one.expires_at_ms),
            f"{one.partition}:{one.offset}",
        )
        for one in listed.found
    ]
    yield table(COLUMNS, rows, texts=len(COLUMNS))
    if listed.has_more:
        yield note(f"{len(rows)} are shown and there may be more: narrow the search")
