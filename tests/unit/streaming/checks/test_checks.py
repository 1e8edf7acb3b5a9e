"""The findings of `doctor` on machines and clusters with faults."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from config.model import Kafka, Settings
from streaming.checks import FAILURE, OK, SKIPPED, WARNING, Finding, machine
from streaming.checks.cluster import findings
from streaming.checks.cluster_info import ClusterInfo
from streaming.errors import BrokerUnreachable
from streaming.kafka import layout
from streaming.kafka.topics import Rights, Topic
from streaming.process import jars
from tests.integration.conftest import HOME

SETTINGS = Settings()
SHARED = Settings.model_validate({"deliveries": {"layout": "shared"}})
ALL = Rights({"READ", "WRITE"})
NOW_MS = 1_000_000_000


@dataclass(frozen=True)
class Said(ClusterInfo):
    """A cluster as it should be, or not."""

    topics: Mapping[str, int] = field(
        default_factory=lambda: {t.name: t.partitions for t in layout.topics(SHARED, 2, 1)} | {"deliveries.alice": 1}
    )
    configs: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    allowed: Mapping[str, Rights] = field(default_factory=dict)
    group: Rights | None = ALL
    transactional_ids: tuple[str, ...] = ("sluice", "sluice/0")
    version: int = 2
    create: str = ""
    config_rejection: str = ""
    most: int | None = 1_048_588
    newest: int | None = NOW_MS

    def partitions(self) -> Mapping[str, int]:
        return self.topics

    def brokers(self) -> int:
        return 3

    def rights(self, topics: Sequence[str]) -> Mapping[str, Rights]:
        return {t: self.allowed.get(t, ALL) for t in topics if t in self.topics or t in self.allowed}

    def rights_of_group(self, group: str) -> Rights | None:
        return self.group

    def may_write_transactions(self, transactional_id: str, group: str) -> bool:
        assert group == SETTINGS.query.name
        return transactional_id in self.transactional_ids

    def transaction_version(self) -> int:
        return self.version

    def rejected_creation(self, topic: str) -> str:
        assert topic.startswith("deliveries.")
        return self.create

    def settings_of(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        made = {"max.message.bytes": "1048588", "cleanup.policy": "delete"}
        own = {t.name: t.config for t in layout.topics(SHARED, 1, 1)}
        created = layout.delivery_config(SETTINGS)
        found = {t: self.configs.get(t, {**made, **own.get(t, created)}) for t in topics}
        return {t: config for t, config in found.items() if config is not None}

    def rejected_config(self, topic: Topic) -> str:
        assert topic.config == layout.delivery_config(SETTINGS)
        return self.config_rejection

    def most_bytes(self) -> int | None:
        return self.most

    def newest_ms(self, topics: Mapping[str, int]) -> int | None:
        return self.newest


GOOD = Said()
LARGE = {"segment.index.bytes": "10485760", "index.interval.bytes": "4096"}  # Kafka's defaults
CASES: dict[str, tuple[Said, str, str, str]] = {
    "no topic": (replace(GOOD, topics={}), "topic events", FAILURE, "does not exist"),
    "subscriptions not compacted": (
        replace(GOOD, configs={"subscriptions": {"min.compaction.lag.ms": "86400000"}}),
        "topic subscriptions",
        FAILURE,
        "cleanup.policy is not compact",
    ),
    "subscriptions that retention forgets": (
        replace(GOOD, configs={"subscriptions": {"cleanup.policy": "compact,delete"}}),
        "topic subscriptions",
        FAILURE,
        "min.compaction.lag.ms is less than a day",
    ),
    "subscriptions without a lag": (
        replace(GOOD, configs={"subscriptions": {"cleanup.policy": "compact"}}),
        "topic subscriptions",
        WARNING,
        "min.compaction.lag.ms",
    ),
    "statuses not compacted": (
        replace(GOOD, configs={"subscriptions.status": {}}),
        "topic subscriptions.status",
        WARNING,
        "Kafka deletes statuses",
    ),
    "metrics not compacted": (
        replace(GOOD, configs={"subscribers.metrics": {}}),
        "topic subscribers.metrics",
        WARNING,
        "Kafka deletes metrics of subscribers",
    ),
    "metrics not to be read": (
        replace(GOOD, allowed={"subscribers.metrics": Rights({"WRITE"})}),
        "permissions",
        FAILURE,
        "this user lacks read on the topic subscribers.metrics",
    ),
    "small dead letters": (
        replace(GOOD, configs={"deadletters": {"max.message.bytes": "1048588"}}),
        "topic deadletters",
        WARNING,
        "a dead letter may have 10,000,000",
    ),
    "events compacted": (
        replace(GOOD, configs={"events": {"cleanup.policy": "compact"}}),
        "topic events",
        FAILURE,
        "rejects records without a key",
    ),
    "settings unseen": (replace(GOOD, configs={"events": None}), "topic events", SKIPPED, "may not see its settings"),
    "events not to be read": (
        replace(GOOD, allowed={"events": Rights({"WRITE"})}),
        "permissions",
        FAILURE,
        "this user lacks read on the topic events",
    ),
    "a delivery not to be written": (
        replace(GOOD, allowed={"deliveries.alice": Rights({"READ"})}),
        "permissions",
        FAILURE,
        "write on the topic deliveries.alice",
    ),
    "none to be made": (replace(GOOD, create="no"), "permissions", FAILURE, "create on the topics deliveries.* (no)"),
    "group": (replace(GOOD, group=Rights()), "permissions", FAILURE, "read on the group sluice"),
    "no transactions": (
        replace(GOOD, transactional_ids=("sluice/0",)),
        "permissions",
        FAILURE,
        "this user lacks write on the transactional-id sluice",
    ),
    "no transactions of tasks": (
        replace(GOOD, transactional_ids=("sluice",)),
        "permissions",
        FAILURE,
        "write on the transactional-ids sluice/*",
    ),
    "settings of topics that the broker does not know": (
        replace(GOOD, config_rejection="Unknown topic config name: a.b"),
        "delivery topics",
        FAILURE,
        "the broker rejects deliveries.topic_config: Unknown topic config name: a.b",
    ),
    "settings of delivery topics unseen": (
        replace(GOOD, configs={"deliveries.alice": None}),
        "delivery topics",
        SKIPPED,
        "1 exist; this user may not see their settings",
    ),
    "large index files": (
        replace(GOOD, configs={"deliveries.alice": LARGE}),
        "delivery topics",
        WARNING,
        "1 of 1 differ from deliveries.topic_config, such as deliveries.alice: segment.index.bytes=10485760, "
        "index.interval.bytes=4096. Kafka maps two index files of that size per partition",
    ),
    "large index files of several": (
        replace(
            GOOD,
            topics={**GOOD.topics, "deliveries.bob": 1, "deliveries.carol": 1},
            configs={"deliveries.alice": {**LARGE, "index.interval.bytes": "65536"}, "deliveries.bob": LARGE},
        ),
        "delivery topics",
        WARNING,
        "2 of 3 differ from deliveries.topic_config, such as deliveries.alice: segment.index.bytes=10485760.",
    ),
    "older transactions": (replace(GOOD, version=1), "transactions", WARNING, "three more requests"),
    "a small broker": (replace(GOOD, most=1_000_100), "largest delivery", WARNING, "the broker accepts 1,000,100"),
    "an unknown one": (replace(GOOD, most=None), "largest delivery", SKIPPED, "may not see the broker's limit"),
    "a clock behind": (replace(GOOD, newest=NOW_MS + 6_000), "clock", WARNING, "6.0 s ahead"),
    "no time": (replace(GOOD, newest=None), "clock", SKIPPED, "no record"),
}


def found(message: Said, settings: Settings = SETTINGS) -> dict[str, Finding]:
    return {one.what: one for one in findings(settings, message, NOW_MS)}


@pytest.mark.parametrize(("message", "what", "state", "text"), CASES.values(), ids=CASES)
def test_what_is_wrong_with_a_cluster_is_named_and_how_to_mend_it(
    message: Said, what: str, state: str, text: str
) -> None:
    one = found(message)[what]
    assert one.state == state
    assert text in one.text
    assert one.remedy or state == SKIPPED


@pytest.mark.parametrize("message", [case[0] for case in CASES.values()], ids=CASES)
def test_a_remedy_that_changes_topics_can_be_pasted(message: Said) -> None:
    """Kafka's tool takes one argument of settings, without a space, and needs a broker's address."""
    remedies = [one.remedy for one in findings(SETTINGS, message, NOW_MS) if "--add-config" in one.remedy]
    for remedy in remedies:
        words = shlex.split(remedy, comments=True)
        (at,) = [n for n, word in enumerate(words) if word == "--add-config"]
        assert all("=" in setting for setting in words[at + 1].rstrip(";").split(",")), remedy
        assert words[at + 2 :] in ([], ["done"]), remedy
        assert "--bootstrap-server 127.0.0.1:9092 " in remedy


def test_all_settings_that_are_wrong_are_in_one_remedy() -> None:
    message = replace(GOOD, configs={"subscriptions": {}, "deliveries.alice": LARGE})
    assert found(message)["topic subscriptions"].remedy == (
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type topics --entity-name subscriptions "
        "--add-config cleanup.policy=compact,min.compaction.lag.ms=86400000"
    )
    assert found(message)["delivery topics"].remedy == (
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type topics "
        "--entity-name deliveries.alice --add-config segment.index.bytes=262144,index.interval.bytes=65536"
    )


@pytest.mark.parametrize(
    ("servers", "local"),
    [
        ("127.0.0.1:9092", True),
        ("localhost:9092,[::1]:9093", True),
        ("127.0.0.1:9092,kafka:9092", False),
        ("kafka-2.example:9092", False),
    ],
)
def test_the_read_ahead_of_this_machine_is_told_if_the_broker_is_on_it(
    servers: str, local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "read_ahead_kb", lambda: {"vda": 8_192, "vdb": 128})
    settings = SETTINGS.model_copy(update={"kafka": Kafka(bootstrap_servers=servers)})
    text = found(replace(GOOD, configs={"deliveries.alice": LARGE}), settings)["delivery topics"].text
    assert ("(this machine: vda 8,192 kB)" in text) == local
    assert "vdb" not in text


def test_the_read_ahead_of_each_device_is_read(tmp_path: Path) -> None:
    assert machine.read_ahead_kb(tmp_path) == {}
    for name, kb in (("vda", 8_192), ("loop0", 128)):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue" / "read_ahead_kb").write_text(f"{kb}\n")
    assert machine.read_ahead_kb(tmp_path) == {"loop0": 128, "vda": 8_192}


def test_the_largest_delivery_may_be_what_new_topics_take() -> None:
    settings = Settings.model_validate({"deliveries": {"topic_config": {"max.message.bytes": 5_000}}})

    class Taking(Said):
        def rejected_config(self, topic: Topic) -> str:
            return ""

    one = found(Taking(), settings)["largest delivery"]
    assert (one.state, one.text) == (WARNING, "deliveries.max_bytes is 1,000,000 bytes, the broker accepts 5,000 bytes")


@pytest.mark.parametrize("settings", [SETTINGS, SHARED], ids=lambda s: s.deliveries.layout)
def test_a_cluster_as_it_should_be_is_fine(settings: Settings) -> None:
    states = {one.what: one.state for one in found(GOOD, settings).values()}
    assert set(states.values()) == {OK}
    assert f"topic {settings.deliveries.topic}" in states or settings is SETTINGS


def test_without_a_broker_nothing_else_is_asked() -> None:
    class Gone(Said):
        def partitions(self) -> Mapping[str, int]:
            raise BrokerUnreachable("nobody answers")

    states = {one.what: one.state for one in found(Gone()).values()}
    assert states == {"broker": FAILURE, "topics": SKIPPED}


def test_packages_are_compared_with_the_lock(tmp_path: Path) -> None:
    lock, have = tmp_path / "requirements.lock", importlib.metadata.version("pytest")
    assert machine.packages(lock).state == SKIPPED
    pinned = f"pytest=={have} \\\n    --hash=sha256:00\nno-such==1 ; sys_platform == 'win32' \\\n"
    for more, state, text in (
        ("", OK, "all 1 have the versions of requirements.lock"),
        ("numpy==0.1\n", WARNING, "numpy is"),
        ("numpy==0.1\nno-such-package==2 \\\n", FAILURE, "no-such-package is missing"),
    ):
        lock.write_text(pinned + more)
        one = machine.packages(lock)
        assert (one.state, text in one.text) == (state, True), one


@pytest.mark.parametrize(
    ("message", "state"),
    [('openjdk version "17.0.15" 2025', OK), ('java version "1.8.0_99"', FAILURE), ("none", WARNING)],
)
def test_java_must_be_new_enough(message: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{message}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert machine.java_version().state == state


def test_jars_that_are_pinned_must_be_there(tmp_path: Path) -> None:
    pins = HOME / "config" / "ivy.xml"
    states = [(one.what, one.state) for one in machine.jars(pins, tmp_path)]
    assert states == [("jars of spark", FAILURE), ("jars of broker", WARNING)]
    (tmp_path / "broker").mkdir()
    for directory, name in jars.pinned(pins):
        if directory == "broker":
            (tmp_path / "broker" / name).touch()
    assert [one.state for one in machine.jars(pins, tmp_path)] == [FAILURE, OK]


def test_a_checkpoint_is_writable_and_of_this_query(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    directory = tmp_path / "checkpoint"
    found = machine.checkpoint(str(directory), "sluice")
    assert found.state == OK
    assert "does not exist yet" in found.text
    assert not directory.exists()
    directory.mkdir(0o700)
    for text, state in ((json.dumps({"query": "sluice"}), OK), ('{"query": "other"}', FAILURE), ("[]", FAILURE)):
        (directory / "query.json").write_text(text)
        assert machine.checkpoint(str(directory), "sluice").state == state
    (directory / "query.json").unlink()
    directory.chmod(0o777)
    assert machine.checkpoint(str(directory), "sluice").state == WARNING
    assert machine.checkpoint("s3://bucket/checkpoint", "sluice").state == SKIPPED
    assert machine.checkpoint("/proc/none", "sluice").state == FAILURE


def test_a_checkpoint_below_a_directory_that_cannot_be_searched_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of another user; to root, as in a container, all are open."""
    closed, stat_of = tmp_path / "closed", os.stat
    closed.mkdir()

    def stat(path: Any, *more: Any, **options: Any) -> os.stat_result:
        if Path(path).is_relative_to(closed) and Path(path) != closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat_of(path, *more, **options)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = machine.checkpoint(str(closed / "checkpoint"), "sluice")
    assert (found.state, found.text) == (FAILURE, f"{closed} cannot be written")


def test_memory_is_compared_with_what_the_driver_asks_for(tmp_path: Path) -> None:
    source = tmp_path / "meminfo"
    assert machine.memory(1, source).state == SKIPPED
    source.write_text("MemTotal:       9 kB\nMemAvailable:    3000000 kB\n")
    two, three = machine.bytes_of("2g"), machine.bytes_of("3072m")
    assert [machine.memory(asked, source).state for asked in (two, three, None)] == [WARNING, WARNING, SKIPPED]
    assert machine.memory(1 << 30, source).state == OK
