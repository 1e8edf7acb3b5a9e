"""What is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming import session
from streaming.errors import JobError


@pytest.mark.parametrize(
    ("jars", "options", "reason"),
    [
        ([], {}, "no jars in"),
        (["a.jar"], {"spark.io.encryption.enabled": "true"}, "spark.io.encryption.enabled"),
    ],
)
def test_a_cluster_that_cannot_work_is_refused(
    tmp_path: Path, jars: list[str], options: dict[str, str], reason: str
) -> None:
    for jar in jars:
        (tmp_path / jar).touch()
    with pytest.raises(JobError, match=reason):
        session.start("q", "spark://127.0.0.1:1", options, tmp_path, tmp_path, True)
