"""An OpenTelemetry collector for tests: it takes traces over HTTP and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.patience import PATIENCE_S


@dataclass
class Span:
    trace_id: bytes
    id: bytes
    parent_id: bytes
    name: str
    kind: int
    start_ns: int
    end_ns: int
    facts: dict[str, Any]
    links: list[tuple[bytes, bytes]]  # (trace id, span id)
    error: str | None
    resource: dict[str, Any]


@dataclass
class Collector:
    url: str
    spans: list[Span] = field(default_factory=list)
    requests: int = 0
    status: int = 200  # of the answer; what is answered otherwise is not kept
    open: threading.Event = field(default_factory=threading.Event)  # until it is set, nothing is answered

    def traces(self) -> dict[bytes, list[Span]]:
        """Return spans by trace, in the order of their beginnings, longer ones first."""
        found: dict[bytes, list[Span]] = {}
        for span in sorted(self.spans, key=lambda s: (s.start_ns, -s.end_ns)):
            found.setdefault(span.trace_id, []).append(span)
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    """On a free port, and open."""

    class Request(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            one.requests += 1
            one.open.wait(PATIENCE_S)
            if one.status == 200:
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                one.spans += _read(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(one.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    one = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    one.open.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield one
    finally:
        one.open.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _read(body: bytes) -> Iterator[Span]:
    for of in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _facts(of.resource.attributes)
        for span in (span for scope in of.scope_spans for span in scope.spans):
            yield Span(
                *(span.trace_id, span.span_id, span.parent_span_id, span.name, span.kind),
                *(span.start_time_unix_nano, span.end_time_unix_nano, _facts(span.attributes)),
                [(link.trace_id, link.span_id) for link in span.links],
                span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
                resource,
            )


def _facts(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}
