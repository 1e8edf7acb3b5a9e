"""Run the command `translate`: turn conditions of other systems into subscriptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from commands.shared.terminal import note
from offline import cesql, expressions, sql
from offline.documents import Rejection
from offline.eventbridge import rules

LANGUAGES: dict[str, Callable[[Path, str], Iterator[dict[str, Any] | Rejection]]] = {
    "eventbridge": rules,
    "cesql": partial(expressions.subscriptions, translated=cesql.translated),
    "sql": partial(expressions.subscriptions, translated=sql.translated),
}

app = typer.Typer()


@app.command()
def translate(
    language: Annotated[
        str,
        typer.Argument(
            help="eventbridge (rules of Amazon EventBridge), cesql (expressions on CloudEvents) or sql (conditions).",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="For eventbridge a rule, an array of rules, or the output of `aws events list-rules`; otherwise one "
            "expression per line. - is standard input.",
            show_default=False,
        ),
    ],
    subscriber: Annotated[str, typer.Option(help="Subscriber of the subscriptions.", show_default=False)],
) -> None:
    """Standard error lists the conditions that Sluice cannot express, with the reason. Exit code 1 if there are any."""
    if language not in LANGUAGES:
        raise typer.BadParameter(f"unknown language {language!r}; known: {', '.join(LANGUAGES)}")
    code = 0
    for result in LANGUAGES[language](file, subscriber):
        if isinstance(result, Rejection):
            code = 1
            note(str(result))
        else:
            print(json.dumps(result, ensure_ascii=False))
    raise typer.Exit(code)
