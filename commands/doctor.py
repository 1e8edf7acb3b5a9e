"""Run the command `doctor`: check whether the job can start here."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain

import typer
from rich.text import Text

from commands import HOME, JARS
from commands.shared.flags import SUBMITTED, Json, with_settings
from commands.shared.terminal import emit, note, out
from config import Settings
from streaming import checks
from streaming.checks import machine
from streaming.errors import JobError
from streaming.kafka.clients import Cluster
from streaming.text_format import plain

app = typer.Typer()


@app.command()
@with_settings
def doctor(*, as_json: Json = False, settings: Settings) -> None:
    """On a cluster it also checks the Python of one executor. Each check is ok, a warning, a failure, or skipped if it
    cannot be made. Exit code 1 if one is a failure.
    """
    from streaming.checks import cluster  # not for a help text: it loads numpy
    from streaming.checks.cluster_info import ClusterInfo

    styles = {checks.OK: "green", checks.WARNING: "yellow", checks.FAILURE: "bold red", checks.SKIPPED: "dim"}
    counts: Counter[str] = Counter()
    with ExitStack() as last:
        try:
            info = last.enter_context(closing(ClusterInfo(Cluster.of(settings))))
            cluster_says = cluster.findings(settings, info, int(time.time() * 1000))
        except JobError as error:
            cluster_says = iter([checks.Finding("broker", checks.FAILURE, str(error), "Correct kafka.client.")])
        for finding in chain(machine.findings(settings, HOME), cluster_says, _executors(settings)):
            counts[finding.state] += 1
            if as_json:
                emit(finding, as_json)
            else:
                out.print(
                    Text(f"{finding.state:8}", styles[finding.state]),
                    Text(f"{plain(finding.what)}: {plain(finding.text)}"),
                )
                if finding.remedy:
                    out.print(Text(f"{'':9}{plain(finding.remedy)}"))
    note(", ".join(f"{counts[state]} {state}" for state in styles if counts[state]))
    raise typer.Exit(1 if counts[checks.FAILURE] else 0)


def _executors(settings: Settings) -> Iterator[checks.Finding]:
    """Check an executor of a cluster, in an application that ends at once."""
    submitted = SUBMITTED in os.environ
    if not submitted and settings.spark.master.partition("[")[0] == "local":
        return
    from streaming.checks import executors  # not on one machine: Spark's import takes a second
    from streaming.driver import session

    opens = partial(session.submitted, settings) if submitted else partial(session.own, settings, JARS / "spark")
    yield from executors.findings(opens)
