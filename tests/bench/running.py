"""Run `bench matchers` within a test."""

from __future__ import annotations

from typer.testing import CliRunner, Result

import run_stream

QUICK = ("--seconds", "0.01", "--batch", "5", "--settling", "0.05")


def bench(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(run_stream.app, ["bench", "matchers", *arguments])
