"""The page of the client: its code runs in order, beside a job, and prints what its comments say."""

from __future__ import annotations

import re

import pytest

from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from tests.integration.conftest import CommandLine
from tests.integration.running import job
from tests.support.documents import blocks, pattern
from tests.support.patience import PATIENCE_S

PAGE = "docs/client.md"


def patiently(code: str) -> str:
    """Return the code with more time for the job's answers."""
    code = code.replace("timeout_s=30", f"timeout_s={PATIENCE_S}").replace(".wait()", f".wait({PATIENCE_S})")
    return re.sub(r"(catch_up\([^()]*)\)", rf"\1, timeout_s={PATIENCE_S})", code)


def test_the_code_of_the_page_prints_what_it_says(
    sluice: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in sluice.environment.items():
        if name.startswith("SLUICE_"):
            monkeypatch.setenv(name, value)
    settings = sluice.settings()
    assert Cluster.of(settings).topics().create(layout.topics(settings, 1, 1)) == {}
    examples = [block for block in blocks(PAGE, "python") if re.search("^(from|import|with Client)", block)]
    names: dict[str, object] = {}
    printed = 0
    with job(sluice) as running:
        running.running()
        for block in examples:
            expected = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)
            capsys.readouterr()
            exec(patiently(block.replace('"billing"', f'"{sluice.name}.billing"')), names)
            lines = capsys.readouterr().out.splitlines()
            assert len(lines) == len(expected), block
            for line, comment in zip(lines, expected, strict=True):
                assert re.fullmatch(pattern(comment), line), block
            printed += len(lines)
    assert printed == 10
