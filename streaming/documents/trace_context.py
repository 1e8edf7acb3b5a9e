"""Read the W3C trace context of an event."""

from __future__ import annotations

from collections.abc import Mapping

TRACED_EVENTS = 8  # the first of those delivered, whose headers may have a trace
TRACE_CONTEXT = ("traceparent", "tracestate")  # headers, as the W3C has them


def trace_context(headers: Mapping[str, bytes | None]) -> dict[str, str]:
    """The trace context in the headers; empty if there is none."""
    return {name: value.decode(errors="replace") for name in TRACE_CONTEXT if (value := headers.get(name))}
