"""Run the commands `validate`, `match`, `explain` and `test`: check subscriptions and events in files."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.text import Text

from commands.shared.flags import Json
from commands.shared.terminal import emit, note, out
from matchers import ALGORITHMS
from matchers.index.snapshot import Snapshot
from offline.cases import run
from offline.documents import Rejection, events, latest, subscriptions
from offline.explain import event_of, explain_all, select
from offline.files import STDIN
from offline.match import SubscriberIndex, match_batches
from offline.validate import validate_files

app = typer.Typer()

Algorithm = Annotated[
    str, typer.Option(help="Matching algorithm. All give the same result.", autocompletion=lambda: list(ALGORITHMS))
]
Subscriptions = Annotated[
    Path,
    typer.Argument(
        metavar="SUBSCRIPTIONS",
        help="Subscriptions: JSON lines, or a .json file with one or an array of them. - is standard input.",
        show_default=False,
    ),
]


@app.command()
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Subscriptions: JSON lines, or a .json file with one or an array of them. - is standard input.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    code = 0
    for result in validate_files(files, datetime.now(UTC)):
        if isinstance(result, Rejection):
            code = 1
        if isinstance(result, Rejection) or as_json:
            emit(result, as_json)
        else:
            note(str(result))
    raise typer.Exit(code)


@app.command()
def match(
    file: Subscriptions,
    events_file: Annotated[
        Path | None,
        typer.Argument(metavar="EVENTS", help="Events as JSON lines. Default: standard input.", show_default=False),
    ] = None,
    algorithm: Algorithm = Snapshot.algorithm,
    as_json: Json = False,
) -> None:
    """A subscription replaces an earlier one with the same id. Paused and expired subscriptions match nothing.

    Standard error lists invalid events and subscriptions, with the reason. Exit code 1 if there are any.
    """
    events_file = events_file or STDIN
    if file == events_file == STDIN:
        raise typer.BadParameter("subscriptions and events cannot both come from standard input")
    rejected = _Complaints()
    now = datetime.now(UTC)
    counting = [d for d in latest(subscriptions(file), rejected).values() if not d.idle(now)]
    index = SubscriberIndex.of(counting, algorithm)
    for batch in match_batches(index, events(events_file)):
        for deliveries in batch:
            if isinstance(deliveries, Rejection):
                rejected(deliveries)
            else:
                emit(deliveries, as_json)
        sys.stdout.flush()
    raise typer.Exit(1 if rejected.count else 0)


@app.command()
def explain(
    file: Subscriptions,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="""A file with one event, - for standard input, or the event: '{"symbol": "IBM"}'."""
        ),
    ],
    id: Annotated[str | None, typer.Option(help="Only the subscription with this id.", show_default=False)] = None,
    subscriber: Annotated[
        str | None, typer.Option(help="Only subscriptions of this subscriber.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """The near misses come last: subscriptions of which the event satisfies all lines but one."""
    if file == STDIN == Path(event):
        raise typer.BadParameter("subscriptions and the event cannot both come from standard input")
    documents = select(latest(subscriptions(file), _Complaints()), id, subscriber)
    verdicts = explain_all(documents, event_of(event), datetime.now(UTC))
    emit(verdicts, as_json)
    raise typer.Exit(0 if verdicts.matches else 1)


@app.command("test")
def run_cases(
    files: Annotated[
        list[Path], typer.Argument(metavar="CASES", help="YAML files such as examples/cases.yaml.", show_default=False)
    ],
    algorithm: Algorithm = Snapshot.algorithm,
    as_json: Json = False,
) -> None:
    """Expired subscriptions match as if they had not expired, so that a case does not fail later. Paused ones match
    nothing. Exit code 1 if a case fails, 2 if a file is invalid.
    """
    summary = {"passed": 0, "failed": 0}
    for file in files:
        for outcome in run(file, algorithm):
            summary["passed" if outcome.passed else "failed"] += 1
            if as_json:
                emit(outcome, as_json)
            elif not outcome.passed:
                out.print(Text("failed", "bold red"), Text(f"{outcome.case.file}: {outcome.case.name}\n{outcome}"))
    if as_json:
        print(orjson.dumps(summary).decode())
    else:
        out.print(Text(f"{summary['passed']:,} passed, {summary['failed']:,} failed"))
    raise typer.Exit(1 if summary["failed"] else 0)


class _Complaints:
    """Print and count rejected lines."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, rejection: Rejection) -> None:
        self.count += 1
        note(str(rejection))
