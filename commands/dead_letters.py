"""Run the commands `dlq list`, `dlq show` and `dlq redrive`: list, show and send again dead letters."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from commands.shared.client import client_of
from commands.shared.flags import Json, with_flags, with_settings
from commands.shared.terminal import emit, eprint, note
from commands.shared.times import moment
from config import Settings
from streaming.admin import dead_letter_view
from streaming.admin.dead_letters import UNKNOWN
from streaming.client import DeadLetterFilter, DeadLetterPosition, StoredDeadLetter
from streaming.documents import records
from streaming.errors import JobError
from streaming.text_format import plain

if TYPE_CHECKING:
    from streaming.admin.redrive import RedriveOutcome

app = typer.Typer(no_args_is_help=True)


def _wanted(
    reasons: Annotated[
        list[str] | None,
        typer.Option(
            "--reason",
            help="Only dead letters with this reason. May be repeated.",
            autocompletion=lambda: [*records.REASONS, UNKNOWN],
        ),
    ] = None,
    subscriber: Annotated[
        str | None, typer.Option(help="Only dead letters for this subscriber.", show_default=False)
    ] = None,
    origin_topic: Annotated[
        str | None, typer.Option(help="Only dead letters from this topic.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only dead letters since a time with its zone, or since how long ago: 90s, 30m, 2h, 7d.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only dead letters before a time, written like --since.", show_default=False),
    ] = None,
) -> DeadLetterFilter:
    known = (*records.REASONS, UNKNOWN)
    if strange := [reason for reason in reasons or () if reason not in known]:
        raise typer.BadParameter(f"--reason: unknown reason {', '.join(strange)}; known: {', '.join(known)}")
    now_ms = int(time.time() * 1000)
    since_ms, until_ms = moment("--since", since, now_ms), moment("--until", until, now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise typer.BadParameter("--since must be before --until")
    return DeadLetterFilter(frozenset(reasons or ()), subscriber, origin_topic, since_ms, until_ms)


@app.command("list")
@with_flags(wanted=_wanted)
@with_settings
def list_them(
    *,
    wanted: DeadLetterFilter,
    every: Annotated[bool, typer.Option("--all", help="Include dead letters that were redriven.")] = False,
    limit: Annotated[int | None, typer.Option(help="List at most N, oldest first.", min=1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """List dead letters, two lines each; counts by reason go to standard error."""
    counts: Counter[str] = Counter()
    width = shutil.get_terminal_size().columns
    with client_of(settings) as client:
        for letter in islice(client.dead_letters(wanted, redriven=every), limit):
            if as_json:
                _emit(letter)
            else:
                if not counts:
                    print(dead_letter_view.heading())
                print(dead_letter_view.row(letter, width))
            counts[letter.reason] += 1
    note(", ".join(f"{count:,} {reason}" for reason, count in counts.most_common()) or "no dead letters")


@app.command("show")
@with_settings
def show_one(
    position: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="Position of the dead letter, as in `dlq list`.")
    ],
    *,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Show one dead letter in full: the reason, and the key, headers and value of the original record."""
    with client_of(settings) as client:
        letter = next(client.dead_letters(DeadLetterFilter(places=_positions([position])), redriven=True), None)
    if letter is None:
        topic = settings.dead_letters.topic
        raise JobError(f"the topic {topic} has no dead letter at {position}; `dlq list --all` lists all positions")
    if as_json:
        _emit(letter)
    else:
        print(*dead_letter_view.page(letter), sep="\n")


@app.command()
@with_flags(wanted=_wanted)
@with_settings
def redrive(
    *,
    positions: Annotated[
        list[str] | None,
        typer.Argument(metavar="PARTITION:OFFSET", help="Positions of dead letters, as in `dlq list`."),
    ] = None,
    wanted: DeadLetterFilter,
    all_letters: Annotated[bool, typer.Option("--all-letters", help="Redrive all dead letters.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be sent, and send nothing.")] = False,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """Send dead letters again, each once: events and subscriptions to their topics, deliveries to their subscriber.

    Skips dead letters that were redriven, so repeat the same command after a crash. Standard error lists the dead
    letters that cannot be sent, with the reason; then the exit code is 1.
    """
    wanted = replace(wanted, places=_positions(positions))
    if (wanted == DeadLetterFilter()) is not all_letters:
        raise typer.BadParameter("name positions of dead letters, or pass filters, or --all-letters")

    def report(outcome: RedriveOutcome) -> None:
        if as_json and not outcome.already:
            emit(outcome, as_json)
        elif outcome.skipped:
            eprint(plain(str(outcome)))

    with client_of(settings) as client:
        summary = client.redrive(wanted, dry_run=dry_run, taken=report)
    emit(summary, as_json)
    raise typer.Exit(0 if summary.complete else 1)


def _emit(letter: StoredDeadLetter) -> None:
    print(orjson.dumps(dead_letter_view.as_data(letter)).decode())


def _positions(positions: list[str] | None) -> frozenset[DeadLetterPosition]:
    try:
        return frozenset(map(DeadLetterPosition.of, positions or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
