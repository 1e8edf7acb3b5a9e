"""The page `/subscribers`: search them by name."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.console.console import Console, SubscriberList
from streaming.documents.subscriber_metrics import SubscriberMetrics
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
from streaming.monitoring.wording import number, size

PATH = "/subscribers"
COLUMNS = ("subscriber", "subscriptions", "deliveries", "bytes", "dead letters", "last event")
NO_METRICS = ("-",) * 4


def answer(console: Console, fields: Fields) -> ConsoleAnswer:
    part_of_name = fields.get("q", "")
    search = form(PATH, field("the name contains", "q", part_of_name), button="Search", id="search")
    result = _result(console.subscribers(part_of_name), part_of_name)
    return framed("Subscribers", PATH, section("Search", search), section("Subscribers", *result, class_="rows"))


def _result(listed: SubscriberList, part_of_name: str) -> Iterator[Content]:
    if not listed.found:
        yield note(f"none has a name that contains {quoted(part_of_name)}" if part_of_name else "none")
        return
    metrics = listed.metrics.subscribers if listed.metrics is not None else {}
    rows: list[tuple[Content, ...]] = [
        (
            to("/subscriptions", name, subscriber=name),
            number(n),
            *(_metrics(metrics[name]) if name in metrics else NO_METRICS),
        )
        for name, n in listed.found
    ]
    yield table(COLUMNS, rows)
    if listed.has_more:
        yield note(f"{len(rows)} are shown and there may be more: narrow the search")
    if listed.metrics is None:
        yield note("deliveries are not counted: metrics.topic is empty")
    yield from incomplete(listed.metrics)


def _metrics(counts: SubscriberMetrics) -> tuple[str, ...]:
    return (
        number(counts.deliveries),
        size(counts.size_bytes),
        number(sum(counts.dead_letters.values())),
        when(counts.last_event_ms) if counts.last_event_ms else "-",
    )
