"""Render the status page. It is built as a tree of elements, so every text in it is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from streaming.monitoring.metrics import STATE
from streaming.monitoring.status import Document
from streaming.monitoring.web.elements import SCRIPT, element, navigation, note, page, section, table
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
    seconds,
    subscribers,
    totals,
    unknown_lag,
)

HEIGHT_PX = 40


def html(document: Document, *, has_console: bool = False) -> bytes:
    """The status page; with the console, its other pages are linked."""
    return page(
        f"{document['job']['query']}: {' and '.join(_failing(document)) or document['job']['phase']}",
        [
            *([navigation("/")] if has_console else ()),
            _header(document),
            _main(document),
            element("script", SCRIPT),
        ],
        [element("noscript", element("meta", **{"http-equiv": "refresh", "content": "5"}))],
    )


def _failing(document: Document) -> list[str]:
    return [no for of, _, no in VERDICTS if not document[of]["ok"]]


def _header(document: Document) -> Element:
    job = document["job"]
    badges = [
        element("span", yes if document[of]["ok"] else no, class_=f"badge {'good' if document[of]['ok'] else 'bad'}")
        for of, yes, no in VERDICTS
    ]
    return element(
        "header",
        element("h1", job["query"]),
        *badges,
        element("span", "the job does not answer; this is its last answer", id="silent", role="alert"),
        element("span", f"{job['phase']} for {duration(job['uptime_s'])}", class_="dim"),
        element("span", f"as of {moment(job['started_at'] + job['uptime_s'])}", class_="dim"),
    )


def _main(document: Document) -> Element:
    reasons = [element("div", why, class_="bad") for of in ("health", "ready") for why in document[of]["reasons"]]
    notes = [element("div", note) for note in document["ready"]["notes"]]
    return element(
        "main",
        *([section(f"Why it is {' and '.join(_failing(document))}", *reasons, class_="wide")] if reasons else ()),
        *([section("Not at full speed yet", *notes, class_="wide")] if notes else ()),
        _rate("Events per second", "events_per_s", document),
        _rate("Deliveries per second", "deliveries_per_s", document),
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
    return section(
        title,
        element("span", number(document["rates"][name]), class_="large"),
        element("span", " in the last minute", class_="dim"),
        _curves(values, most=most),
        element("div", f"{duration(step_s * len(values))}, maximum {number(most)}", class_="dim"),
    )


def _curves(*curves: Sequence[float | None], most: float) -> Element:
    """Curves in one picture, each broken where it has no values; the first is the main one."""
    top = HEIGHT_PX - 2
    width = max(1, len(curves[0]) - 1)
    box = {"viewBox": f"0 0 {width} {HEIGHT_PX}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    lines = []
    for place, values in enumerate(curves):
        for is_there, run in groupby(enumerate(values), lambda value: value[1] is not None):
            if is_there:
                points = [(float(x), HEIGHT_PX - 1 - (top * (value or 0) / most if most else 0)) for x, value in run]
                points += [(points[0][0] + 0.5, points[0][1])] if len(points) == 1 else []
                style = {"class_": "minor"} if place else {}
                lines.append(element("polyline", points=" ".join(f"{x:g},{y:.1f}" for x, y in points), **style))
    ground = element("line", x1="0", y1=str(HEIGHT_PX - 1), x2=str(width), y2=str(HEIGHT_PX - 1))
    return element("svg", ground, *lines, **box)


def _latency(document: Document) -> Element:
    history = document["history"]
    p99, p50 = history["latency_p99_s"], history["latency_p50_s"]
    most = max((value for value in p99 if value is not None), default=0.0)
    over = f"total, p99 above p50: {duration(history['step_s'] * len(p99))}, maximum {seconds(most)}"
    return section(
        "Latency, last five minutes",
        table(("", *QUANTILES), latencies(document)),
        _curves(p99, p50, most=most),
        note(over if most else "no event matched"),
    )


def _lag(document: Document) -> Element:
    rows = lags(document)
    content = table(("topic", "partition", "records"), rows) if rows else note("not known yet")
    about = [note(last_batch(document))]
    if (unknown := unknown_lag(document)) is not None:
        about.insert(0, element("div", unknown, class_="bad"))
    if document["broker"]["error"]:
        about.append(element("div", document["broker"]["error"], class_="bad"))
    return section("Lag", content, *about)


def _subscriptions(document: Document) -> Element:
    state = document["state"]
    if state is None:
        return section("Subscriptions", note("restoring"))
    facts = dict(labelled(STATE, state))
    if state["compacting"]:
        facts["compactions"] += ", one running"
    if not state["unsaved_s"]:
        del facts["oldest unsaved change"]
    return section("Subscriptions", table((), facts.items()), note(f"index: {state['index']}"))


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
    if job["standby_ready"] is not None:
        facts.append(("standby", "ready" if job["standby_ready"] else "not ready"))
    return section("Job", table((), [*facts, *((f"memory, {whose}", much) for whose, much in memory(document))]))


def _totals(document: Document) -> Element:
    errors = [(error, number(n)) for error, n in publish_errors(document)]
    return section("Since the start", table((), [*totals(document), *errors]))


def _letters(document: Document) -> Element:
    rows = [(reason, number(n)) for reason, n in document["dead_letters"].items()]
    content = (table((), rows), note("`run_stream.py dlq list` lists them")) if rows else (note("none"),)
    return section("Dead letters, since the start", *content)


def _executors(document: Document) -> Element:
    rows = executors(document)
    content = table(EXECUTOR_COLUMNS, rows, texts=2) if rows else note("not known yet")
    return section("Spark executors: tasks and deliveries", content, class_="wide rows")


def _busiest(document: Document) -> Element:
    if document["subscribers"] is None:
        return section("Busiest subscribers", note("not counted: metrics.topic is empty"))
    rows = subscribers(document)
    about = f"of {number(document['subscribers']['number'])}; `run_stream.py subscribers` lists all"
    content = (table(SUBSCRIBER_COLUMNS, rows), note(about)) if rows else (note("none yet"),)
    return section("Busiest subscribers, last minute", *content, class_="wide rows")


def _warnings(document: Document) -> Element:
    rows = [
        (moment(trouble["at"]), trouble["level"], trouble["event"], trouble["detail"])
        for trouble in document["troubles"]
    ]
    content = table(("when", "level", "what", "detail"), rows, texts=4) if rows else note("none")
    return section("Warnings and errors", content, class_="wide")
