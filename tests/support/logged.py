"""Read the fields of the job's log lines."""

from __future__ import annotations

from logging import LogRecord
from typing import Any


def fields_of(record: LogRecord) -> dict[str, Any]:
    """The fields of a line, which the job gives to the logger as `extra`."""
    fields: dict[str, Any] = vars(record)["fields"]
    return fields
