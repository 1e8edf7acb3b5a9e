"""Loggers whose lines are a name and fields: `log.info("batch_finished", event_count=3)`.

`log_events` lists the names.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger over the standard library's logger of this name, with its handlers and levels."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _as_record],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=False,
    )
    return bound


def error_fields(error: BaseException, text: str = "") -> dict[str, str]:
    """The fields of a line about an error: its type and its text, or `text` instead."""
    return {"error_type": type(error).__name__, "error": text or str(error)}


def _as_record(logger: WrappedLogger, method: str, event: EventDict) -> dict[str, Any]:
    """The name is the message of a log record, the rest its `fields`."""
    kept = {name: event.pop(name) for name in ("exc_info", "stack_info") if name in event}
    return {"msg": event.pop("event"), "extra": {"fields": event}, **kept}
