"""Keep the last warnings and errors of the log."""

from __future__ import annotations

import logging

from streaming.monitoring import logs
from streaming.monitoring.view import Trouble

KEPT_TROUBLES = 10


class Troubles(logging.Handler):
    """The last warnings and errors, without ids of subscriptions: the page that shows them needs no token. `last` is
    replaced whole, newest first."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: tuple[Trouble, ...] = ()

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        new = Trouble(
            record.created,
            record.levelname.lower(),
            logs.name(record),
            {name: value for name, value in fields.items() if name != "subscription_ids"},
            logs.message(record),
        )
        self.last = (new, *self.last)[:KEPT_TROUBLES]
