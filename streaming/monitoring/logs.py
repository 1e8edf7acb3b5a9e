"""Log lines on standard error: text, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson


def configure(format: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(_as_json if format == "json" else _as_text))
    root = logging.getLogger("sluice")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class _Formatter(logging.Formatter):
    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._render(line)


def _as_json(line: dict[str, Any]) -> str:
    time = line["time"].isoformat(timespec="milliseconds")
    return orjson.dumps({**line, "time": time}, default=str).decode()


def _as_text(line: dict[str, Any]) -> str:
    time, level, event = (line.pop(name) for name in ("time", "level", "event"))
    exception = line.pop("exception", None)
    line.pop("latencies", None)  # histograms are for programs
    local = time.astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    text = " ".join((local, level, event, *(f"{name}={_short(value)}" for name, value in line.items())))
    return text if exception is None else f"{text}\n{exception}"


def _short(value: Any) -> str:
    if isinstance(value, dict) and value:
        return ",".join(f"{k}:{_short(v)}" for k, v in value.items())
    return "-" if value in (None, {}) else str(value)
