"""Send each batch as a trace to an OpenTelemetry collector.

Import this only where traces are wanted: it loads OpenTelemetry.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from streaming.log import logger
from streaming.monitoring.reporting import Observer, Report, Stage
from streaming.monitoring.wording import readable
from streaming.version import VERSION

log = logger("sluice.monitoring")

LAST_S = 3.0  # for what is still to be sent at the end


class Traces(Observer):
    """`with Traces(...) as traces`; at the end it takes LAST_S to send the remaining traces.

    `batch` only records. A thread of OpenTelemetry sends every few seconds; its queue is bounded and drops the oldest.
    `events` is None if events come from several topics. The resource is the query: `service.instance.id` differs in
    each process.
    """

    def __init__(self, endpoint: str, query: str, events: str | None, subscriptions: str) -> None:
        self._query = query
        self._topics = (events, subscriptions)
        self._collector = _Collector(endpoint)
        resource = Resource.create({SERVICE_NAME: query, SERVICE_VERSION: VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._collector))
        self._tracer = self._provider.get_tracer("sluice", VERSION)
        group = {"messaging.consumer.group.name": query}
        self._of_stage = {
            "send": (SpanKind.PRODUCER, _operation("send", "send")),
            "commit": (SpanKind.CLIENT, _operation("commit", "settle") | group),
        }

    def __enter__(self) -> Traces:
        return self

    def __exit__(self, *_: object) -> None:
        ending = threading.Thread(target=self._provider.shutdown, name="sluice-traces", daemon=True)
        ending.start()
        ending.join(LAST_S)
        self._collector.shutdown()  # end the pause before the next try
        self._collector.close()

    def batch(self, report: Report) -> None:
        root = self._tracer.start_span(
            "batch", Context(), SpanKind.CONSUMER, self._facts(report), _links(report), _ns(report.start)
        )
        for stage in report.stages:
            self._add(stage, set_span_in_context(root, Context()))
        root.end(_ns(report.ended))

    def _add(self, stage: Stage, within: Context) -> None:
        kind, facts = self._of_stage.get(stage.name, (SpanKind.INTERNAL, {}))
        span = self._tracer.start_span(stage.name, within, kind, facts, start_time=_ns(stage.began))
        if stage.failed:
            span.set_status(StatusCode.ERROR, readable(stage.failed))
        for part in stage.parts:
            self._add(part, set_span_in_context(span, within))
        span.end(_ns(stage.ended))

    def _facts(self, report: Report) -> dict[str, str | int | float]:
        rows = {"events": report.events, "subscriptions": report.rows - report.events}
        topics = [topic for topic, n in zip(self._topics, rows.values(), strict=True) if n]
        return {
            **_operation("process", "process"),
            "messaging.batch.message_count": report.rows,
            "messaging.consumer.group.name": self._query,
            **({"messaging.destination.name": topics[0]} if len(topics) == 1 and topics[0] else {}),
            "sluice.batch": report.number,
            "sluice.bytes": report.bytes,
            "sluice.waited_ms": report.waited_ms,
            "sluice.false_positives": report.false_positives,
            **{f"sluice.rows.{source}": n for source, n in rows.items()},
            **{f"sluice.{name}": n for name, n in report.counts.items()},
            **{f"sluice.dead_letters.{reason}": n for reason, n in report.dead_letters.items()},
            **{f"sluice.state.{name}": n for name, n in report.state.items()},
        }


class _Collector(SpanExporter):
    """Sends traces to a collector. Logs one line when the collector fails, and one when it works again.

    OpenTelemetry's own log, a line for every attempt, is shown with log.level = "debug".
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._failing = False
        self._ended = False
        self._heard = _LogHandler()
        self._exporter = OTLPSpanExporter(endpoint)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._heard.reason = None
        result = SpanExportResult.FAILURE if self._ended else self._exporter.export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing != self._failing:
            self._failing = failing
            if failing:
                error = self._heard.reason or "the job ends"
                log.warning("trace_export_failed", endpoint=self._endpoint, error=error)
            else:
                log.info("trace_export_recovered", endpoint=self._endpoint)
        return result

    def shutdown(self) -> None:
        if not self._ended:
            self._ended = True
            self._exporter.shutdown()

    def close(self) -> None:
        self._heard.close()


class _LogHandler(logging.Handler):
    """Captures OpenTelemetry's log. `reason` is the first error of its exporter since it was set to None."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = None
        self._of = logging.getLogger("opentelemetry")
        self._of.propagate = False
        self._of.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        log.debug("opentelemetry_logged", message=message)
        if record.name.startswith("opentelemetry.exporter"):
            self.reason = self.reason or message

    def close(self) -> None:
        self._of.removeHandler(self)
        self._of.propagate = True
        super().close()


def _operation(name: str, kind: str) -> dict[str, str]:
    """Attributes that name an operation by OpenTelemetry's conventions for messaging."""
    return {"messaging.system": "kafka", "messaging.operation.name": name, "messaging.operation.type": kind}


def _links(report: Report) -> list[Link]:
    """Links to the spans that events of the batch belong to. OpenTelemetry leaves out malformed trace contexts."""
    read = TraceContextTextMapPropagator()
    contexts = (get_current_span(read.extract(carrier, Context())) for carrier in report.trace_contexts)
    return [Link(span.get_span_context()) for span in contexts]


def _ns(epoch_s: float) -> int:
    return int(epoch_s * 1e9)
