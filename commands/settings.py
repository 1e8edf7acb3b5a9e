"""Run the command `config show`: print the settings."""

from __future__ import annotations

import json

import typer

from commands.shared.flags import Json, with_settings
from config import Settings, show

app = typer.Typer(no_args_is_help=True)


@app.command("show")
@with_settings
def show_all(*, as_json: Json = False, settings: Settings) -> None:
    """Show the settings in force, without secrets."""
    shown = show(settings)
    if as_json:
        print(json.dumps(shown))
        return
    for section, values in shown.items():
        print(f"[{section}]")
        for key, value in values.items():
            print(f"{key} = {json.dumps(value)}")
        print()
