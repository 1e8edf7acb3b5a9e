"""Log lines on standard error: text, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson


def configure(format: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if format == "json" else _Text())
    root = logging.getLogger("sluice")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).isoformat(sep=" ", timespec="milliseconds")
        # Histograms are for programs.
        shown = (f"{k}={_short(v)}" for k, v in _fields(record).items() if k != "latencies")
        line = " ".join((time, record.levelname.lower(), record.getMessage(), *shown))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _short(value: Any) -> str:
    if isinstance(value, dict) and value:
        return ",".join(f"{k}:{_short(v)}" for k, v in value.items())
    return "-" if value in (None, {}) else str(value)
