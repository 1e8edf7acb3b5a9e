"""Generate docs/commands.md from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperOption
from typer.main import get_command

from run_stream import COMMANDS, app
from tests.support.pages.markdown import code, table

HEAD = """# Commands

`.venv/bin/python run_stream.py COMMAND` in the checkout runs a command. `--help` after a command prints its help, and
`run_stream.py --version` the version. Arguments in brackets may be left out, dots stand for several. Options may stand
before or after arguments.

`python -m tests.support.pages` generates this page from the help of the commands.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | The command has succeeded. |
| 1 | The command has failed, or its answer is one that scripts must see, which its help names. |
| 2 | A flag, an argument, a setting or an input file is invalid. |
| 75 | A temporary failure: a broker, a disk or Spark. The same command may succeed later. |
| 130 | A signal (Ctrl-C, SIGTERM) stopped the command before its end. |

## Settings

Most commands read the [settings](settings.md), and take these options:

"""
SETTINGS = ("--config", "--bootstrap-servers", "--set")
HEADER = ("parameter", "type", "default", "meaning")


def page() -> str:
    return "".join(_parts())


def _parts() -> Iterator[str]:
    group: Any = get_command(app)
    context = typer.Context(group, info_name="run_stream.py", help_option_names=["-h", "--help"])
    listed = group.commands
    commands = {
        name: listed[name].make_context(name, [], parent=context, resilient_parsing=True).command for name in listed
    }
    yield HEAD
    flags = {flag.opts[0]: flag for flag in commands["run"].params}
    yield table(HEADER, (_row(flags[name]) for name in SETTINGS))
    for heading, names in COMMANDS.items():
        yield f"\n## {heading}\n"
        for name in names:
            yield from _command(name, commands[name])


def _command(path: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _command(f"{path} {name}", inner)
        return
    pieces = [piece for p in command.params if not isinstance(p, TyperOption) for piece in p.get_usage_pieces(None)]
    yield f"\n### {code(path)}\n\n```text\n{' '.join((path, '[OPTIONS]', *pieces))}\n```\n\n{command.help}\n"
    parameters = [p for p in command.params if not getattr(p, "hidden", False)]
    takes_settings = any("--config" in p.opts for p in parameters)
    own = [p for p in parameters if not takes_settings or p.opts[0] not in SETTINGS]
    if takes_settings:
        yield "\nIt takes the options of the [settings](#settings).\n"
    if own:
        yield f"\n{table(HEADER, map(_row, own))}"


def _row(parameter: Any) -> tuple[str, str, str, str]:
    is_option = isinstance(parameter, TyperOption)
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.metavar]
    limits = parameter._get_number_range_help_str()
    type_ = f"{parameter.metavar}{f', {_range(limits)}' if limits else ''}" if is_option else ""
    if is_option and not parameter.metavar:
        type_ = "flag"
    return ", ".join(map(code, names)), type_, _default(parameter), " ".join(parameter.help.split())


def _range(limits: str) -> str:
    """The limits in the style of docs/settings.md."""
    return limits.replace("<=x<=", " to ").removeprefix("x").replace(">=", "≥ ").replace("<=", "≤ ")


def _default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        return "required"
    return "" if default is None or default is False or default == [] or default == "" else code(str(default))
