"""Sluice's command line."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import orjson
import typer
from confluent_kafka import Message
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperGroup

from bench.command import app as bench_app
from config import ConfigError, Settings, load, show
from matchers import ALGORITHMS
from matchers.snapshot import Snapshot
from offline import cases as case_files
from offline import explain as explaining
from offline import match as matching
from offline import validate as validating
from offline.documents import Place as Line
from offline.documents import Refusal, events, latest, plain, subscriptions
from offline.files import STDIN, InputError, lines, name_of
from streaming import (
    activation,
    clients,
    deadletters,
    layout,
    listing,
    logs,
    pausing,
    readable,
    records,
    showing,
    supervision,
    times,
)
from streaming import redrive as redriving
from streaming.broker import LOOPBACK, EmbeddedBroker
from streaming.clients import Cluster
from streaming.deadletters import Place, Wanted
from streaming.errors import JobError
from streaming.importing import Import
from streaming.receiving import Delivery, received
from streaming.registered import Read, Registered, last_written, registered
from streaming.schema import subscription_schema
from streaming.standing import standings
from streaming.subscriptions import Refused, read_change
from streaming.supervision import Past

HOME = Path(__file__).resolve().parent
JARS = HOME / "jars"
TAP_STYLES = ("dim", "green", "cyan", "bold", "")  # of a line's parts
STOPPED = 130  # what shells say of Ctrl-C


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except BrokenPipeError:  # `| head` has seen enough; what is left in the buffer must not fail at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe on Kafka and Spark: which subscriptions does an event satisfy, who gets it?",
)
subscriptions_app = typer.Typer(no_args_is_help=True, help="Look at subscriptions, save them, and bring them back.")
dlq_app = typer.Typer(no_args_is_help=True, help="Look at dead letters, and send them again.")
topics_app = typer.Typer(no_args_is_help=True, help="Make and list topics.")
config_app = typer.Typer(no_args_is_help=True, help="Look at the settings.")
app.add_typer(topics_app, name="topics")
app.add_typer(subscriptions_app, name="subscriptions")
app.add_typer(dlq_app, name="dlq")
app.add_typer(config_app, name="config")
app.add_typer(bench_app, name="bench")
out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with settings; config/example.toml shows them all.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="One setting, over file and environment: -s events.topic=orders")
]
Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-servers", "-b", help="Brokers: host:port,...", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Algorithm = Annotated[
    str, typer.Option(help="Matching algorithm; all give the same result.", autocompletion=lambda: list(ALGORITHMS))
]
Subscriptions = Annotated[
    Path,
    typer.Argument(
        metavar="SUBSCRIPTIONS",
        help="JSON lines, or a .json file with one subscription or an array; - is standard input.",
        show_default=False,
    ),
]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids; one a line from standard input if left out.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return when the job has answered each change, and say what.")]
Timeout = Annotated[float, typer.Option(help="Seconds to --wait once all is written.", min=0)]
Answers = Annotated[
    bool, typer.Option("--json", help="On standard output as JSON: how many were written, or with --wait the answers.")
]
OFFLINE = "Without a broker"  # the heading above these commands in the help


def _settings(config: ConfigFile = None, bootstrap: Bootstrap = None, set_: Set = None) -> Settings:
    flags: dict[str, Any] = {"kafka.bootstrap_servers": bootstrap}
    for assignment in set_ or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes section.key=value, not {assignment!r}")
        flags[name.strip()] = value
    return load(config, flags)


def _moment(flag: str, text: str | None, now_ms: int) -> int | None:
    try:
        return None if text is None else times.moment(text, now_ms)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {error}") from None


def _wanted(
    reasons: Annotated[
        list[str] | None,
        typer.Option(
            "--reason",
            help="Those of this reason only; may be repeated.",
            autocompletion=lambda: [*records.REASONS, deadletters.UNKNOWN],
        ),
    ] = None,
    subscriber: Annotated[str | None, typer.Option(help="Those for this subscriber only.", show_default=False)] = None,
    origin_topic: Annotated[
        str | None, typer.Option(help="Those that came from this topic only.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Those since a time with its zone, or how long ago: 90s, 30m, 2h, 7d.", show_default=False),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Those before such a time.", show_default=False)] = None,
) -> Wanted:
    known = (*records.REASONS, deadletters.UNKNOWN)
    if strange := [reason for reason in reasons or () if reason not in known]:
        raise typer.BadParameter(f"--reason: {', '.join(strange)} is none of {', '.join(known)}")
    now_ms = int(time.time() * 1000)
    since_ms, until_ms = _moment("--since", since, now_ms), _moment("--until", until, now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise typer.BadParameter("--since must be before --until")
    return Wanted(frozenset(reasons or ()), subscriber, origin_topic, since_ms, until_ms)


MADE: dict[str, Callable[..., Any]] = {"settings": _settings, "wanted": _wanted}


def _with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of which its parameters named in MADE are made, in place of these."""
    own = inspect.signature(command, eval_str=True).parameters
    makers = {name: MADE[name] for name in own if name in MADE}
    flags = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
    taken = {n: p for name, parameter in own.items() for n, p in flags.get(name, {name: parameter}).items()}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        made = {name: maker(**{flag: given.pop(flag) for flag in flags[name]}) for name, maker in makers.items()}
        command(**given, **made)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken.values()]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {name: p.annotation for name, p in taken.items()}
    return called


@app.command()
@_with_flags
def run(
    *,
    settings: Settings,
    supervised: Annotated[
        bool,
        typer.Option("--supervise", help="Start it again when it was killed, or the reason may pass."),
    ] = False,
    lineage: Annotated[str, typer.Option(hidden=True)] = "",  # what all that one supervisor starts have in common
    restarts: Annotated[int | None, typer.Option(hidden=True)] = None,  # by that supervisor
    last_exit_code: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """The continuous job: match events as they come, deliver them exactly once. Ctrl-C or SIGTERM stops it."""
    logs.configure(settings.log.format, settings.log.level)
    if supervised:
        same = [*(word for word in sys.argv if word != "--supervise"), "--lineage", uuid.uuid4().hex]

        def command(past: Past) -> list[str]:
            last = [] if past.exit_code is None else [f"--last-exit-code={past.exit_code}"]
            return [sys.executable, *same, f"--restarts={past.restarts}", *last]

        raise typer.Exit(supervision.supervise(command, _stop_on_signals()))
    from streaming import job  # Spark's import takes a second that no other command needs

    past = None if restarts is None else Past(restarts, last_exit_code)
    job.run(settings, JARS, _stop_on_signals(), lineage or uuid.uuid4().hex, past)


@app.command()
def demo(
    events: Annotated[int, typer.Option(help="How many events to send.", min=1)] = 6_000,
    rate: Annotated[int, typer.Option(help="Events a second.", min=1)] = 1_000,
    algorithm: Annotated[str, typer.Option(help="Matching algorithm.")] = "scan",
    pull_the_plug: Annotated[
        bool, typer.Option("--pull-the-plug", help="Kill the job (kill -9) amid the events, and start it again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Real stock events through a real Kafka and the real job; checks that every delivery came exactly once."""
    from examples import demo as show_case

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of all that it has to stop
    summary = show_case.run(HOME, JARS, events, rate, algorithm, pull_the_plug, Console(stderr=as_json))
    if as_json:
        print(json.dumps(summary))
    raise typer.Exit(0 if summary["missing"] == summary["duplicated"] == 0 else 1)


@app.command()
def broker(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option(help="Where data is kept; without it, it is gone at the end.", show_default=False)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Name by which clients reach it; other than this, it listens everywhere.")
    ] = LOOPBACK,
) -> None:
    """An embedded Kafka of one node, alone, until Ctrl-C."""
    stop = _stop_on_signals()
    with EmbeddedBroker(JARS, directory, host, port) as kafka:
        print(kafka.bootstrap_servers, flush=True)
        err.print(f"Kafka listens on {kafka.bootstrap_servers}; its log is {kafka.log}. Ctrl-C stops it.")
        while not stop.wait(0.5):
            if not kafka.running():
                raise JobError(f"Kafka ended by itself; its log is {kafka.log}")


@app.command()
@_with_flags
def doctor(*, as_json: Json = False, settings: Settings) -> None:
    """Would the job start here and go on? Looks at this machine, the broker, topics and rights, and changes nothing.

    Each check is ok, a warning, a failure, or skipped because it could not be asked. Exit code 1 if one is a failure.
    """
    from streaming import checks
    from streaming.checks import asked, cluster, machine

    styles = {checks.OK: "green", checks.WARNING: "yellow", checks.FAILURE: "bold red", checks.SKIPPED: "dim"}
    counts: Counter[str] = Counter()
    try:
        cluster_says = cluster.findings(settings, asked.Real(_cluster(settings)), int(time.time() * 1000))
    except JobError as error:
        cluster_says = iter([checks.Finding("broker", checks.FAILURE, str(error), "correct kafka.client")])
    for found in chain(machine.findings(settings, HOME), cluster_says):
        counts[found.state] += 1
        if as_json:
            _print(found, as_json)
        else:
            out.print(Text(f"{found.state:8}", styles[found.state]), Text(f"{plain(found.what)}: {plain(found.text)}"))
            if found.mend:
                out.print(Text(f"{'':9}{plain(found.mend)}"))
    _tell(", ".join(f"{counts[state]} {state}" for state in styles if counts[state]))
    raise typer.Exit(1 if counts[checks.FAILURE] else 0)


@topics_app.command("create")
@_with_flags
def topics_create(
    *,
    settings: Settings,
    partitions: Annotated[int, typer.Option(help="Partitions of events and subscriptions.", min=1)] = 2,
    replication_factor: Annotated[int, typer.Option(help="Replicas of each topic.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Make all topics that the job needs; those that are there already stay as they are."""
    cluster = _cluster(settings).topics()
    there = cluster.partitions()
    wanted = layout.topics(settings, partitions, replication_factor)
    failed = cluster.create(t for t in wanted if t.name not in there)
    for topic in wanted:
        state = failed.get(topic.name) or ("is there already" if topic.name in there else "created")
        print(orjson.dumps({"topic": topic.name, "state": state}).decode() if as_json else f"{topic.name}\t{state}")
    raise typer.Exit(1 if failed else 0)


@topics_app.command("list")
@_with_flags
def topics_list(*, as_json: Json = False, settings: Settings) -> None:
    """All topics with their number of partitions."""
    for name, partitions in sorted(_cluster(settings).topics().partitions().items()):
        if not name.startswith("__"):
            found = {"topic": name, "partitions": partitions}
            print(orjson.dumps(found).decode() if as_json else f"{name}\t{partitions}")


@app.command()
@_with_flags
def produce(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; standard input if left out.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Events a second at most.", show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Write events, a JSON object a line, to the events topic."""
    lines = (line for _, line in _lines(file))
    values = clients.paced(lines, rate) if rate else lines
    _write(settings, settings.events.topic, ((None, value) for value in values), "events", as_json)


@app.command()
@_with_flags
def subscribe(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="Subscriptions as JSON lines; standard input if left out.", show_default=False)
    ] = None,
    id: Annotated[str | None, typer.Option(help="Id, to write one subscription by flags.", show_default=False)] = None,
    subscriber: Annotated[str | None, typer.Option(help="Who gets what it matches.", show_default=False)] = None,
    pattern: Annotated[
        str | None, typer.Option(help="""What it matches: '{"symbol": ["IBM"]}' """, show_default=False)
    ] = None,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Answers = False,
    settings: Settings,
) -> None:
    """Add or replace subscriptions: one by --id, --subscriber and --pattern, or many as JSON lines.

    The first that the job would refuse ends it. With --wait the job is asked: one that it refuses stops no other, and
    the exit code is 1.
    """
    if id or subscriber or pattern:
        if not (id and subscriber and pattern):
            raise typer.BadParameter("one subscription takes --id, --subscriber and --pattern")
        try:
            document = {"id": id, "subscriber": subscriber, "pattern": orjson.loads(pattern)}
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"--pattern is not JSON: {error}") from None
        lines: Iterator[tuple[str, bytes]] = iter([("subscription", orjson.dumps(document))])
    else:
        lines = _lines(file)
    read = _addressed if wait else _checked
    _change(settings, (read(where, line) for where, line in lines), "subscriptions", wait, timeout, as_json)


@app.command()
@_with_flags
def unsubscribe(
    *,
    ids: Ids = None,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Answers = False,
    settings: Settings,
) -> None:
    """Withdraw subscriptions by id."""
    _change(settings, ((id.encode(), None) for id in _ids(ids)), "withdrawals", wait, timeout, as_json)


@app.command()
@_with_flags
def pause(
    *,
    ids: Ids = None,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Answers = False,
    settings: Settings,
) -> None:
    """Let subscriptions match nothing until they are resumed; they stay registered."""
    _flag(settings, ids, True, wait, timeout, as_json)


@app.command()
@_with_flags
def resume(
    *,
    ids: Ids = None,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Answers = False,
    settings: Settings,
) -> None:
    """Let paused subscriptions match again."""
    _flag(settings, ids, False, wait, timeout, as_json)


@app.command()
@_with_flags
def consume(
    subscriber: Annotated[str, typer.Argument(help="Whose deliveries.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new ones come, until Ctrl-C.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Stop after so many.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With headers and offset, a JSON object a line.")] = False,
    *,
    settings: Settings,
) -> None:
    """Print what a subscriber was delivered, an event a line, from the first on."""
    stop = _stop_on_signals() if follow else threading.Event()
    seen = 0
    for message in received(settings, subscriber, follow=follow):
        if stop.is_set():
            break
        if message is None:
            continue
        print(_as_json(message) if as_json else _text(message.value()), flush=follow)
        seen += 1
        if seen == count:
            break


@app.command()
@_with_flags
def tap(
    subscriber: Annotated[str, typer.Argument(help="Whose deliveries.")],
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Those before now too.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="Stop after so many.", min=1, show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop after so many seconds.", min=0, show_default=False)
    ] = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Watch deliveries as they come: when, how late, matched by which version and subscriptions, and the event.

    How late is from the event's own time (`ce_time`) to when its delivery was written. Ctrl-C ends it. Exit code 1 if
    --timeout came before --limit.
    """
    stop = _stop_on_signals()
    ends = None if timeout is None else time.monotonic() + timeout
    width = shutil.get_terminal_size().columns if out.is_terminal else sys.maxsize
    seen, late = 0, False
    found = received(settings, subscriber, follow=True, from_now=not from_beginning)
    _tell(f"watching deliveries of {subscriber}; Ctrl-C ends it")
    for message in found:
        if stop.is_set() or seen == limit or (late := ends is not None and time.monotonic() > ends):
            break
        if message is None:
            continue
        delivery = Delivery.of(message)
        if as_json:
            print(orjson.dumps(delivery.as_data()).decode(), flush=True)
        else:
            out.print(Text("  ").join(map(Text, delivery.parts(width), TAP_STYLES)))
            sys.stdout.flush()
        seen += 1
    raise typer.Exit(1 if late and limit is not None else 0)


@app.command()
@_with_flags
def top(
    url: Annotated[
        str | None,
        typer.Option(help="Where the job answers; without it the checkpoint says where.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds from one look to the next.", min=0.1)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look; so it is too where no terminal is.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look on standard output.")] = False,
    *,
    settings: Settings,
) -> None:
    """Watch a running job: throughput, latency by stage, lag, the state, dead letters, restarts. Ctrl-C ends it.

    It asks for /status.json, at the address in the checkpoint's file `monitoring` or at --url. Exit code 75 if no job
    answers there at first; one that is started again is found again.
    """
    from streaming import checkpoint
    from streaming.monitoring import top as looking

    if url is not None and not url.startswith(("http://", "https://")):
        raise typer.BadParameter("--url takes http://host:port, as the log line `running` says it")
    stop = _stop_on_signals()
    looks = looking.looks(lambda: url or checkpoint.announcement(settings.query.checkpoint), every, stop)
    first = next(looks)
    if as_json:
        for found in chain([first], () if once else looks):
            if isinstance(found, JobError):
                _tell(str(found))
            else:
                print(json.dumps(found), flush=True)
    elif once or not out.is_terminal:
        out.print(looking.shown(first), soft_wrap=False)
    else:  # a console that wraps, so that lines can be counted
        with Live(looking.shown(first), console=Console(), auto_refresh=False, vertical_overflow="crop") as live:
            for found in looks:
                live.update(looking.shown(found), refresh=True)


@app.command()
@_with_flags
def replay(
    *,
    subscription: Annotated[str, typer.Argument(help="Its id.")],
    start: Annotated[
        str | None,
        typer.Option("--from", help="A time with its zone, or how long ago: 90s, 30m, 2h, 7d.", show_default=False),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The same; now if left out.", show_default=False)] = None,
    name: Annotated[
        str | None, typer.Option(help="Begins one of that name, or goes on with it.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Events a second at most.", min=0.1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Match past events for one subscription as it is now, and deliver them again, each once; beside the running job.

    From the first event at or after a time to before the first at or after another. Ctrl-C or SIGTERM stops it, with
    exit code 130; the same --name goes on where it stopped, whatever stopped it.
    """
    from streaming import replay as replaying  # Arrow's import takes time that no other command needs

    now_ms = int(time.time() * 1000)
    from_ms, to_ms = _moment("--from", start, now_ms), _moment("--to", end, now_ms)
    if name is None and from_ms is None:
        raise typer.BadParameter("a new replay needs --from, one that has begun its --name")
    if name is not None and not replaying.NAME.fullmatch(name):
        raise typer.BadParameter("--name takes 1 to 100 letters, digits, dots, underscores or hyphens")
    if from_ms is not None and from_ms >= (now_ms if to_ms is None else to_ms):
        raise typer.BadParameter(f"--from must be before {'now' if to_ms is None else '--to'}")
    stop = _stop_on_signals()
    with replaying.opened(settings, subscription, from_ms, to_ms, name) as opened:
        _tell(str(opened))
        with _progress(f"of {opened.size:,} offsets", opened.size) as progress:
            summary = opened.run(stop, rate, progress)
    _tell(str(summary))
    if as_json:
        _print(summary, as_json)
    if not summary.finished:
        _tell(f"stopped; `replay {subscription} --name {summary.name}` goes on")
    raise typer.Exit(0 if summary.finished else STOPPED)


@subscriptions_app.command("list")
@_with_flags
def subscriptions_list(
    *,
    subscriber: Annotated[str | None, typer.Option(help="Those of this subscriber only.", show_default=False)] = None,
    paused: Annotated[
        bool | None,
        typer.Option(
            "--paused/--active", help="The paused ones only, or only those that are neither paused nor expired."
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Those whose id begins so only.", show_default=False)] = "",
    limit: Annotated[int | None, typer.Option(help="So many at most.", min=1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """The subscriptions that are in the topic now, a line each, and on standard error how many.

    Of each id the last document counts that the job does not refuse. It takes about 200 bytes of memory for each id.
    """
    now_ms = int(time.time() * 1000)

    def of_them(document: dict[str, Any]) -> bool:
        by = subscriber is None or document.get("subscriber") == subscriber
        return by and (paused is None or document.get("paused", False) is paused)

    found: Iterator[Registered] = registered(_subscriptions_topic(settings), prefix, of_them)
    if paused is False:
        found = (one for one in found if listing.state(one, now_ms) == listing.ACTIVE)
    width = shutil.get_terminal_size().columns if out.is_terminal else sys.maxsize
    count = 0
    for one in islice(found, limit):
        if as_json:
            print(orjson.dumps(listing.as_data(one, now_ms)).decode())
        else:
            if not count:
                print(listing.heading())
            print(listing.row(one, now_ms, width))
        count += 1
    _tell(f"{count:,} subscriptions" if count else "no subscriptions")


@subscriptions_app.command("get")
@_with_flags
def subscriptions_get(
    id: Annotated[str, typer.Argument(help="Its id.")], *, as_json: Json = False, settings: Settings
) -> None:
    """The document of one, as it is in the topic; with --json on one line. Exit code 1 if there is none."""
    (id,) = _ids([id])
    found = last_written(_subscriptions_topic(settings)(), [id])
    if id not in found or found[id].value is None:
        why = pausing.missing(id, found)
        raise JobError(f"{why} in {settings.subscriptions.topic}; `subscriptions list` names those that there are")
    print(found[id].line.decode() if as_json else "\n".join(readable.pretty(found[id].value or b"")))


@subscriptions_app.command("status")
@_with_flags
def subscriptions_status(ids: Ids = None, *, as_json: Json = False, settings: Settings) -> None:
    """What the job said last of each: in force (since which version, for which events), paused, withdrawn or refused.

    And whether a later change still waits for an answer. Exit code 1 if one is refused or unknown.
    """
    asked = list(dict.fromkeys(_ids(ids)))
    statuses = _reader(settings, settings.subscriptions.status_topic, "statuses read")()
    found = standings(statuses, _subscriptions_topic(settings)(), asked)
    for standing in found.values():
        if as_json:
            _print(standing, as_json)
        else:
            print(f"{plain(standing.id)}: {plain(str(standing))}")
    raise typer.Exit(1 if any(standing.refused or not standing.known for standing in found.values()) else 0)


@subscriptions_app.command("export")
@_with_flags
def subscriptions_export(
    file: Annotated[
        Path | None, typer.Argument(help="What to write; standard output if left out.", show_default=False)
    ] = None,
    *,
    settings: Settings,
) -> None:
    """All subscriptions as JSON lines, each with the bytes that the topic has; `subscriptions import` takes them.

    Only line breaks within a document become spaces, and one that leaves its id to the record's key is given it. A file
    is there when it is whole.
    """
    count = 0
    with _written(file) as stream:
        for one in registered(_subscriptions_topic(settings)):
            stream.write(one.line + b"\n")
            count += 1
    _tell(f"{count:,} subscriptions exported")


@subscriptions_app.command("import")
@_with_flags
def subscriptions_import(
    file: Annotated[
        Path | None, typer.Argument(help="JSON lines; standard input if left out.", show_default=False)
    ] = None,
    *,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Write those that are not refused, if some are.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written.")] = False,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Annotated[
        bool, typer.Option("--json", help="The summary as JSON, after the answers if it is to --wait.")
    ] = False,
    settings: Settings,
) -> None:
    """Write the subscriptions of a file that are new or changed; if one is refused, none, and the exit code is 1.

    What the topic says already is not written again, so the same import may be run twice. It removes nothing. Unlike
    `subscribe`, which writes line by line as they come, it reads the file to its end first.
    """
    plan, refused = Import(), 0
    with _kept(file or STDIN) as kept:
        with _progress("lines checked") as progress:
            for number, line in lines(kept):
                try:
                    plan.take(number, line)
                except Refused as error:
                    refused += 1
                    _say(str(Refusal(Line(name_of(file or STDIN), "line", number), error.id, str(error))))
                progress(plan.taken + refused)
        if refused and not keep_going:
            raise JobError(
                f"{refused:,} of {plan.taken + refused:,} lines are refused, so nothing was written; --keep-going "
                "writes the others"
            )
        plan.compare(_subscriptions_topic(settings)())
        summary = {**plan.as_data(), "refused": refused, "dry_run": dry_run}
        answered = 0
        if not dry_run:
            written = plan.records(lines(kept))
            answered = _changed(settings, written, "subscriptions", wait, timeout, as_json and wait)
    if as_json:
        print(orjson.dumps(summary).decode())
    else:
        _tell(", ".join(f"{count:,} {what}" for what, count in summary.items() if what != "dry_run"))
    raise typer.Exit(1 if refused or answered else 0)


@dlq_app.command("list")
@_with_flags
def dlq_list(
    *,
    wanted: Wanted,
    every: Annotated[bool, typer.Option("--all", help="Those too that were redriven already.")] = False,
    limit: Annotated[int | None, typer.Option(help="So many at most, the oldest.", min=1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """The dead letters that were not redriven, two lines each, and on standard error how many of each reason."""
    cluster, topic = _cluster(settings), settings.dead_letters.topic
    done = deadletters.redriven(cluster, topic)
    found = (one for one in deadletters.letters(cluster, topic, wanted) if every or one.place not in done)
    counts: Counter[str] = Counter()
    width = shutil.get_terminal_size().columns
    for letter in islice(found, limit):
        redriven = letter.place in done
        if as_json:
            print(orjson.dumps(showing.as_data(letter, redriven)).decode())
        else:
            if not counts:
                print(showing.heading())
            print(showing.row(letter, redriven, width))
        counts[letter.reason] += 1
    _tell(", ".join(f"{count:,} {reason}" for reason, count in counts.most_common()) or "no dead letters")


@dlq_app.command("show")
@_with_flags
def dlq_show(
    place: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Its place, as `dlq list` names it.")],
    *,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """All of one dead letter: what it says, and the key, headers and value of the record that it was made of."""
    cluster, topic = _cluster(settings), settings.dead_letters.topic
    for letter in deadletters.letters(cluster, topic, Wanted(places=_places([place]))):
        redriven = letter.place in deadletters.redriven(cluster, topic)
        if as_json:
            print(orjson.dumps(showing.as_data(letter, redriven)).decode())
        else:
            print(*showing.page(letter, redriven), sep="\n")
        return
    raise JobError(f"the topic {topic} has no dead letter at {place}; `dlq list --all` names those that there are")


@dlq_app.command("redrive")
@_with_flags
def dlq_redrive(
    *,
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="PARTITION:OFFSET", help="Their places, as `dlq list` names them."),
    ] = None,
    wanted: Wanted,
    all_letters: Annotated[bool, typer.Option("--all-letters", help="All that there are.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of them.")] = False,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Send dead letters again, each once: events and subscriptions to their topics, deliveries to their subscriber.

    One that was redriven already is left alone, so after a crash the same command goes on. Exit code 1 if a letter was
    skipped; standard error says which, and why.
    """
    wanted = replace(wanted, places=_places(places))
    if (wanted == Wanted()) is not all_letters:
        raise typer.BadParameter("which letters? It takes their places or filters, or else --all-letters")
    summary = redriving.Summary(dry=dry_run)
    with redriving.opened(settings, dry_run) as opened:
        for outcome in opened.run(wanted):
            summary.counts[outcome.what] += 1
            if as_json and outcome.what != redriving.ALREADY:
                _print(outcome, as_json)
            elif outcome.skipped:
                _say(plain(str(outcome)))
    _print(summary, as_json)
    raise typer.Exit(0 if summary.complete else 1)


@app.command()
def schema() -> None:
    """The JSON Schema of a subscription, for editors and checks; config/subscription.schema.json is a copy."""
    print(json.dumps(subscription_schema(), indent=2))


@config_app.command("show")
@_with_flags
def config_show(*, as_json: Json = False, settings: Settings) -> None:
    """The settings in force, without secrets."""
    shown = show(settings)
    if as_json:
        print(json.dumps(shown))
        return
    for section, values in shown.items():
        print(f"[{section}]")
        for key, value in values.items():
            print(f"{key} = {json.dumps(value)}")
        print()


@app.command(rich_help_panel=OFFLINE)
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="JSON lines, or a .json file with one subscription or an array; - is standard input.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Which subscriptions would the job refuse, and why? Exit code 1 if there are any."""
    code = 0
    for found in validating.validate(files, datetime.now(UTC)):
        if isinstance(found, Refusal):
            code = 1
        if isinstance(found, Refusal) or as_json:
            _print(found, as_json)
        else:
            _tell(str(found))
    raise typer.Exit(code)


@app.command(rich_help_panel=OFFLINE)
def match(
    file: Subscriptions,
    events_file: Annotated[
        Path | None,
        typer.Argument(metavar="EVENTS", help="JSON lines; standard input if left out.", show_default=False),
    ] = None,
    algorithm: Algorithm = Snapshot.algorithm,
    as_json: Json = False,
) -> None:
    """Who gets which event, and by which subscriptions?

    A subscription replaces one before it with the same id; one that is paused or has expired by now does not count.

    What is no event or no subscription is named on standard error, and the exit code is 1.
    """
    events_file = events_file or STDIN
    if file == events_file == STDIN:
        raise typer.BadParameter("subscriptions and events cannot both come from standard input")
    refused = _Complaints()
    now = datetime.now(UTC)
    counting = [d for d in latest(subscriptions(file), refused).values() if not d.idle(now)]
    directory = matching.Directory.of(counting, algorithm)
    for batch in matching.match(directory, events(events_file)):
        for found in batch:
            if isinstance(found, Refusal):
                refused(found)
            else:
                _print(found, as_json)
        sys.stdout.flush()
    raise typer.Exit(1 if refused.count else 0)


@app.command(rich_help_panel=OFFLINE)
def explain(
    file: Subscriptions,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="""A file with one event, - for standard input, or the event: '{"symbol": "IBM"}' """
        ),
    ],
    id: Annotated[str | None, typer.Option(help="This subscription only.", show_default=False)] = None,
    subscriber: Annotated[str | None, typer.Option(help="Those of this subscriber only.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Why does an event satisfy a subscription, or why not? Exit code 1 if it satisfies none.

    At the end come the near misses: subscriptions that it satisfies but for one line.
    """
    if file == STDIN == Path(event):
        raise typer.BadParameter("subscriptions and the event cannot both come from standard input")
    asked = explaining.asked(latest(subscriptions(file), _Complaints()), id, subscriber)
    found = explaining.explained(asked, explaining.event_of(event), datetime.now(UTC))
    _print(found, as_json)
    raise typer.Exit(0 if found.matches else 1)


@app.command("test", rich_help_panel=OFFLINE)
def run_cases(
    files: Annotated[
        list[Path], typer.Argument(metavar="CASES", help="YAML such as examples/cases.yaml.", show_default=False)
    ],
    algorithm: Algorithm = Snapshot.algorithm,
    as_json: Json = False,
) -> None:
    """Does each event satisfy the subscriptions that it should? Cases in YAML; examples/cases.yaml shows how.

    Expired subscriptions count, so that a case that holds today holds tomorrow; paused ones do not.

    Exit code 1 if a case fails, 2 if a file is wrong.
    """
    summary = {"passed": 0, "failed": 0}
    for file in files:
        for outcome in case_files.run(file, algorithm):
            summary["passed" if outcome.passed else "failed"] += 1
            if as_json:
                _print(outcome, as_json)
            elif not outcome.passed:
                out.print(Text("failed", "bold red"), Text(f"{outcome.case.file}: {outcome.case.name}\n{outcome}"))
    if as_json:
        print(orjson.dumps(summary).decode())
    else:
        out.print(Text(f"{summary['passed']:,} passed, {summary['failed']:,} failed"))
    raise typer.Exit(1 if summary["failed"] else 0)


class _Complaints:
    """Says what is refused, and counts it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, refusal: Refusal) -> None:
        self.count += 1
        _tell(str(refusal))


def _print(what: Any, as_json: bool) -> None:
    print(orjson.dumps(what.as_data()).decode() if as_json else what)


def _tell(text: str) -> None:
    err.print(Text(text))


def _say(text: str) -> None:
    """The same, where there may be a million."""
    print(text, file=sys.stderr)


def _stop_on_signals() -> threading.Event:
    """Set by Ctrl-C and SIGTERM; a second one no longer waits for what is in hand."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _places(given: list[str] | None) -> frozenset[Place]:
    try:
        return frozenset(map(Place.of, given or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _cluster(settings: Settings) -> Cluster:
    return Cluster(settings.kafka.bootstrap_servers, settings.kafka.client)


def _lines(file: Path | None) -> Iterator[tuple[str, bytes]]:
    """(where, line) of each line that is not blank."""
    file = file or STDIN
    return ((f"{name_of(file)}, line {number}", line) for number, line in lines(file))


def _checked(where: str, line: bytes) -> tuple[bytes, bytes]:
    """A subscription that the job would refuse is refused here already."""
    try:
        return read_change(None, line).subscription.id.encode(), line
    except Refused as error:
        raise JobError(f"{where}: {error}") from None


def _addressed(where: str, line: bytes) -> tuple[bytes, bytes]:
    """What has an id is for the job to judge."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = None
    id = document.get("id") if isinstance(document, dict) else None
    return (id.encode(), line) if isinstance(id, str) and id else _checked(where, line)


def _ids(given: list[str] | None) -> Iterator[str]:
    """Each as a key can hold it."""
    written = (("argument", id.encode(errors="surrogateescape")) for id in given) if given else _lines(None)
    for where, id in written:
        try:
            text = id.decode()
        except UnicodeDecodeError:
            raise JobError(f"{where}: an id is UTF-8, which {id!r} is not") from None
        if not text:
            raise JobError(f"{where}: an id is a text of 1 character at least")
        yield text


def _flag(
    settings: Settings, given: list[str] | None, pause: bool, wait: bool, timeout_s: float, as_json: bool
) -> None:
    """Pause or resume."""
    ids = dict.fromkeys(_ids(given))
    found = last_written(_subscriptions_topic(settings)(), ids)
    records = pausing.changed(found, ids, pause)
    for id in (id for id in ids if id not in records):
        _say(f"{plain(id)}: is {'paused already' if pause else 'not paused'}; nothing was written")
    _change(settings, records.values(), "pauses" if pause else "resumptions", wait, timeout_s, as_json)


def _change(
    settings: Settings, records: Iterable[clients.Writable], what: str, wait: bool, timeout_s: float, as_json: bool
) -> None:
    """Write to the subscriptions topic and, if asked to wait, say what the job answers. Exit code 1 if it refuses."""
    raise typer.Exit(1 if _changed(settings, records, what, wait, timeout_s, as_json) else 0)


def _changed(
    settings: Settings, records: Iterable[clients.Writable], what: str, wait: bool, timeout_s: float, as_json: bool
) -> int:
    """The same; returns how many the job refused."""
    outstanding = activation.Outstanding()
    starts = activation.starts(_cluster(settings), settings.subscriptions.status_topic) if wait else {}
    taken = outstanding.take if wait else lambda _: None
    _write(settings, settings.subscriptions.topic, records, what, as_json and not wait, taken)
    refused = 0
    for answer in activation.answers(_cluster(settings), starts, outstanding, timeout_s):
        refused += answer.refused
        if as_json:
            _print(answer, as_json)
        else:
            _say(f"{plain(answer.id)}: {answer}")
    return refused


def _write(
    settings: Settings,
    topic: str,
    records: Iterable[clients.Writable],
    what: str,
    as_json: bool = False,
    taken: Callable[[Any], None] = lambda _: None,
) -> None:
    with _progress(f"{what} to {topic}") as progress:
        written = clients.write(_cluster(settings), topic, records, progress, taken)
    if as_json:
        print(orjson.dumps({"written": written, "topic": topic}).decode())
    else:
        _tell(f"{written:,} {what} written to {topic}")


def _subscriptions_topic(settings: Settings) -> Read:
    return _reader(settings, settings.subscriptions.topic, "documents read")


def _reader(settings: Settings, topic: str, what: str) -> Read:
    """A topic from its first record to its present end, as often as it is called. The first time it shows how far it
    is; later what was found may be on the terminal already."""
    calls = 0

    def read() -> Iterator[Message | None]:
        nonlocal calls
        calls += 1
        with _progress(what, quiet=calls > 1 and out.is_terminal) as progress:
            for count, message in enumerate(clients.read(_cluster(settings), [topic], follow=False)):
                if count % 1_000 == 0:
                    progress(count)
                yield message

    return read


@contextmanager
def _kept(file: Path) -> Iterator[Path]:
    """A file that can be read twice."""
    if file != STDIN:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="sluice-") as kept:
        for _, line in lines(STDIN):
            kept.write(line + b"\n")
        kept.flush()
        yield Path(kept.name)


@contextmanager
def _written(file: Path | None) -> Iterator[BinaryIO]:
    """A file that takes its name once it is whole, or standard output. Raises InputError."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        os.replace(part, file)
    except OSError as error:
        raise InputError(f"{part}: cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def _progress(what: str, total: int | None = None, quiet: bool = False) -> Iterator[Any]:
    kind = SpinnerColumn() if total is None else BarColumn()
    columns = (kind, TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn())
    hidden = quiet or not err.is_terminal
    # Standard output stays what it is: rich would lead it to where the bar is.
    with Progress(*columns, console=err, transient=True, disable=hidden, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _as_json(message: Any) -> str:
    headers = {k: (v or b"").decode(errors="replace") for k, v in message.headers() or ()}
    document = {
        "partition": message.partition(),
        "offset": message.offset(),
        "key": _text(message.key()),
        "headers": headers,
        "value": _text(message.value()),
    }
    return orjson.dumps(document).decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def main() -> None:
    try:
        app()
    except (ConfigError, InputError, JobError) as error:
        err.print("[bold red]error:[/]", escape(str(error)), highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, ConfigError | InputError) else supervision.TRY_AGAIN if error.retry else 1)


if __name__ == "__main__":
    main()
