"""Show a running job's /status.json on a terminal as tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import urllib3
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streaming.errors import NotRunning
from streaming.monitoring.metrics import LABELS
from streaming.monitoring.wording import (
    EXECUTOR_COLUMNS,
    QUANTILES,
    VERDICTS,
    behind,
    duration,
    executors,
    lags,
    last_batch,
    latencies,
    memory,
    moment,
    number,
    publish_errors,
    readable,
    size,
    unknown_lag,
)

if TYPE_CHECKING:
    from streaming.monitoring.status import Document

TIMEOUT_S = 5.0
MAX_STATUS_BYTES = 10_000_000
SHOWN_TROUBLES = 3
SHOWN = {
    *("job", "health", "ready", "state", "preparation", "totals", "dead_letters", "publish_errors", "rates"),
    *("latency_s", "lag", "last_batch_at", "broker", "spark", "executors", "resident_bytes", "troubles"),
}


def fetch(url: str) -> Document:
    """Fetch the status of the job at an address. Raises NotRunning."""
    where = f"{readable(url).rstrip('/').removesuffix('/status.json')}/status.json"
    if not where.startswith(("http://", "https://")):
        raise NotRunning(f"{readable(url)!r} is not the address of a job; write http://HOST:PORT")
    try:
        with urllib3.PoolManager(timeout=urllib3.Timeout(total=TIMEOUT_S)) as http:
            answer = http.request("GET", where, retries=False, redirect=False, preload_content=False)
            try:
                body = answer.read(MAX_STATUS_BYTES + 1)
            finally:
                answer.close()
    except urllib3.exceptions.HTTPError as error:
        raise NotRunning(f"no job answers at {where}: {error}") from None
    if answer.status != 200:
        raise NotRunning(f"{where} is not the status page of a Sluice job, or it failed: HTTP {answer.status}")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not document.keys() >= SHOWN:
        raise NotRunning(f"{where} is not the status page of a Sluice job of this version: it has no status")
    return document


def poll(where: Callable[[], str], every_s: float, stop: threading.Event) -> Iterator[Document | NotRunning]:
    """The status again and again until `stop`; while no job answers, the reason.

    A restarted job may answer at another address. Raises NotRunning if none answers the first time.
    """
    yield fetch(where())
    while not stop.wait(every_s):
        try:
            yield fetch(where())
        except NotRunning as error:
            yield error


def render(document: Document | NotRunning) -> RenderableType:
    """The status for the terminal. Texts from outside stay plain text on their line."""
    if isinstance(document, NotRunning):
        return _text(document, "bold red")
    whys = [*document["health"]["reasons"], *document["ready"]["reasons"]]
    error = document["broker"]["error"]
    if error and not any(error in why for why in whys):
        whys.append(error)
    return Group(
        _header(document),
        *(_text(why, "bold red") for why in whys),
        *(_text(note, "yellow") for note in document["ready"]["notes"]),
        Text(),
        _facts(document),
        Text(),
        _table(("latency, last 5 min", *QUANTILES), latencies(document), "lrrrr"),
        *_troubles(document),
        Text(),
        _table(("lag", "partition", "records"), lags(document), "lrr"),
        Text(),
        _table(EXECUTOR_COLUMNS, executors(document), "llrrrrr"),
    )


def _header(document: Document) -> Text:
    job = document["job"]
    line = _text(job["query"], "bold")
    line.append("  ").append_text(_text(f"{job['phase']} for {duration(job['uptime_s'])}")).append("  ")
    for of, yes, no in VERDICTS:
        ok = document[of]["ok"]
        line.append(f"{yes if ok else no}  ", "green" if ok else "bold red")
    return line.append_text(_text(f"{job['algorithm']}, {job['codec']}, Sluice {job['version']}", "dim"))


def _facts(document: Document) -> Table:
    rates, totals, state, job = document["rates"], document["totals"], document["state"], document["job"]
    rows = [
        ("events/s", number(rates["events_per_s"]), f"{number(totals['events'])} since the start"),
        ("deliveries/s", number(rates["deliveries_per_s"]), f"{number(totals['deliveries'])} since the start"),
        ("records behind", behind(document["lag"]), unknown_lag(document) or last_batch(document)),
    ]
    if state is None:
        rows.append(("state", "-", "restoring"))
    else:
        about = f"{number(state['segments'])} segments, {size(state['bytes'])}, version {number(state['version'])}"
        rows.append(("subscriptions", number(state["subscriptions"]), about))
    rejected = f"{number(totals['rejected'])} rejected, {number(totals['over_quota'])} deliveries over quota"
    rows.append(("changes", number(totals["changes"]), rejected))
    letters = document["dead_letters"]
    rows.append(
        ("dead letters", number(sum(letters.values())), ", ".join(f"{why} {number(n)}" for why, n in letters.items()))
    )
    errors = ", ".join(f"{error} {number(n)}" for error, n in publish_errors(document))
    rows.append((LABELS["published_bytes"], size(totals["published_bytes"]), errors))
    code = job["last_exit_code"]
    again = "-" if job["restarts"] is None else number(job["restarts"])
    rows.append(("restarts", again, "" if code is None else f"last after exit code {code}"))
    hung = totals["workers_hung"]
    rows.append((LABELS["workers_lost"], number(totals["workers_lost"]), f"{number(hung)} hung" if hung else ""))
    resident = document["resident_bytes"].values()
    of = ", ".join(f"{whose} {much}" for whose, much in memory(document))
    rows.append(("memory", size(sum(resident)) if resident else "-", of))
    return _table(("", "", ""), rows, "lrl")


def _troubles(document: Document) -> list[Text]:
    lines = [
        _text(f"{moment(trouble['at'])} {trouble['event']}: {trouble['detail']}")
        for trouble in document["troubles"][:SHOWN_TROUBLES]
    ]
    return [Text(), Text("the last warnings and errors", "dim"), *lines] if lines else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_header=any(head))
    for title, side in zip(head, sides, strict=True):
        table.add_column(title, justify="left" if side == "l" else "right", no_wrap=side == "r")
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _text(value: Any, style: str = "") -> Text:
    return Text(" ".join(readable(str(value)).split()), style)
