"""Generate docs/log-events.md from the catalogue of log lines."""

from __future__ import annotations

from streaming.log_events import BOUND, EVENTS, LogEvent
from tests.support.pages.markdown import code, table

HEAD = f"""# Log events

Every line that the command `run` logs, by name. A line goes to standard error, as text or as JSON (`log.format`).

- Both formats begin with `timestamp` (with its time zone), `level` and `event`, the name. A name never contains a
  value, so filters and alerts can rely on it.
- Warnings and errors have a `message`, which is the meaning below, and so have a few other lines. A line about an error
  has its type (`error_type`) and its text (`error`); a line about a mistake in Sluice has a stack (`exception`).
- Units end the names of fields: `_ms`, `_s`, `_bytes`, `_count`, `_ratio`.
- JSON lines have these fields, too: {", ".join(f"{code(name)} ({meaning})" for name, meaning in BOUND.items())}.
- Text lines leave out the fields marked ¹, and the fields marked ² while these are zero.

`python -m tests.support.pages` generates this page from `streaming/log_events.py`.
"""

HEADER = ("event", "level", "fields", "meaning", "what to do")


def page() -> str:
    sections: dict[str, list[tuple[str, ...]]] = {}
    for name, event in EVENTS.items():
        row = (code(name), event.level, _fields(event), event.meaning, event.action)
        sections.setdefault(event.section, []).append(row)
    return "\n".join((HEAD, *(f"## {section}\n\n{table(HEADER, rows)}" for section, rows in sections.items())))


def _fields(event: LogEvent) -> str:
    marks = {**dict.fromkeys(event.json_only, "¹"), **dict.fromkeys(event.if_not_zero, "²")}
    return ", ".join(f"{code(name)}{marks.get(name, '')}" for name in event.fields)
