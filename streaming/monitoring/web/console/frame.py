"""The frame of the console's pages: navigation, a title, forms, and the times and links that they share."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from streaming.documents.subscriber_metrics import LookedUp
from streaming.monitoring.web.elements import Content, element, link, navigation, note, page
from streaming.monitoring.wording import readable
from streaming.text_format import cut, time_of

MOST_QUOTED = 100  # characters of what was typed


class ConsoleAnswer(NamedTuple):
    status: HTTPStatus
    html: bytes


Fields = Mapping[str, str]  # of a form, by name


def framed(
    title: str, current: str, *content: Element, status: HTTPStatus = HTTPStatus.OK, heading: str = ""
) -> ConsoleAnswer:
    """A page; `current` is the path of the link that is marked."""
    header = element("header", element("h1", heading or title))
    return ConsoleAnswer(status, page(title, [navigation(current), header, element("main", *content, class_="column")]))


def form(action: str, *fields: Element, button: str, id: str) -> Element:
    return element("form", *fields, element("button", button), action=action, method="get", id=id)


def field(label: str, name: str, value: str, *, kind: str = "search", **attributes: str) -> Element:
    """A line to type in, below its label."""
    box = element(
        "input", type=kind, name=name, id=name, value=value, autocomplete="off", spellcheck="false", **attributes
    )
    return element("p", element("label", label, for_=name), box)


def to(path: str, text: str, **fields: str) -> Element:
    """A link to a page, with the fields of its form."""
    return link(text, f"{path}?{urlencode(fields, errors='surrogatepass')}")


def quoted(text: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{readable(cut(text, MOST_QUOTED))}\N{RIGHT DOUBLE QUOTATION MARK}"


def when(ms: int) -> str:
    """A time, to the second."""
    text = time_of(ms)
    return f"{text[:19]} UTC" if text.endswith("Z") else text


def word(text: str) -> Element:
    """A text that stays on one line."""
    return element("span", text, class_="word")


def incomplete(metrics: LookedUp | None) -> list[Element]:
    """A note on metrics that lack the sums of earlier processes."""
    if metrics is None or metrics.is_whole:
        return []
    return [note("counted since this start of the job: what was counted before is still being read")]


def problem(*content: Content) -> Element:
    return element("p", *content, class_="bad", role="alert")
