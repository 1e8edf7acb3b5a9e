"""The status as a page for people. It is built as a tree of elements, so every text in it is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from streaming.monitoring.status import Document
from streaming.monitoring.wording import STAGES, duration, moment, number, readable, seconds, size

_STYLE, _SCRIPT = (Path(__file__).with_name(name).read_text() for name in ("page.css", "page.js"))


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEIGHT = 40

Content = Element | str


def html(found: Document) -> bytes:
    job = found["job"]
    root = _element(
        "html",
        _element(
            "head",
            _element("meta", charset="utf-8"),
            _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            _element("title", f"{job['query']}: {job['phase']}"),
            _element("style", _STYLE),
        ),
        _element("body", _header(found), _main(found), _element("script", _SCRIPT)),
        lang="en",
    )
    written: bytes = tostring(root, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + written


def _header(found: Document) -> Element:
    job = found["job"]
    badges = [
        _element("span", yes if found[of]["ok"] else no, **{"class": "badge good" if found[of]["ok"] else "badge bad"})
        for of, yes, no in (("health", "alive", "not alive"), ("ready", "ready", "not ready"))
    ]
    return _element(
        "header",
        _element("h1", job["query"]),
        *badges,
        _element("span", f"{job['phase']} for {duration(job['uptime_s'])}", **{"class": "dim"}),
        _element("span", "the job does not answer", id="silent", **{"class": "badge bad"}),
    )


def _main(found: Document) -> Element:
    reasons = [_element("div", why, **{"class": "bad"}) for of in ("health", "ready") for why in found[of]["reasons"]]
    return _element(
        "main",
        *([_section("Why not", *reasons)] if reasons else ()),
        _rate("Events a second", "events_per_s", found),
        _rate("Deliveries a second", "deliveries_per_s", found),
        _late(found),
        _lag(found),
        _what(found),
        _who(found),
        _totals(found),
        _letters(found),
        _spark(found),
        _troubles(found),
    )


def _rate(title: str, name: str, found: Document) -> Element:
    values, step_s = found["history"][name], found["history"]["step_s"]
    most = max(values, default=0.0)
    return _section(
        title,
        _element("span", number(found["rates"][name]), **{"class": "large"}),
        _element("span", " in the last minute", **{"class": "dim"}),
        _curve(values, most),
        _element("div", f"{duration(step_s * len(values))}, at most {number(most)}", **{"class": "dim"}),
    )


def _curve(values: Sequence[float], most: float) -> Element:
    top = HEIGHT - 2
    points = " ".join(f"{x},{HEIGHT - 1 - (top * value / most if most else 0):.1f}" for x, value in enumerate(values))
    width = max(1, len(values) - 1)
    line = _element("polyline", points=points)
    ground = _element("line", x1="0", y1=str(HEIGHT - 1), x2=str(width), y2=str(HEIGHT - 1))
    box = {"viewBox": f"0 0 {width} {HEIGHT}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return _element("svg", ground, line, **box)


def _late(found: Document) -> Element:
    quantiles = ("p50", "p95", "p99", "max")
    rows = [
        (STAGES[stage], *(seconds(latency[q]) if latency else "-" for q in quantiles))
        for stage, latency in found["latency_s"].items()
    ]
    table = _table(("of events that matched", *quantiles), rows)
    return _section("How late, in the last five minutes", table)


def _lag(found: Document) -> Element:
    rows = [(lag["topic"], str(lag["partition"]), number(lag["records"])) for lag in found["lag"]]
    at = found["last_batch_at"]
    last = f"the last batch was done {moment(at)}" if at else "no batch yet"
    about = [_element("div", last, **{"class": "dim"})]
    if found["broker"]["error"]:
        about.append(_element("div", found["broker"]["error"], **{"class": "bad"}))
    return _section("How far behind", _table(("topic", "partition", "records"), rows, texts=1), *about)


def _what(found: Document) -> Element:
    state = found["state"]
    if state is None:
        return _section("Subscriptions", _element("div", "being restored", **{"class": "dim"}))
    joins = f"{number(state['joins'])}{', one is being done' if state['joining'] else ''}"
    facts = [
        ("subscriptions", number(state["subscriptions"])),
        ("version", number(state["version"])),
        ("parts", number(state["parts"])),
        ("bytes", size(state["bytes"])),
        ("joins of parts", joins),
    ]
    return _section("Subscriptions", _table((), facts))


def _who(found: Document) -> Element:
    job = found["job"]
    facts = [
        ("query", job["query"]),
        ("Sluice", job["version"]),
        ("algorithm", job["algorithm"]),
        ("codec", job["codec"]),
        ("process", str(job["pid"])),
        ("started", moment(job["started_at"])),
        ("ran after", duration(job["start_s"]) if job["start_s"] else "-"),
    ]
    if job["restarts"] is not None:
        code = job["last_exit_code"]
        facts.append(("started again", number(job["restarts"]) + (f", last after exit code {code}" if code else "")))
    return _section("Job", _table((), facts))


def _totals(found: Document) -> Element:
    return _section(
        "Since the start", _table((), [(name.replace("_", " "), number(n)) for name, n in found["totals"].items()])
    )


def _letters(found: Document) -> Element:
    rows = [(reason, number(n)) for reason, n in found["dead_letters"].items()]
    return _section("Dead letters, since the start", _table((), rows) if rows else _none())


def _spark(found: Document) -> Element:
    spark = found["spark"]
    rows = [(phase, seconds(s)) for phase, s in spark["phases_s"].items()]
    rows += [(f"heap of the JVM, {area}", size(n)) for area, n in spark["heap_bytes"].items()]
    rows += [(f"memory of {role}", size(n)) for role, n in found["resident_bytes"].items()]
    return _section("Spark, last batch", _table((), rows) if rows else _none())


def _troubles(found: Document) -> Element:
    rows = [(moment(one["at"]), one["level"], one["event"], one["detail"]) for one in found["troubles"]]
    table = _table(("when", "level", "what", "detail"), rows, texts=4) if rows else _none()
    return _section("Warnings and errors", table, wide=True)


def _none() -> Element:
    return _element("div", "none", **{"class": "dim"})


def _section(title: str, *content: Content, wide: bool = False) -> Element:
    return _element("section", _element("h2", title), *content, **({"class": "wide"} if wide else {}))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Element:
    """The first `texts` columns are texts, the others numbers."""

    def row(cells: Sequence[str], tag: str) -> Element:
        classes: list[dict[str, str]] = [{} if i < texts else {"class": "number"} for i in range(len(cells))]
        return _element("tr", *(_element(tag, cell, **own) for cell, own in zip(cells, classes, strict=True)))

    return _element("table", *([row(head, "th")] if head else ()), *(row(cells, "td") for cells in rows))


def _element(tag: str, *content: Content, **attributes: str) -> Element:
    made = Element(tag, attributes)
    last: Element | None = None
    for one in content:
        if isinstance(one, Element):
            made.append(one)
            last = one
        elif last is None:
            made.text = (made.text or "") + readable(one)
        else:
            last.tail = (last.tail or "") + readable(one)
    return made
