"""A file system that speaks WebHDFS, the interface of HDFS over HTTP, and keeps files in memory.

Hadoop's own client uses it, as it would use HDFS: https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API = "/webhdfs/v1"


class WebHdfs(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files: dict[str, bytes] = {}  # path -> content; directories are those of files, and those that were made
        self.directories = {"/"}

    @property
    def url(self) -> str:
        return f"webhdfs://127.0.0.1:{self.server_port}"

    def status(self, path: str) -> dict[str, Any] | None:
        directory = path in self.directories
        if not directory and path not in self.files:
            return None
        return {
            "accessTime": 0,
            "blockSize": 1 << 27,
            "group": "g",
            "length": 0 if directory else len(self.files[path]),
            "modificationTime": 0,
            "owner": "o",
            "pathSuffix": "",
            "permission": "755",
            "replication": 0 if directory else 1,
            "type": "DIRECTORY" if directory else "FILE",
        }

    def children(self, path: str) -> list[dict[str, Any]]:
        within = path.rstrip("/")
        there = sorted(p for p in {*self.files, *self.directories} - {"/"} if p.rpartition("/")[0] == within)
        return [{**(self.status(p) or {}), "pathSuffix": p.rpartition("/")[2]} for p in there]


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebHdfs

    def do_GET(self) -> None:
        path, operation, _ = self._asked()
        status = self.server.status(path)
        if status is None:
            self._reject(404, "FileNotFoundException", "java.io", f"{path} is not there")
        elif operation == "GETFILESTATUS":
            self._answer({"FileStatus": status})
        elif operation == "LISTSTATUS":
            self._answer({"FileStatuses": {"FileStatus": self.server.children(path)}})
        elif operation == "OPEN":
            self._send(200, self.server.files[path])
        else:
            self._reject(400, "UnsupportedOperationException", "java.lang", operation)

    def do_PUT(self) -> None:
        path, operation, there = self._asked()
        content = self._body()
        if operation == "MKDIRS":
            while path and path != "/":
                self.server.directories.add(path)
                path = path.rpartition("/")[0]
            self._answer({"boolean": True})
        elif operation == "CREATE" and not there:  # the name node names a data node
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}{self.path}&datanode=true")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif operation == "CREATE":
            self.server.files[path] = content
            self._send(201, b"")
        else:
            self._reject(400, "UnsupportedOperationException", "java.lang", operation)

    def do_DELETE(self) -> None:
        path, _, _ = self._asked()
        self._answer({"boolean": self.server.files.pop(path, None) is not None})

    def _asked(self) -> tuple[str, str, bool]:
        """The path, the operation, and whether a data node is asked."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        return unquote(parts.path).removeprefix(API) or "/", query["op"][0].upper(), "datanode" in query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _answer(self, document: dict[str, Any]) -> None:
        self._send(200, json.dumps(document).encode())

    def _reject(self, code: int, exception: str, package: str, message: str) -> None:
        said = {"exception": exception, "javaClassName": f"{package}.{exception}", "message": message}
        self._send(code, json.dumps({"RemoteException": said}).encode())

    def _send(self, code: int, content: bytes) -> None:
        """Without a content type: to parse one, Hadoop's client needs a class that PySpark's copy of it lacks."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running() -> Iterator[WebHdfs]:
    with WebHdfs() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
