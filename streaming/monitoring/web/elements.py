"""Build pages as trees of elements, so that every text in them is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from streaming.monitoring.wording import readable

STYLE, SCRIPT = (Path(__file__).with_name(name).read_text() for name in ("page.css", "page.js"))


def hash_of(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {hash_of(STYLE)}; script-src {hash_of(SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGES = (
    ("/", "Status"),
    ("/subscriptions", "Subscriptions"),
    ("/subscribers", "Subscribers"),
    ("/match", "Match an event"),
    ("/dead-letters", "Dead letters"),
)

Content = Element | str


def page(title: str, body: Sequence[Element], head: Sequence[Element] = ()) -> bytes:
    """A whole page."""
    root = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", title),
            element("style", STYLE),
            *head,
        ),
        element("body", *body),
        lang="en",
    )
    written: bytes = tostring(root, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + written


def navigation(current: str) -> Element:
    """Links to all pages; `current` is the path of the one that shows them."""
    links = (link(title, path, **({"aria-current": "page"} if path == current else {})) for path, title in PAGES)
    return element("nav", *links, **{"aria-label": "Pages"})


def link(text: str, href: str, **attributes: str) -> Element:
    return element("a", text, href=href, **attributes)


def note(*content: Content) -> Element:
    return element("div", *content, class_="dim")


def section(title: str, *content: Content, class_: str = "") -> Element:
    return element("section", element("h2", title), *content, **({"class_": class_} if class_ else {}))


def table(head: Sequence[str], rows: Iterable[Sequence[Content]], texts: int = 1) -> Element:
    """The first `texts` columns are texts, the others numbers."""

    def row(cells: Sequence[Content], tag: str) -> Element:
        elements = (element(tag, cell, **({} if i < texts else {"class_": "number"})) for i, cell in enumerate(cells))
        return element("tr", *elements)

    return element("table", *([row(head, "th")] if head else ()), *(row(cells, "td") for cells in rows))


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """An element; the attribute `class`, which is a word of Python, is passed as `class_`, and `for` as `for_`."""
    made = Element(tag, {name.removesuffix("_"): readable(value) for name, value in attributes.items()})
    last: Element | None = None
    for child in content:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + readable(child)
        else:
            last.tail = (last.tail or "") + readable(child)
    return made
