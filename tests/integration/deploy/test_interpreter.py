"""Executors whose Python lacks packages, and a session without the connector: errors that name what would work."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import forked
from tests.integration.conftest import CommandLine
from tests.integration.deploy.elsewhere import PROGRAM, Elsewhere, as_toml
from tests.integration.deploy.test_cluster import assignments
from tests.integration.running import job
from tests.integration.shared_jvm import SHARED
from tests.support.patience import PATIENCE_S
from tests.support.spark_cluster import SparkCluster


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of our version without any packages."""
    there = tmp_path_factory.mktemp("bare")
    venv.create(there, with_pip=False, symlinks=True)
    return there / "bin" / "python"


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "spark", workers=1) as cluster:
        yield cluster


def test_executors_without_packages_end_the_job_for_good_and_doctor_finds_them(
    sluice: CommandLine, spark: SparkCluster, bare: Path
) -> None:
    sluice("topics", "create")
    lacking = {"spark.options.spark.pyspark.python": str(bare)}
    error = failed(sluice, *assignments(spark, lacking))
    assert (
        f"{bare} (Python {sys.version.split()[0]}) lacks numpy (ModuleNotFoundError: No module named 'numpy')" in error
    )
    assert error.startswith("error: executor on ")
    for word in ("numba", "pyarrow", "kafka-python", "orjson", "spark.archives", "spark.pyspark.python"):
        assert word in error

    missing = {"spark.options.spark.pyspark.python": "/no/such/python"}
    assert "Cannot run program" in failed(sluice, *assignments(spark, missing))

    assert diagnosed(sluice, *assignments(spark, lacking))["state"] == "failure"
    deadline = time.monotonic() + PATIENCE_S
    while "no executor answered" in (found := diagnosed(sluice, *assignments(spark)))["found"]:
        assert time.monotonic() < deadline
    assert found["state"] == "ok", found
    assert "numpy" in found["found"]


def test_a_session_without_the_connector_is_told_which_jar_it_lacks(
    sluice: CommandLine,
    directory: Path,
) -> None:
    program = Elsewhere(sluice, directory, sys.executable)
    program.environment["PYTHONPATH"] = "sluice.zip"
    (directory / "sluice.toml").write_text(as_toml(sluice.flags()))
    (directory / "program.py").write_text(PROGRAM)
    sluice("topics", "create")
    done = subprocess.run(
        program.command("program.py", "local[1]", "sluice.toml", ""),
        env=program.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("streaming.errors.JobError: Spark has no Kafka connector")
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0" in error


def failed(sluice: CommandLine, *flags: str) -> str:
    """The last line of a job that ends by itself, for good."""
    with job(sluice, *flags) as running:
        assert running.ended() == 1
        return running.other[-1]


def diagnosed(sluice: CommandLine, *flags: str) -> dict[str, str]:
    """The finding about executors."""
    with SHARED.lent() as jvm:
        done = forked.run(("doctor", "--json", *flags), {**sluice.environment, **jvm.environment})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return next(one for one in found if one["check"] == "executors")
