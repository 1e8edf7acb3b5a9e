"""Print the error of a command that failed, and exit with its code."""

from __future__ import annotations

import sys
from typing import NoReturn

from rich.markup import escape

from commands.shared.terminal import err
from config import ConfigError
from offline.files import InputError
from streaming.errors import JobError
from streaming.process.supervision import TRY_AGAIN


def end(error: Exception) -> NoReturn:
    """Print the reason and exit, if the error is for the user; raise any other."""
    if not isinstance(error, ConfigError | InputError | JobError):
        raise error
    err.print("[bold red]error:[/]", escape(str(error)), highlight=False, soft_wrap=True)
    sys.exit(TRY_AGAIN if isinstance(error, JobError) and error.retry else 1 if isinstance(error, JobError) else 2)
