"""The compose files: up, deliveries arrive, down. Needs a Docker engine, our image (`make image`) and Kafka's, which is
pulled; KAFKA_IMAGE names another."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

HOME = Path(__file__).resolve().parents[2]
IMAGE = "sluice:0.1.0"
KAFKA = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.3.1")
PROJECT = "sluice-test"
COMPOSE = (["docker", "compose"], ["docker-compose"])  # the plugin, or the program that it follows
KINDS = (["ps", "--all"], ["volume", "ls"], ["network", "ls"])


def answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def docker(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def left() -> str:
    """Ids and names of all that the project has in the engine."""
    label = f"label=com.docker.compose.project={PROJECT}"
    return "".join(docker("docker", *kind, "--quiet", "--filter", label) for kind in KINDS)


@pytest.fixture(params=[["compose.yaml"], ["compose.yaml", "replicated.yaml"]], ids=["alone", "replicated"])
def compose(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The command, with everything up; afterwards nothing is left."""
    if not answers("docker", "version"):
        pytest.skip("no Docker engine answers")
    if not answers("docker", "image", "inspect", IMAGE):
        pytest.skip(f"the Docker engine has no image {IMAGE}; `make image` builds it")
    if not answers("docker", "image", "inspect", KAFKA):
        docker("docker", "pull", KAFKA, check=False)
    if not answers("docker", "image", "inspect", KAFKA):
        pytest.skip(f"the Docker engine has no image {KAFKA}, and cannot pull it; KAFKA_IMAGE names another")
    program = next((c for c in COMPOSE if answers(*c, "version")), None)
    if program is None:
        pytest.skip("neither `docker compose` nor `docker-compose` is installed")
    files = [part for name in request.param for part in ("--file", str(HOME / "docker" / name))]
    command = [*program, "--project-name", PROJECT, *files]
    try:
        docker(*command, "up", "--detach")
        yield command
    finally:
        docker(*command, "down", "--volumes", "--remove-orphans")
        assert left() == ""


def test_deliveries_arrive(compose: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    consume = ["run", "--rm", "-T", "--no-deps", "sluice", "consume", "trader-01", "--json"]
    while not (found := docker(*compose, *consume, check=False)):  # until the topic is made, it fails
        assert time.monotonic() < deadline, docker(*compose, "logs")
    first = json.loads(found.splitlines()[0])
    assert json.loads(first["headers"]["ce_subscriptionids"])
    assert json.loads(first["value"])["date"] == "2018-06-08"
