"""Run the command `config show`: print the settings."""

from __future__ import annotations

import json

import typer

from commands.shared.flags import Json, sourced_settings, with_flags
from config import SourcedSettings, as_toml, show, unused

app = typer.Typer(no_args_is_help=True)


@app.command("show")
@with_flags(sourced=sourced_settings)
def show_all(*, as_json: Json = False, sourced: SourcedSettings) -> None:
    """Print the settings in force as TOML, which --config reads, without secrets."""
    shown = show(sourced.settings)
    print(json.dumps(shown) if as_json else as_toml(shown, sourced.sources, unused(sourced.settings)))
