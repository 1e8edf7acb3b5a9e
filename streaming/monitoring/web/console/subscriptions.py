"""The page `/subscriptions`: search them by id and by subscriber."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.console.console import Console, SubscriptionList
from streaming.documents.subscriber_metrics import SubscriptionMetrics
from streaming.monitoring.web.console.frame import (
    ConsoleAnswer,
    Fields,
    field,
    form,
    framed,
    incomplete,
    quoted,
    to,
    when,
)
from streaming.monitoring.web.elements import Content, note, section, table
from streaming.monitoring.wording import number

PATH = "/subscriptions"
COLUMNS = ("id", "subscriber", "status", "expires", "document")
COUNTED = ("matches", "last event")  # the columns behind them, if subscriptions are counted


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
        section(_title(listed, subscriber), *_result(console, listed, part_of_id), class_="rows"),
    )


def _title(listed: SubscriptionList, subscriber: str) -> str:
    registered = f"{number(listed.total)} subscriptions"
    if listed.of_subscriber is None:
        return registered
    return f"{number(listed.of_subscriber)} of {registered} are those of {quoted(subscriber)}"


def _result(console: Console, listed: SubscriptionList, part_of_id: str) -> Iterator[Content]:
    if not listed.found:
        yield note(f"none has an id that contains {quoted(part_of_id)}" if part_of_id else "none")
        return
    metrics = listed.metrics and listed.metrics.subscriptions
    rows: list[tuple[Content, ...]] = [
        (
            to("/subscription", subscription.id, id=subscription.id),
            to(PATH, subscription.subscriber, subscriber=subscription.subscriber),
            subscription.status(listed.now_ms),
            "-" if subscription.expires_at_ms is None else when(subscription.expires_at_ms),
            console.place(subscription),
            *(() if metrics is None else _metrics(metrics.get(subscription.id))),
        )
        for subscription in listed.found
    ]
    yield table(COLUMNS if metrics is None else (*COLUMNS, *COUNTED), rows, texts=len(COLUMNS))
    yield from incomplete(listed.metrics if metrics is not None else None)
    if listed.has_more:
        yield note(f"{len(rows)} are shown and there may be more: narrow the search")


def _metrics(counts: SubscriptionMetrics | None) -> tuple[str, str]:
    if counts is None:
        return "0", "-"
    return number(counts.matches), when(counts.last_event_ms) if counts.last_event_ms else "-"
