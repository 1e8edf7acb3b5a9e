"""The command `translate`: conditions of other systems as subscriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from commands.shared.terminal import note
from offline.documents import Refusal
from offline.eventbridge import rules

LANGUAGES = {"eventbridge": rules}

app = typer.Typer()


@app.command()
def translate(
    language: Annotated[str, typer.Argument(help="eventbridge: rules of Amazon EventBridge.", show_default=False)],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A rule, an array of rules, or what `aws events list-rules` prints; - is standard input.",
            show_default=False,
        ),
    ],
    subscriber: Annotated[str, typer.Option(help="Name of the subscriber.", show_default=False)],
) -> None:
    """Print the rules of another system as subscriptions, one per line.

    What has no equal here is named on standard error with the reason, and the exit code is 1.
    """
    if language not in LANGUAGES:
        raise typer.BadParameter(f"unknown language {language!r}; known: {', '.join(LANGUAGES)}")
    code = 0
    for result in LANGUAGES[language](file, subscriber):
        if isinstance(result, Refusal):
            code = 1
            note(str(result))
        else:
            print(json.dumps(result, ensure_ascii=False))
    raise typer.Exit(code)
