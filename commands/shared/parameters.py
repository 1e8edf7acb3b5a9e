"""Show parameters in the help as other commands of a shell do: SUBSCRIPTION, [FILE], --limit INTEGER, --json."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperOption

TYPES = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "FILE"}


class Argument(TyperArgument):
    """An argument without a type, since its help has it."""

    def display_type_rich(self, ctx: Any) -> None:
        return None

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        name = self.display_name_raw if self.required else f"[{self.display_name_raw}]"
        return [name if self.nargs == 1 else f"{name}..."]


def format_help(command: Any, parent: Any, nested: bool = True) -> None:
    """Prepare the help of a command and, with `nested`, of the commands in a group."""
    if command.help:
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    context = typer.Context(command, info_name=command.name, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = Argument
            parameter.metavar = parameter.metavar or parameter.name.upper()
        elif isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = type_of(parameter)
    for inner in getattr(command, "commands", {}).values() if nested else ():
        format_help(inner, context)


def type_of(option: TyperOption) -> str:
    """The type of an option's value; empty for a flag."""
    if option.is_flag:
        return ""
    annotation: Any = option.type_descriptor.annotation
    return TYPES[get_args(annotation)[0] if get_origin(annotation) is list else annotation]
