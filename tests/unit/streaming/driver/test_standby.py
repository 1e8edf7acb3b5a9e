"""A standby that cannot prepare itself lets its supervisor try again, and does not end the job that runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from config.model import Settings
from streaming.driver import assembly, sources
from streaming.driver.starting import standby, warm_up
from streaming.errors import SparkFailed, TopicDeleted, TopicMissing
from streaming.precompile import dry_run


class Stream:
    """A query that Spark stops."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self

    def awaitTermination(self) -> None:
        raise StreamingQueryException("No space left on device\n=== Streaming Query ===")


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the query takes place."""

    def nothing(*_: object, **__: object) -> Any:
        return SimpleNamespace(algorithm="scan", options={}, sources=SimpleNamespace(names={}), partitions=dict)

    for module, names in {
        assembly: ("checked_empty_state", "topics", "names", "task_settings"),
        dry_run: ("indexed", "match"),
        warm_up: ("workers",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, nothing)
    monkeypatch.setattr(standby, "resolved", lambda settings, _: settings)
    monkeypatch.setattr(assembly, "all_bounds", lambda *_: {})
    monkeypatch.setattr(sources, "event_and_change_stream", lambda *_: Stream())


@pytest.mark.usefixtures("prepared")
def test_a_query_that_spark_stops_is_a_passing_error(tmp_path: Path) -> None:
    lock: Any = SimpleNamespace(held=False)
    spark: Any = None
    with pytest.raises(SparkFailed, match=r"the standby: No space left on device$") as error:
        standby.prepare(Settings(), spark, tmp_path, lock)
    assert error.value.retry


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(("pattern", "kind"), [("", TopicMissing), ("events.*", TopicDeleted)])
def test_a_missing_topic_is_one_under_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, kind: type[Exception]
) -> None:
    def missing(*_: object) -> None:
        raise TopicMissing("no topic events.eu")

    monkeypatch.setattr(assembly, "all_bounds", missing)
    lock: Any = SimpleNamespace(held=False)
    spark: Any = None
    settings = Settings.model_validate({"events": {"topic_pattern": pattern}})
    with pytest.raises(kind):
        standby.prepare(settings, spark, tmp_path, lock)
