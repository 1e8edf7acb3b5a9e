"""How a command ends that could not do what was asked."""

from __future__ import annotations

import sys
from typing import NoReturn

from rich.markup import escape

from commands.terminal import err
from config import ConfigError
from offline.files import InputError
from streaming.errors import JobError
from streaming.supervision import TRY_AGAIN


def end(error: Exception) -> NoReturn:
    """Says why, if the error is one that is meant to be read. Raises any other."""
    if not isinstance(error, ConfigError | InputError | JobError):
        raise error
    err.print("[bold red]error:[/]", escape(str(error)), highlight=False, soft_wrap=True)
    sys.exit(TRY_AGAIN if isinstance(error, JobError) and error.retry else 1 if isinstance(error, JobError) else 2)
