"""The page `/match`: which subscriptions match an event, and why one of them does or does not."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from xml.etree.ElementTree import Element

from streaming.console.console import Console, EventRejected, MatchAnswer
from streaming.documents.verdicts import SubscriptionVerdict
from streaming.monitoring.web.console.frame import ConsoleAnswer, Fields, field, form, framed, problem, quoted, to
from streaming.monitoring.web.elements import Content, element, note, section, table
from streaming.monitoring.wording import number

PATH = "/match"
FORM = "match"
EXAMPLE = '{"symbol": "IBM", "price": 120.5}'


def answer(console: Console, fields: Fields) -> ConsoleAnswer:
    event, id = fields.get("event", ""), fields.get("id", "")
    status = HTTPStatus.OK
    results: list[Element] = []
    if event.strip():
        try:
            results = list(_results(console.matches(event, id), id))
        except EventRejected as error:
            status, results = HTTPStatus.BAD_REQUEST, [problem(f"This is not an event: {error}")]
    return framed("Match an event", PATH, section("Event", _form(event, id)), *results, status=status)


def _form(event: str, id: str) -> Content:
    box = element(
        "textarea",
        f"\n{event}",
        name="event",
        id="event",
        rows="5",
        spellcheck="false",
        required="",
        placeholder=EXAMPLE,
    )
    return form(
        PATH,
        element(
            "p", element("label", "the event as JSON, decoded if your topic has another format", for_="event"), box
        ),
        field("explain this subscription too (its id)", "id", id, kind="text"),
        button="Match",
        id=FORM,
    )


def _results(matched: MatchAnswer, id: str) -> Iterator[Element]:
    if matched.verdict is not None:
        yield section(f"Why {quoted(id)}", *_why(matched.verdict), class_="rows")
    elif id:
        yield section(f"Why {quoted(id)}", problem(f"{quoted(id)} cannot be explained: {matched.problem}"))
    total, shown, unverified = matched.matches
    rows = [
        (
            to("/subscription", one, id=one),
            to("/subscriptions", subscriber, subscriber=subscriber),
            element("button", "why", form=FORM, name="id", value=one),
        )
        for one, subscriber in shown
    ]
    content: list[Content] = [table(("id", "subscriber", ""), rows, texts=3)] if rows else [note("none")]
    if total > len(rows):
        content.append(note(f"{len(rows)} are shown"))
    if unverified:
        left_out = (
            f"up to {number(unverified)} more were left out: each would have to be compared with the event itself"
        )
        content.append(note(left_out))
    if matched.max_per_event and total > matched.max_per_event:
        most = f"more than matching.max_per_event = {number(matched.max_per_event)}: the job makes it a dead letter"
        content.append(problem(most))
    title = "1 subscription matches it now" if total == 1 else f"{number(total)} subscriptions match it now"
    yield section(title, *content, class_="rows")


def _why(verdict: SubscriptionVerdict) -> Iterator[Content]:
    word = "matches" if verdict.matches else verdict.idle or "does not match"
    yield element("p", f"{verdict.id} ({verdict.subscriber}): {word}", class_="good" if verdict.matches else "bad")
    for line in verdict.lines:
        yield element("pre", str(line), class_="good" if line.held else "bad")
    if not verdict.lines:
        yield note("its pattern {} matches every event")
