"""List commands with their help, and import the module of one when it is called."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from commands.shared.parameters import format_help

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Listed(TyperCommand):
    """A command or group in the list of commands; its module, with the Typer `app`, is imported when it is called.

    Its help is the line of the list, followed by the docstring of its function.
    """

    module: str

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context of the real command, which parses flags, runs, prints help and completes."""
        group = get_group(import_module(self.module).app)
        command = group.commands.get(self.name or "", group)
        command.help = "\n\n".join(filter(None, (self.help, command.help)))
        format_help(command, parent)
        return command.make_context(info_name, args, parent, **extra)


def command_of(module: str) -> type[Listed]:
    """The Typer class for the commands of a module: Typer makes the objects itself."""
    return type("Listed", (Listed,), {"module": module})


class CommandLine(TyperGroup):
    """The list of commands. It exits without an error when the reader closes the pipe, as `| head` does."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        format_help(self, parent, nested=False)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Raises InputError if standard output is on a disk that takes no more."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and (error.errno not in FULL or error.filename is not None):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushing the rest must not fail again
            if isinstance(error, BrokenPipeError):
                raise typer.Exit(0) from None
            from offline.files import InputError

            raise InputError(f"standard output cannot be written: {error.strerror}") from None
