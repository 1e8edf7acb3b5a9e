"""A schema registry for tests: real HTTP on 127.0.0.1, schemas in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen

from tests.support.patience import PATIENCE_S

READABLE = "// protobuf as people write it, which nobody asked for"


@dataclass
class SchemaRegistry:
    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)  # the id is the place, from 1
    subjects: dict[str, list[int]] = field(default_factory=dict)  # ids; the version is the place, from 1
    asked: list[str] = field(default_factory=list)  # every path of a GET
    authorization: list[str | None] = field(default_factory=list)  # of every GET
    answer: tuple[int, bytes] | None = None  # what it says to everything, in place of the truth

    def register(self, subject: str, schema: str, type: str = "AVRO", references: Any = ()) -> int:
        """Over HTTP, as a producer does; the id."""
        document = {"schema": schema, "schemaType": type, "references": list(references)}
        url = f"{self.url}/subjects/{subject}/versions"
        request = Request(url, json.dumps(document).encode(), {"content-type": "application/json"})
        with urlopen(request, timeout=PATIENCE_S) as response:
            id: int = json.load(response)["id"]
            return id

    def post(self, path: list[str], document: dict[str, Any]) -> tuple[int, Any]:
        if document not in self.schemas:
            self.schemas.append(document)
        id = self.schemas.index(document) + 1
        versions = self.subjects.setdefault(path[1], [])
        if id not in versions:
            versions.append(id)
        return 200, {"id": id}

    def get(self, path: list[str], query: dict[str, list[str]]) -> tuple[int, Any]:
        serialized = query.get("format") == ["serialized"]
        match path:
            case ["schemas", "ids", id]:
                if not 1 <= int(id) <= len(self.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {id} not found"}
                return 200, self._document(int(id), serialized)
            case ["subjects", subject, "versions", version]:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                if int(version) > len(self.subjects[subject]):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                id_ = self.subjects[subject][int(version) - 1]
                about = {"subject": subject, "version": int(version), "id": id_}
                return 200, about | self._document(id_, serialized)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _document(self, id: int, serialized: bool) -> dict[str, Any]:
        document = {key: value for key, value in self.schemas[id - 1].items() if value}
        if document["schemaType"] == "AVRO":
            del document["schemaType"]  # as registries do
        elif not serialized:
            document["schema"] = READABLE
        return document


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.authorization.append(self.headers["authorization"])
            url = urlsplit(self.path)
            self._say(*registry.get([unquote(part) for part in url.path[1:].split("/")], parse_qs(url.query)))

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._say(*registry.post([unquote(part) for part in self.path[1:].split("/")], document))

        def _say(self, status: int, document: Any) -> None:
            status, body = registry.answer or (status, json.dumps(document).encode())
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
