"""Commands `bench matchers`, `library`, `sweep`, `choices`, `search`, `living`, `system` and `gate`.

For: reading flags and printing results. May enter: the other rooms of `bench`; those that start the job are imported
where a command runs. Must not know: how anything is measured.
"""

from __future__ import annotations

import typer

from bench.commands import matching, papers, system

app = typer.Typer(no_args_is_help=True)
for commands in (matching, papers, system):
    app.add_typer(commands.app)
