"""Spark's requests to Kubernetes with the settings in deploy/kubernetes. The API server is a double."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from streaming.process.code_archive import NAME
from tests.integration.conftest import HOME
from tests.support.patience import PATIENCE_S

KUBERNETES = HOME / "deploy" / "kubernetes"
OPTIONS = tomllib.loads((KUBERNETES / "sluice.toml").read_text())["spark"]["options"]
HERE = {  # what is other than in a pod
    "spark.driver.host": "127.0.0.1",
    "spark.driver.port": "0",
    "spark.driver.blockManager.port": "0",
    "spark.kubernetes.executor.podTemplateFile": str(KUBERNETES / "executor.yaml"),
    "spark.kubernetes.executor.apiPollingInterval": "1s",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
}
# Started as the job starts Spark; it ends when it is told to.
SESSION = """
import json, sys
from pathlib import Path
from streaming.driver import session
master, options, jars, scratch = json.loads(sys.argv[1])
spark = session.start("test", master, options, Path(jars), Path(scratch))
sys.stdin.read()
spark.stop()
"""
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}

OF_EXECUTORS = (HOME / "docker" / "entry").read_text().partition("!= executor")[2]
NEEDED = {*re.findall(r"\$(SPARK_\w+)", OF_EXECUTORS)} - {"SPARK_CLASSPATH"}  # by the image


class ApiServer(ThreadingHTTPServer):
    """Knows the driver's pod, and says yes to all."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ApiAnswer)
        self.asked: set[tuple[str, str]] = set()  # (verb, resource)
        self.pods: list[dict[str, Any]] = []  # that were made; the first has failed
        self.deleted: set[str] = set()
        self.over = threading.Event()  # ends the watches

    def remember(self, method: str, path: str, body: bytes) -> Any:
        """Returns what to answer; None: a stream in which nothing comes."""
        place, _, query = path.partition("?")
        resource, *name = place.removeprefix("/api/v1/namespaces/sluice/").split("/")
        kind = {"GET": "get" if name else "list", "DELETE": "delete" if name else "deletecollection"}
        watched = "watch=true" in query
        self.asked.add(("watch" if watched else VERBS.get(method) or kind[method], resource))
        if watched:
            return None
        if method == "POST":
            self.pods.append(json.loads(body))
            return self.pods[-1]
        if method == "DELETE":
            self.deleted.update(name)
            return {"apiVersion": "v1", "kind": "Status", "status": "Success"}
        if name:
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name[0], "uid": "of the driver"}}
        there = [
            {**pod, "status": {"phase": "Running" if number else "Failed"}}
            for number, pod in enumerate(self.pods)
            if pod["metadata"]["name"] not in self.deleted
        ]
        return {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": there}


class ApiAnswer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiServer

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.remember(self.command, self.path, body)
        content = b"" if answer is None else json.dumps(answer).encode()
        # Spark's client asks for a watch as a web socket first, and then as a stream. One that ended it would take for
        # broken, and close its connection, even if that had another request by then.
        stream = answer is None and "Upgrade" not in self.headers
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header(*(("Transfer-Encoding", "chunked") if stream else ("Content-Length", str(len(content)))))
        self.send_header("Connection", "close" if answer is None else "keep-alive")
        self.end_headers()
        if stream:
            self.server.over.wait()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.over.set()
        server.shutdown()


def test_spark_asks_for_what_the_role_allows_and_makes_executors_that_the_image_can_be(server: ApiServer) -> None:
    master = f"k8s://http://127.0.0.1:{server.server_port}"
    with TemporaryDirectory(prefix="k-") as scratch:  # sockets are made there, whose paths must be short
        given = json.dumps([master, OPTIONS | HERE, str(HOME / "jars" / "spark"), scratch])
        command = [sys.executable, "-c", SESSION, given]
        with subprocess.Popen(command, cwd=HOME, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
            assert driver.stderr is not None
            try:
                deadline = time.monotonic() + PATIENCE_S
                while len(server.pods) < 3 or not server.deleted:  # two, and one for that which failed
                    assert driver.poll() is None, driver.stderr.read().decode()[-3000:]
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                _, errors = driver.communicate(timeout=PATIENCE_S)
                assert driver.returncode == 0, errors.decode()[-3000:]
            finally:
                driver.kill()

    documents = list(YAML(typ="safe", pure=True).load_all((KUBERNETES / "rights.yaml").read_text()))
    (role,) = (d for d in documents if d["kind"] == "Role")
    allowed = {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert server.asked == allowed

    for pod in server.pods:
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version())
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
        assert pod["metadata"]["ownerReferences"][0]["uid"] == "of the driver"
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["serviceAccountName"] == "executor"
        assert spec["automountServiceAccountToken"] is False
        (container,) = spec["containers"]
        assert container["image"] == OPTIONS["spark.kubernetes.container.image"]
        assert container["args"] == ["executor"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"]
        written = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/tmp" in written
        environment = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert environment["SPARK_LOCAL_DIRS"] in written
        assert container["resources"]["limits"]["ephemeral-storage"] == "16Gi"
        assert environment["PYTHONPATH"] == NAME
        assert environment.keys() >= NEEDED
