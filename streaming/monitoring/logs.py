"""Log lines on standard error: text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from streaming.log_events import EVENTS, LogEvent
from streaming.version import VERSION

HEAD = ("timestamp", "level", "event")


def configure(format: str, level: str, query: str = "") -> None:
    """Write log lines to standard error, in JSON each with the query, Sluice's version and the id of this process."""
    handler = logging.StreamHandler(sys.stderr)
    bound = {"query": query, "version": VERSION, "pid": os.getpid()}
    handler.setFormatter(_Formatter(_as_json, bound) if format == "json" else _Formatter(_as_text, {}))
    root = logging.getLogger("sluice")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    logging.getLogger().addFilter(_is_of_others)
    logging.getLogger("py4j.clientserver").addFilter(_is_no_broken_connection)


# With Spark's JVM each connection to it ends, for which py4j writes tracebacks, some of them by the root logger. It
# also raises the error, and the job reports the end of the JVM.
def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _is_no_broken_connection(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], ConnectionError))


def name(record: logging.LogRecord) -> str:
    """The name of a record's event. A record of a library, whose message is a sentence, has it in the field `event`."""
    return str(getattr(record, "event", None) or record.getMessage())


def message(record: logging.LogRecord) -> str:
    """The sentence for people; empty where the name and the fields suffice."""
    if hasattr(record, "event"):
        return record.getMessage()
    event = EVENTS.get(record.getMessage())
    return event.message() if event is not None else ""


class _Formatter(logging.Formatter):
    def __init__(self, render: Callable[[dict[str, Any]], str], bound: Mapping[str, Any]) -> None:
        super().__init__()
        self._render = render
        self._bound = bound

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "event": name(record),
            **self._bound,
            **getattr(record, "fields", {}),
        }
        if text := message(record):
            line.setdefault("message", text)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._render(line)


def _as_json(line: dict[str, Any]) -> str:
    timestamp = line["timestamp"].isoformat(timespec="milliseconds")
    return orjson.dumps({**line, "timestamp": timestamp}, default=str).decode()


def _as_text(line: dict[str, Any]) -> str:
    timestamp, level, event = (line.pop(name) for name in HEAD)
    exception = line.pop("exception", None)
    about = EVENTS.get(event)
    fields = (
        f"{name}={_short(value)}" for name, value in line.items() if about is None or _is_shown(about, name, value)
    )
    text = " ".join((timestamp.astimezone().isoformat(timespec="milliseconds"), level, event, *fields))
    return text if exception is None else f"{text}\n{exception}"


def _is_shown(event: LogEvent, name: str, value: Any) -> bool:
    return name not in event.json_only and bool(value or name not in event.if_not_zero)


def _short(value: Any) -> str:
    if isinstance(value, dict) and value:
        return ",".join(f"{k}:{_short(v)}" for k, v in value.items())
    if isinstance(value, list | tuple | set):
        return _quoted(",".join(map(str, value)) or "-")
    return "-" if value is None or value in ({}, "") else _quoted(str(value))


def _quoted(text: str) -> str:
    """The text, in quotes if its end could not be seen otherwise."""
    is_plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if is_plain else json.dumps(text, ensure_ascii=not text.isprintable())
