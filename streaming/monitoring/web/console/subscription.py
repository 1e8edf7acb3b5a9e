"""The page `/subscription`: one subscription, its document and its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from xml.etree.ElementTree import Element

from streaming.console.console import Console, SubscriptionDetails
from streaming.documents.subscriber_metrics import LookedUp
from streaming.monitoring.web.console.frame import ConsoleAnswer, Fields, framed, incomplete, problem, quoted, to, when
from streaming.monitoring.web.elements import Content, element, note, section, table
from streaming.monitoring.wording import number, size
from streaming.text_format import pretty

PATH = "/subscription"


def answer(console: Console, fields: Fields) -> ConsoleAnswer:
    id = fields.get("id", "")
    details = console.subscription(id)
    if details is None:
        why = (
            f"No subscription in force or paused has the id {quoted(id)}. ",
            element("code", "run_stream.py subscriptions status ID"),
            " tells whether it was unsubscribed or rejected, or waits.",
        )
        return framed("No such subscription", "/subscriptions", problem(*why), status=HTTPStatus.NOT_FOUND)
    found, document = details.found, details.document
    facts: list[tuple[Content, Content]] = [
        ("status", found.status(details.now_ms)),
        ("subscriber", to("/subscriptions", found.subscriber, subscriber=found.subscriber)),
        ("expires", "-" if found.expires_at_ms is None else when(found.expires_at_ms)),
        ("document", console.place(found)),
    ]
    return framed(
        f"Subscription {quoted(id)}",
        "/subscriptions",
        section("Facts", table((), facts, texts=2), note(to("/match", "Does it match an event?", id=id))),
        section("Document", problem(document.problem) if document.problem else _text(document.text), class_="rows"),
        *_metrics(details),
        heading=id,
    )


def _text(document: bytes) -> Content:
    return element("pre", "\n".join(pretty(document)), tabindex="0")


def _metrics(details: SubscriptionDetails) -> Iterator[Element]:
    yield section("Metrics of this subscription", *_of_subscription(details.metrics, details.found.id))
    of_subscriber = _of_subscriber(details.metrics, details.found.subscriber)
    yield section(f"Metrics of {details.found.subscriber}", *of_subscriber, *incomplete(details.metrics))


def _of_subscription(metrics: LookedUp | None, id: str) -> Iterator[Content]:
    if metrics is None or metrics.subscriptions is None:
        yield note("not counted: metrics.subscriptions is false")
    elif (counts := metrics.subscriptions.get(id)) is None:
        yield note("no event has matched it")
    else:
        last = when(counts.last_event_ms) if counts.last_event_ms else "-"
        yield table((), [("matches", number(counts.matches)), ("last event", last), ("since", when(counts.since_ms))])


def _of_subscriber(metrics: LookedUp | None, name: str) -> Iterator[Content]:
    if metrics is None:
        yield note("not counted: metrics.topic is empty")
    elif (counts := metrics.subscribers.get(name)) is None:
        yield note("nothing was delivered")
    else:
        facts = [
            ("deliveries", number(counts.deliveries)),
            ("bytes", size(counts.size_bytes)),
            ("matches", number(counts.matches)),
            *((f"dead letters, {reason}", number(n)) for reason, n in counts.dead_letters.items()),
            ("last event", when(counts.last_event_ms) if counts.last_event_ms else "-"),
            ("since", when(counts.since_ms)),
        ]
        yield table((), facts)
