"""Render the status page. It is built as a tree of elements, so every text in it is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from streaming.monitoring.metrics import STATE
from streaming.monitoring.status import Document
from streaming.monitoring.wording import (
    EXECUTOR_COLUMNS,
    QUANTILES,
    SUBSCRIBER_COLUMNS,
    VERDICTS,
    duration,
    executors,
    labelled,
    lags,
    last_batch,
    latencies,
    memory,
    moment,
    number,
    publish_errors,
    readable,
    subscribers,
    totals,
    unknown_lag,
)

_STYLE, _SCRIPT = (Path(__file__).with_name(name).read_text() for name in ("page.css", "page.js"))


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEIGHT_PX = 40

Content = Element | str


def html(document: Document) -> bytes:
    job = document["job"]
    root = _element(
        "html",
        _element(
            "head",
            _element("meta", charset="utf-8"),
            _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            _element("title", f"{job['query']}: {' and '.join(_failing(document)) or job['phase']}"),
            _element("style", _STYLE),
            _element("noscript", _element("meta", **{"http-equiv": "refresh", "content": "5"})),
        ),
        _element("body", _header(document), _main(document), _element("script", _SCRIPT)),
        lang="en",
    )
    written: bytes = tostring(root, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + written


def _failing(document: Document) -> list[str]:
    return [no for of, _, no in VERDICTS if not document[of]["ok"]]


def _header(document: Document) -> Element:
    job = document["job"]
    badges = [
        _element("span", yes if document[of]["ok"] else no, class_=f"badge {'good' if document[of]['ok'] else 'bad'}")
        for of, yes, no in VERDICTS
    ]
    return _element(
        "header",
        _element("h1", job["query"]),
        *badges,
        _element("span", "the job does not answer; this is the last it said", id="silent", role="alert"),
        _element("span", f"{job['phase']} for {duration(job['uptime_s'])}", class_="dim"),
        _element("span", f"as of {moment(job['started_at'] + job['uptime_s'])}", class_="dim"),
    )


def _main(document: Document) -> Element:
    reasons = [_element("div", why, class_="bad") for of in ("health", "ready") for why in document[of]["reasons"]]
    notes = [_element("div", note) for note in document["ready"]["notes"]]
    return _element(
        "main",
        *([_section(f"Why it is {' and '.join(_failing(document))}", *reasons, wide=True)] if reasons else ()),
        *([_section("Not at full speed yet", *notes, wide=True)] if notes else ()),
        _rate("Events a second", "events_per_s", document),
        _rate("Deliveries a second", "deliveries_per_s", document),
        _latency(document),
        _lag(document),
        _letters(document),
        _subscriptions(document),
        _totals(document),
        _job(document),
        _executors(document),
        _busiest(document),
        _warnings(document),
    )


def _rate(title: str, name: str, document: Document) -> Element:
    values, step_s = document["history"][name], document["history"]["step_s"]
    most = max(values, default=0.0)
    return _section(
        title,
        _element("span", number(document["rates"][name]), class_="large"),
        _element("span", " in the last minute", class_="dim"),
        _curve(values, most),
        _element("div", f"{duration(step_s * len(values))}, at most {number(most)}", class_="dim"),
    )


def _curve(values: Sequence[float], most: float) -> Element:
    top = HEIGHT_PX - 2
    points = " ".join(
        f"{x},{HEIGHT_PX - 1 - (top * value / most if most else 0):.1f}" for x, value in enumerate(values)
    )
    width = max(1, len(values) - 1)
    line = _element("polyline", points=points)
    ground = _element("line", x1="0", y1=str(HEIGHT_PX - 1), x2=str(width), y2=str(HEIGHT_PX - 1))
    box = {"viewBox": f"0 0 {width} {HEIGHT_PX}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return _element("svg", ground, line, **box)


def _latency(document: Document) -> Element:
    table = _table(("", *QUANTILES), latencies(document))
    return _section("Latency, last five minutes", table, _note("of events that matched"))


def _lag(document: Document) -> Element:
    rows = lags(document)
    table = _table(("topic", "partition", "records"), rows) if rows else _note("not known yet")
    about = [_note(last_batch(document))]
    if (unknown := unknown_lag(document)) is not None:
        about.insert(0, _element("div", unknown, class_="bad"))
    if document["broker"]["error"]:
        about.append(_element("div", document["broker"]["error"], class_="bad"))
    return _section("Lag", table, *about)


def _subscriptions(document: Document) -> Element:
    state = document["state"]
    if state is None:
        return _section("Subscriptions", _note("restoring"))
    facts = dict(labelled(STATE, state))
    if state["joining"]:
        facts["compactions"] += ", one running"
    if not state["unsaved_s"]:
        del facts["oldest unsaved change"]
    return _section("Subscriptions", _table((), facts.items()), _note(f"index: {state['index']}"))


def _job(document: Document) -> Element:
    job = document["job"]
    facts = [
        ("Sluice", job["version"]),
        ("algorithm", job["algorithm"]),
        ("codec", job["codec"]),
        ("process", str(job["pid"])),
        ("started", moment(job["started_at"])),
        ("start took", duration(job["start_s"]) if job["start_s"] else "-"),
    ]
    if job["restarts"] is not None:
        code = job["last_exit_code"]
        facts.append(("restarts", number(job["restarts"]) + (f", last after exit code {code}" if code else "")))
    return _section("Job", _table((), [*facts, *((f"memory, {whose}", much) for whose, much in memory(document))]))


def _totals(document: Document) -> Element:
    errors = [(error, number(n)) for error, n in publish_errors(document)]
    return _section("Since the start", _table((), [*totals(document), *errors]))


def _letters(document: Document) -> Element:
    rows = [(reason, number(n)) for reason, n in document["dead_letters"].items()]
    content = (_table((), rows), _note("`run_stream.py dlq list` lists them")) if rows else (_note("none"),)
    return _section("Dead letters, since the start", *content)


def _executors(document: Document) -> Element:
    rows = executors(document)
    content = _table(EXECUTOR_COLUMNS, rows, texts=2) if rows else _note("not known yet")
    return _section("Executors of Spark, tasks and deliveries", content)


def _busiest(document: Document) -> Element:
    if document["subscribers"] is None:
        return _section("Busiest subscribers", _note("not counted: metrics.topic is empty"))
    rows = subscribers(document)
    about = f"of {number(document['subscribers']['number'])}; `run_stream.py subscribers` lists all"
    content = (_table(SUBSCRIBER_COLUMNS, rows), _note(about)) if rows else (_note("none yet"),)
    return _section("Busiest subscribers, last minute", *content, wide=True)


def _warnings(document: Document) -> Element:
    rows = [
        (moment(trouble["at"]), trouble["level"], trouble["event"], trouble["detail"])
        for trouble in document["troubles"]
    ]
    table = _table(("when", "level", "what", "detail"), rows, texts=4) if rows else _note("none")
    return _section("Warnings and errors", table, wide=True)


def _note(text: str) -> Element:
    return _element("div", text, class_="dim")


def _section(title: str, *content: Content, wide: bool = False) -> Element:
    return _element("section", _element("h2", title), *content, **({"class_": "wide"} if wide else {}))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Element:
    """The first `texts` columns are texts, the others numbers."""

    def row(cells: Sequence[str], tag: str) -> Element:
        elements = (_element(tag, cell, **({} if i < texts else {"class_": "number"})) for i, cell in enumerate(cells))
        return _element("tr", *elements)

    return _element("table", *([row(head, "th")] if head else ()), *(row(cells, "td") for cells in rows))


def _element(tag: str, *content: Content, **attributes: str) -> Element:
    """An element; the attribute `class`, which is a word of Python, is passed as `class_`."""
    made = Element(tag, {name.removesuffix("_"): value for name, value in attributes.items()})
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
