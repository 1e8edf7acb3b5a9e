"""The compose file: up, deliveries arrive, down. Needs a Docker engine and the image (`make image`)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
IMAGE = os.environ.get("SLUICE_TEST_IMAGE", "sluice:latest")
FILE = ["--project-name", "sluice-test", "--file", str(HOME / "docker" / "compose.yaml")]


def docker(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def compose() -> Iterator[list[str]]:
    """The command, with everything up."""
    try:
        docker("docker", "image", "inspect", IMAGE)
    except (OSError, AssertionError) as error:
        pytest.skip(f"no Docker engine that has the image {IMAGE} (`make image`): {str(error).strip()[:200]}")
    plugin = docker("docker", "compose", "version", check=False)
    command = [*(["docker", "compose"] if plugin else ["docker-compose"]), *FILE]
    try:
        docker(*command, "up", "--detach")
        yield command
    finally:
        docker(*command, "down", "--volumes", "--timeout", "60")
        assert docker(*command, "ps", "--quiet") == ""


def test_deliveries_arrive(compose: list[str]) -> None:
    deadline = time.monotonic() + 200
    found = ""
    while not found:
        found = docker(*compose, "run", "--rm", "--no-deps", "sluice", "consume", "trader-09", "--json", check=False)
        assert time.monotonic() < deadline, docker(*compose, "logs")
    first = json.loads(found.splitlines()[0])
    assert json.loads(first["headers"]["ce_subscriptionids"])
    assert json.loads(first["value"])["date"] == "2018-06-08"
