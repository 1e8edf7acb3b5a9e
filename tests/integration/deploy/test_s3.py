"""The recipe for S3 as docs/how-to/checkpoint-by-url.md has it: a job whose settings and state lie in a bucket."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.broker import free_port
from rig.processes import below, ended, kill
from streaming.process import code_archive
from tests.integration.conftest import HOME, CommandLine
from tests.integration.deploy.elsewhere import MORE, Elsewhere, as_toml, asked, python_of
from tests.integration.running import job, lines, records, subscription
from tests.support.patience import PATIENCE_S
from tests.support.spark_cluster import SparkCluster

BUCKET = "sluice"
PYTHON = HOME / ".cache" / "s3" / "bin" / "python"
SERVE = """
import waitress
from moto.server import DomainDispatcherApplication, create_backend_app
server = waitress.create_server(DomainDispatcherApplication(create_backend_app), host="127.0.0.1", port=0, threads=16)
print(server.effective_port, flush=True)
server.run()
"""
PAGE = HOME / "docs" / "how-to" / "checkpoint-by-url.md"
RECIPE = re.search(r"## S3\n(.*?)\n## ", PAGE.read_text(), re.DOTALL)
BLOCK = re.compile(r"^```(?:sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.skipif(
    not PYTHON.exists() or not (HOME / "jars" / "s3").exists(), reason="`make test` fetches S3"
)


class Store:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def put(self, name: str, content: bytes = b"") -> None:
        binary = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.url}/{BUCKET}{name}", data=content, headers=binary, method="PUT")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def names(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/{BUCKET}?list-type=2", timeout=PATIENCE_S) as answer:
            return re.findall(r"<Key>([^<]+)</Key>", answer.read().decode())


@contextmanager
def serving() -> Iterator[Store]:
    with subprocess.Popen([PYTHON, "-c", SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            store = Store(int(process.stdout.readline()))
            store.put("")
            yield store
        finally:
            process.kill()


def recipe() -> tuple[str, str]:
    """The command, up to the program's file, and the properties."""
    assert RECIPE is not None
    commands, properties = BLOCK.findall(RECIPE[1])[:2]
    command = commands[commands.index("spark-submit") :].partition(" run --config")[0]
    return command.replace("\\\n", " "), properties


def test_the_recipe_for_s3_starts_a_job_that_goes_on_with_its_state_after_kill_9(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    command, properties = recipe()
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("s1", "alice", x=[1])))
    sluice("subscribe", stdin=lines(*(subscription(f"m{n}", "carol", y=[n]) for n in range(MORE))))
    with serving() as store, SparkCluster(tmp_path / "spark", workers=1) as spark:
        flags = sluice.flags() | {"query.checkpoint": f"s3a://{BUCKET}/checkpoint"}
        store.put("/sluice.toml", as_toml(flags).encode())
        needs = {name.removeprefix("spark.options."): value for name, value in spark.flags.items()}
        ui = free_port()
        needs |= {"spark.ui.port": str(ui), "spark.master": spark.master, "spark.driver.memory": "700m"}
        needs |= {"spark.hadoop.fs.s3a.endpoint": store.url, "spark.hadoop.fs.s3a.connection.ssl.enabled": "false"}
        needs |= {"spark.hadoop.fs.s3a.access.key": "any", "spark.hadoop.fs.s3a.secret.key": "any"}

        def submitted(name: str) -> Elsewhere:
            there = tmp_path / name
            there.mkdir()
            code_archive.make(HOME, there / "sluice.zip")
            shutil.copy(HOME / "run_stream.py", there)
            (there / "jars").symlink_to(HOME / "jars")
            theirs = properties.replace("https://store.example:9000", store.url)
            (there / "s3.properties").write_text(theirs + "".join(f"{k} {v}\n" for k, v in needs.items()))
            made = Elsewhere(sluice, there, "bash", "-c", f'{command} "$@"', "bash")
            made.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            return made

        config = ("--config", f"s3a://{BUCKET}/sluice.toml")
        with job(submitted("one"), *config, fresh=True) as running:
            running.until("running", lambda: any(line["event"] == "job_started" for line in running.lines))
            sluice("produce", stdin=lines({"x": 1, "n": 1}, {"x": 2}))
            running.until("delivered", lambda: running.total("delivery_count") >= 1)
            running.until("saved", lambda: any("/state/version-" in name for name in store.names()))
            assert spark.fetched()  # by an executor, from the store
            processes = below(running.process.pid)
            kill(processes)
            running.ended()
            assert ended(processes, PATIENCE_S)
        with job(submitted("two"), *config, fresh=True) as running:
            running.until("running", lambda: any(line["event"] == "job_started" for line in running.lines))
            (restored,) = (line for line in running.lines if line["event"] == "state_restored")
            assert restored["subscription_count"] == MORE + 1
            sluice("produce", stdin=lines({"x": 1, "n": 2}, {"y": 7}))
            running.until("delivered", lambda: running.total("delivery_count") >= 2)

            def fetched() -> bool:
                """Executors fetch a part before the first batch that needs it."""
                sluice("produce", stdin="{}\n")
                return bool(spark.fetched() & {name.rpartition("/")[2] for name in store.names()})

            running.until("fetched", fetched)
            assert [application["name"] for application in asked(ui)] == [sluice.name]  # for want of --name
            os.kill(python_of(running), signal.SIGTERM)
            assert running.ended() == 0
    assert sorted(r.value for r in records(kafka, f"{sluice.name}.to.alice")) == [
        b'{"x": 1, "n": 1}',
        b'{"x": 1, "n": 2}',
    ]
    assert [r.value for r in records(kafka, f"{sluice.name}.to.carol")] == [b'{"y": 7}']


def test_the_jars_that_the_recipe_names_are_those_that_are_fetched() -> None:
    assert RECIPE is not None
    pins = (HOME / "config" / "s3.xml").read_text()
    assert f"{pins.count('<dependency ')} jars" in RECIPE[1]
    for org, name, version in re.findall(r"`([a-z.]+):([\w-]+):([\d.]+)`", RECIPE[1]):
        if name != "bundle":
            assert f'org="{org}" name="{name}" rev="{version}"' in pins
    assert shlex.split(recipe()[0])[0] == "spark-submit"
