"""The job under spark-submit and in a program of one's own, from a directory that has the archive and no checkout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from rig.broker import free_port
from streaming.process import code_archive
from tests.integration.conftest import JARS, CommandLine
from tests.integration.deploy import webhdfs
from tests.integration.deploy.elsewhere import MORE, PROGRAM, Elsewhere, asked, python_of
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S
from tests.support.spark_cluster import SparkCluster


def submit() -> str:
    return str(Path(sys.executable).parent / "spark-submit")


def jars() -> str:
    return ",".join(map(str, sorted((JARS / "spark").glob("*.jar"))))


def test_spark_submit_runs_the_job_with_its_own_settings_and_a_program_goes_on_with_its_state(
    sluice: CommandLine, kafka: str, directory: Path, tmp_path: Path, files: webhdfs.WebHdfs
) -> None:
    sluice("topics", "create", "--partitions", "2")
    sluice("subscribe", stdin=lines(subscription("s1", "alice", x=[1]), subscription("s2", "bob", x=[1, 2])))
    with SparkCluster(tmp_path / "spark") as spark:
        properties = {name.removeprefix("spark.options."): value for name, value in spark.flags.items()}
        ui = free_port()
        properties |= {"spark.driver.memory": "700m", "spark.cores.max": "1", "spark.ui.port": str(ui)}
        (directory / "cluster.properties").write_text("".join(f"{k} {v}\n" for k, v in properties.items()))
        given = ("--master", spark.master, "--properties-file", "cluster.properties", "--name", "ours")
        words = (submit(), *given, "--jars", jars(), "--py-files", "sluice.zip", "run_stream.py")
        submitted = Elsewhere(sluice, directory, *words)
        with job(submitted, "--config", f"{files.url}/sluice.toml", fresh=True) as running:
            running.until("running", lambda: any(line["event"] == "job_started" for line in running.lines))
            sluice("produce", stdin=lines({"x": 1}, {"x": 2}, {"x": 3}))
            running.until("delivered", lambda: running.total("delivery_count") >= 3)
            assert any("-Xmx600M" in process.command for process in spark.executors())
            (application,) = asked(ui)
            assert application["name"] == "ours"
            described = {job.get("description") for job in asked(ui, f"/{application['id']}/jobs")}
            assert "warm-up of the workers" in described
            name = re.compile(r"batch \d+: match and publish(; before it \d+ events, \d+ deliveries)?")
            assert any(name.fullmatch(text or "") for text in described)
            running.until("counted by executor", lambda: counted(running) == {"0": 3})
            # Executors bring the parts of the state themselves: nothing of them passes the driver.
            first = spark.fetched()
            assert first
            sluice("subscribe", "--wait", stdin=lines(*(subscription(f"m{n}", "carol", y=[n]) for n in range(MORE))))
            producer = Producer({"bootstrap.servers": kafka})

            def joined() -> bool:
                """Files come and go with batches, and there are none without events."""
                producer.produce(f"{sluice.name}.events", b"{}")
                producer.flush(PATIENCE_S)
                return bool(now := spark.fetched()) and not now & first

            running.until("on the executor, and the old ones gone", joined)
            assert {f"/sluice/state/{name}" for name in spark.fetched()} <= files.files.keys()
            assert not spark.mapped()
            # What executors run is what the driver had: nothing was compiled there.
            here = {file.name for file in submitted.temporary.glob(f"{code_archive.NAME}-*/**/*.nbc")}
            assert spark.kernels()
            assert not set().union(*spark.kernels()) - here
            os.kill(python_of(running), signal.SIGTERM)
            assert running.ended() == 0
        assert not [line for line in running.other if "INFO DAGScheduler" in line or "WARN Shell" in line]
    assert sorted(r.value for r in records(kafka, f"{sluice.name}.to.bob")) == [b'{"x": 1}', b'{"x": 2}']

    # A program of one's own, on another host, starts with the state that was saved, and its session stays.
    (directory / "program.py").write_text(PROGRAM)
    program = Elsewhere(sluice, directory, sys.executable)
    program.environment["PYTHONPATH"] = "sluice.zip"
    command = program.command("program.py", "local[1]", "sluice.toml", str(JARS / "spark" / "*"))
    with subprocess.Popen(command, env=program.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["phase"], first["query"]) == ("running", sluice.name)
        sluice("produce", stdin=lines({"x": 1, "n": 2}, {"x": 2, "n": 2}))
        deadline = time.monotonic() + PATIENCE_S
        while len(there := records(kafka, f"{sluice.name}.to.alice")) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
        assert sorted(record.value for record in there) == [b'{"x": 1, "n": 2}', b'{"x": 1}']
        out, _ = process.communicate(b"stop\n", timeout=PATIENCE_S)
        assert json.loads(out) == {"rows": 7, "ended": True, "partitions": "200", "restored": "state_restored"}
        assert process.returncode == 0


def counted(running: Job) -> dict[str, int]:
    """The deliveries of each executor that has done tasks, as the job's status has them."""
    (url,) = (line["monitoring_url"] for line in running.lines if line["event"] == "job_started")
    with urllib.request.urlopen(f"{url}/status.json", timeout=PATIENCE_S) as answer:
        return {one["id"]: one["deliveries"] for one in json.load(answer)["executors"] if one["done"]}


def test_standalone_clusters_take_no_python_in_cluster_mode(directory: Path) -> None:
    command = [submit(), "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster", "run_stream.py", "run"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Cluster deploy mode is currently not supported for python applications" in done.stdout + done.stderr
