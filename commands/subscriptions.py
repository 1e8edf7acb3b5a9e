"""Run the commands `subscriptions ...`: list, show, export and apply the subscriptions in the topic."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import orjson
import typer

from commands.shared.client import client_of, report
from commands.shared.flags import Answering, Ids, Json, Timeout, Wait, with_settings_of_tenant
from commands.shared.inputs import ids_of
from commands.shared.terminal import counted, emit, eprint, note, out, progress_of
from config import Settings
from offline.documents import Location, Rejection
from offline.files import STDIN, InputError, lines, name_of
from streaming import tenants, text_format
from streaming.admin import subscription_table
from streaming.admin.apply_plan import ApplyPlan
from streaming.admin.subscription_table import IN_FORCE, state
from streaming.client import NoSubscription
from streaming.documents.subscriptions import Rejected
from streaming.errors import JobError
from streaming.text_format import plain

app = typer.Typer(no_args_is_help=True)


@app.command("list")
@with_settings_of_tenant
def list_them(
    *,
    subscriber: Annotated[
        str | None, typer.Option(help="Only subscriptions of this subscriber.", show_default=False)
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option(
            "--paused/--in-force", help="Only paused subscriptions, or only subscriptions in force.", show_default=False
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Only ids with this prefix.", show_default=False)] = "",
    limit: Annotated[int | None, typer.Option(help="List at most N.", min=1, show_default=False)] = None,
    as_json: Json = False,
    settings: Settings,
) -> None:
    """List the subscriptions in the topic, one per line; their number goes to standard error.

    Lists the last document of each id that the job does not reject. The state is `in force`, `paused` or `expired`.
    Takes about 700 bytes of memory per id.
    """
    now_ms = int(time.time() * 1000)
    width = shutil.get_terminal_size().columns if out.is_terminal else sys.maxsize
    count = 0
    with client_of(settings) as client:
        subscriptions = client.subscriptions(subscriber=subscriber, paused=paused, prefix=prefix)
        if paused is False:
            subscriptions = (each for each in subscriptions if state(each, now_ms) == IN_FORCE)
        for subscription in islice(subscriptions, limit):
            if as_json:
                print(orjson.dumps(subscription_table.as_data(subscription, now_ms)).decode())
            else:
                if not count:
                    print(subscription_table.heading())
                print(subscription_table.row(subscription, now_ms, width))
            count += 1
    note(counted(count, "subscriptions") if count else "no subscriptions")


@app.command()
@with_settings_of_tenant
def get(
    id: Annotated[str, typer.Argument(help="Id of the subscription.")], *, as_json: Json = False, settings: Settings
) -> None:
    """Print a subscription's document as stored in the topic; with --json on one line. Exit code 1 if there is none."""
    (id,) = ids_of([id])
    with client_of(settings) as client:
        try:
            subscription = client.subscription(id)
        except NoSubscription as error:
            raise JobError(f"{error}; `subscriptions list` lists all ids") from None
    print(subscription.line.decode() if as_json else "\n".join(text_format.pretty(subscription.value or b"")))


@app.command()
@with_settings_of_tenant
def status(ids: Ids = None, *, as_json: Json = False, settings: Settings) -> None:
    """Print the last status of subscriptions: in force, paused, unsubscribed or rejected.

    The status names the version and the first events to which it applies, and a later change that waits for the job's
    answer. Exit code 1 if a change is rejected or an id is unknown.
    """
    with client_of(settings) as client:
        statuses = client.statuses(*ids_of(ids))
    for status in statuses.values():
        if as_json:
            emit(status, as_json)
        else:
            print(f"{plain(status.id)}: {plain(str(status))}")
    raise typer.Exit(1 if any(status.rejected or not status.known for status in statuses.values()) else 0)


@app.command()
@with_settings_of_tenant
def export(
    file: Annotated[
        Path | None, typer.Argument(help="File to write. Default: standard output.", show_default=False)
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Export all subscriptions as JSON lines, byte for byte as in the topic; `subscriptions apply` reads them.

    Two exceptions: line breaks within a document become spaces, and a document without an id gets the record's key as
    id. The file appears under its name when it is complete.
    """
    count = 0
    with client_of(settings) as client, _written(file) as stream:
        for subscription in client.subscriptions():
            stream.write(subscription.line + b"\n")
            count += 1
    note(f"{counted(count, 'subscriptions')} exported")


@app.command()
@with_settings_of_tenant
def apply(
    file: Annotated[
        Path | None, typer.Argument(help="Subscriptions as JSON lines. Default: standard input.", show_default=False)
    ] = None,
    *,
    prune: Annotated[bool, typer.Option("--prune", help="Unsubscribe ids that are not in the file.")] = False,
    prefix: Annotated[str, typer.Option(help="With --prune: only ids with this prefix.", show_default=False)] = "",
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="If some lines are rejected, write the others.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")] = False,
    wait: Wait = False,
    timeout: Timeout = 60,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines: the plan or the answers, and the summary.")
    ] = False,
    settings: Settings,
) -> None:
    """Write the new and changed subscriptions of a file. If a line is rejected, write none and exit with code 1.

    Skips unchanged subscriptions, so the same file may be applied twice. Deletes nothing without --prune. `subscribe`
    writes each line as it comes; `subscriptions apply` first reads the file to its end.
    """
    if prefix and not prune:
        raise typer.BadParameter("--prefix limits --prune; pass both, or neither")
    plan, rejected = ApplyPlan(prefix if prune else None, tenants.own(settings)), 0
    with client_of(settings) as client, _kept(file or STDIN) as kept:
        with progress_of("lines checked") as progress:
            for number, line in lines(kept):
                try:
                    plan.take(number, line)
                except Rejected as error:
                    rejected += 1
                    eprint(str(Rejection(Location(name_of(file or STDIN), "line", number), error.id, str(error))))
                progress(plan.taken + rejected)
        if rejected and (prune or not keep_going):
            remedy = "--prune needs a file without such lines" if prune else "--keep-going writes the others"
            raise JobError(
                f"{rejected:,} of {plan.taken + rejected:,} lines are rejected, so nothing was written; {remedy}"
            )
        if prune and not plan.taken:
            raise JobError(
                "the input has no subscription, so nothing was written: --prune would unsubscribe all; "
                "`unsubscribe` does that, if you want it"
            )
        client.compare(plan)
        summary = {**plan.as_data(), "rejected": rejected, "dry_run": dry_run}
        rejected_by_job: list[str] = []
        if dry_run:
            for id, change in plan.changes():
                print(orjson.dumps({"id": id, "change": change}).decode() if as_json else f"{change} {plain(id)}")
        else:
            written = client.write(plan.records(lines(kept)), answers=wait)
            rejected_by_job = report(written, "changes", settings, Answering(wait, timeout, as_json and wait))
    if as_json:
        print(orjson.dumps(summary).decode())
    else:
        note(", ".join(f"{count:,} {what}" for what, count in summary.items() if what != "dry_run"))
    raise typer.Exit(1 if rejected or rejected_by_job else 0)


@contextmanager
def _kept(file: Path) -> Iterator[Path]:
    """A file that can be read twice."""
    if file != STDIN and not file.is_fifo() and not file.is_char_device():
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="sluice-") as kept:
        try:
            for _, line in lines(file):
                kept.write(line + b"\n")
            kept.flush()
        except OSError as error:
            raise InputError(f"{tempfile.gettempdir()} cannot be written: {error.strerror}") from error
        yield Path(kept.name)


@contextmanager
def _written(file: Path | None) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete, or standard output; a device is written to at once. Raises
    InputError."""
    if file is None or file == STDIN:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    file = file.resolve()
    is_replaced = file.is_file() or not file.exists()
    part = file.with_name(f"{file.name}.part") if is_replaced else file
    try:
        with part.open("wb") as stream:
            yield stream
        if is_replaced:
            os.replace(part, file)
    except OSError as error:
        raise InputError(f"{part}: cannot be written: {error.strerror}") from None
    finally:
        if is_replaced:
            with suppress(OSError):
                part.unlink()
