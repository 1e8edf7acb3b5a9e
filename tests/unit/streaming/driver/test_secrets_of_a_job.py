"""What a job reads from files before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config import Settings
from streaming.driver import assembly
from streaming.errors import JobError

TOKEN = "0123456789abcdef"


def settings(directory: Path, token: str, **sections: Any) -> Settings:
    (directory / "token").write_text(token)
    of_file = {"token": f"${{file:{directory}/token}}"}
    return Settings.model_validate({"monitoring": of_file, **sections})


def test_the_token_of_the_console(tmp_path: Path) -> None:
    assert assembly._token(settings(tmp_path, f"{TOKEN}\n")) == TOKEN
    assert assembly._token(Settings()) == ""


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({}, "monitoring.token: a token needs at least 16 letters"),
        (
            {"kafka": {"spark": {"sasl.jaas.config": "${file:/no}"}}},
            "kafka.spark.sasl.jaas.config: the file /no cannot",
        ),
        (
            {"schema_registry": {"url": "http://r", "options": {"bearer.auth.token": "${file:/no}"}}},
            "schema_registry.options.bearer.auth.token: the file /no cannot",
        ),
    ],
    ids=["token", "spark", "registry"],
)
def test_a_secret_that_cannot_be_used_ends_the_job_at_once(
    sections: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    short = settings(tmp_path, "hunter2" if not sections else TOKEN, **sections)
    with pytest.raises(JobError) as error:
        assembly.check(short)
    assert str(error.value).startswith(reason)
    assert "hunter2" not in str(error.value)
