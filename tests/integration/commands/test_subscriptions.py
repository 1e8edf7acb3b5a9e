"""`subscriptions list|get|status|export|apply` on a real broker."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from config.model import Settings
from streaming.documents import records
from streaming.documents.records import Origin
from streaming.kafka import layout
from streaming.kafka.clients import Cluster, read
from tests.integration.conftest import CommandLine
from tests.support.patience import PATIENCE_S

ALICE = {"subscriber": "alice", "pattern": {"x": [1]}}


def written(settings: Settings, topic: str, values: list[tuple[str | None, bytes | None]]) -> None:
    """Write records with these keys, each to the partition of its key."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for key, value in values:
        producer.produce(topic, value, key)
    assert producer.flush(PATIENCE_S) == 0


def document(id: str, **more: Any) -> tuple[str, bytes]:
    return id, json.dumps({"id": id, **ALICE, **more}).encode()


def there(settings: Settings) -> dict[bytes | None, bytes | None]:
    cluster = Cluster(settings.kafka.bootstrap_servers, {})
    return {m.key(): m.value() for m in read(cluster, [settings.subscriptions.topic], follow=False) if m is not None}


@pytest.fixture
def settings(sluice: CommandLine) -> Settings:
    """Return settings whose topics exist, with four subscriptions."""
    settings = sluice.settings()
    assert Cluster(settings.kafka.bootstrap_servers, {}).topics().create(layout.topics(settings, 2, 1)) == {}
    first = [document("a1"), document("a2", subscriber="bob"), document("gone"), document("b1", pattern={"y": [2]})]
    last = [
        document("b2", paused=True),
        document("b3", expires_at="2020-01-01T00:00:00Z"),
        ("a1", b'{ "id": "a1",\n "subscriber": "carol", "pattern": {} }'),
        ("a2", b"{"),
        ("gone", None),
    ]
    written(settings, settings.subscriptions.topic, [*first, *last])
    return settings


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        ((), ["a1", "a2", "b1", "b2", "b3"]),
        (("--prefix", "b"), ["b1", "b2", "b3"]),
        (("--subscriber", "alice"), ["b1", "b2", "b3"]),
        (("--paused",), ["b2"]),
        (("--in-force", "--prefix", "b"), ["b1"]),
        (("--subscriber", "nobody"), []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_asked_for_is_listed(sluice: CommandLine, settings: Settings, flags: Any, ids: list[str]) -> None:
    found = [json.loads(line) for line in sluice("subscriptions", "list", *flags, "--json").splitlines()]
    assert sorted(one["id"] for one in found) == ids


def test_people_get_a_table_as_long_as_they_want(sluice: CommandLine, settings: Settings) -> None:
    heading, *lines = sluice("subscriptions", "list", "--prefix", "b").splitlines()
    assert heading.split() == ["ID", "SUBSCRIBER", "STATE", "PATTERN"]
    assert sorted(tuple(re.split(" {2,}", line)) for line in lines) == [
        ("b1", "alice", "in force", '{"y":[2]}'),
        ("b2", "alice", "paused", '{"x":[1]}'),
        ("b3", "alice", "expired", '{"x":[1]}'),
    ]
    assert len(sluice("subscriptions", "list", "--limit", "1").splitlines()) == 2
    assert sluice("subscriptions", "list", "--prefix", "none") == ""


def test_a_document_is_shown_as_the_topic_has_it(sluice: CommandLine, settings: Settings) -> None:
    assert (
        sluice("subscriptions", "get", "b2") == json.dumps(json.loads(document("b2", paused=True)[1]), indent=2) + "\n"
    )
    assert sluice("subscriptions", "get", "a2", "--json").encode() == document("a2", subscriber="bob")[1] + b"\n"
    topic = settings.subscriptions.topic
    for id, why in (("gone", "'gone' is unsubscribed"), ("none", "no subscription has the id 'none'")):
        said = sluice("subscriptions", "get", id, code=1)
        assert said == f"error: {why} in {topic}; `subscriptions list` lists all ids\n"


def test_a_status_says_what_the_job_said_last(sluice: CommandLine, settings: Settings) -> None:
    listed = {one["id"]: one for one in map(json.loads, sluice("subscriptions", "list", "--json").splitlines())}
    at = Origin(settings.subscriptions.topic, listed["a1"]["partition"], listed["a1"]["offset"] - 1, 0)
    since = records.InForceFrom(3, {"0": 7}, {"0": 0, "1": 0})
    accepted = records.status("", "a1", at, since, subscriber="alice")
    rejected = records.rejected_status("", "b1", at._replace(offset=1 << 40), since, "because")
    topic = settings.subscriptions.status_topic
    written(settings, topic, [(r.key.decode() if r.key else None, r.value) for r in (accepted, rejected)])
    lines = sluice("subscriptions", "status", "b3").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("b3: its change at ")
    asked = ("subscriptions", "status", "--json")
    found = json.loads(sluice(*asked, "a1"))
    assert (found["status"], found["version"], found["in_force_from"]) == ("accepted", 3, {"0": 7})
    assert found["waiting"] == {"partition": at.partition, "offset": at.offset + 1}
    sluice(*asked, "b1", code=1)
    sluice(*asked, stdin="a1\nnobody\n", code=1)


def test_an_export_imported_into_an_empty_topic_gives_the_same(
    sluice: CommandLine, settings: Settings, tmp_path: Path
) -> None:
    file, other = tmp_path / "all.jsonl", f"subscriptions.topic={settings.query.name}.other"
    cluster = Cluster(settings.kafka.bootstrap_servers, {})
    assert sluice("subscriptions", "export", str(file)) == ""
    lines = file.read_bytes().splitlines()
    assert sorted(lines) == sorted(sluice("subscriptions", "export").encode().splitlines())
    assert sorted(lines) == sorted(
        [
            b'{ "id": "a1",  "subscriber": "carol", "pattern": {} }',
            document("a2", subscriber="bob")[1],
            document("b1", pattern={"y": [2]})[1],
            document("b2", paused=True)[1],
            document("b3", expires_at="2020-01-01T00:00:00Z")[1],
        ]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]
    link = tmp_path / "link"
    link.symlink_to(file)
    sluice("subscriptions", "export", str(link))
    assert link.is_symlink()
    os.mkfifo(pipe := tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        through = pool.submit(pipe.read_bytes)
        sluice("subscriptions", "export", str(pipe))
        assert sorted(through.result().splitlines()) == sorted(lines)
    assert pipe.is_fifo()
    assert sorted(sluice("subscriptions", "export", "-").encode().splitlines()) == sorted(lines)
    sluice("topics", "create", "--set", other)
    applied = ("subscriptions", "apply", str(file), "--json", "--set", other)
    new = {"new": 5, "changed": 0, "unchanged": 0, "repeated": 0, "unsubscribed": 0, "rejected": 0}
    *plan, summary = map(json.loads, sluice(*applied, "--dry-run").splitlines())
    assert summary == new | {"dry_run": True}
    assert [one["change"] for one in plan] == ["new"] * 5
    assert json.loads(sluice(*applied)) == new | {"dry_run": False}
    again = {"new": 0, "changed": 0, "unchanged": 5, "repeated": 0, "unsubscribed": 0, "rejected": 0, "dry_run": False}
    assert json.loads(sluice(*applied)) == again
    topic = f"{settings.query.name}.other"
    found = [m.value() or b"" for m in read(cluster, [topic], follow=False) if m is not None]
    assert sorted(found) == sorted(lines)


def test_one_rejected_line_stops_it_all_unless_it_is_to_keep_going(sluice: CommandLine, settings: Settings) -> None:
    before = there(settings)
    text = "\n".join(['{"id": "z"', *(document(id)[1].decode() for id in ("new", "b1"))])
    said = sluice("subscriptions", "apply", stdin=text, code=1)
    assert "standard input, line 1: not JSON" in said
    assert "error: 1 of 3 lines are rejected, so nothing was written; --keep-going writes the others" in said
    assert there(settings) == before
    assert "1 new, 1 changed, 0 unchanged, 0 repeated, 0 unsubscribed, 1 rejected" in sluice(
        "subscriptions", "apply", "--keep-going", stdin=text, code=1
    )
    assert there(settings) == before | {b"new": document("new")[1], b"b1": document("b1")[1]}


def test_what_a_file_lacks_is_unsubscribed_if_asked(sluice: CommandLine, settings: Settings) -> None:
    apply = ("subscriptions", "apply", "--prune", "--prefix", "b")
    text = "\n".join(document(id)[1].decode() for id in ("b1", "new"))
    planned = sluice(*apply, "--dry-run", stdin=text).splitlines()
    assert planned == ["changed b1", "new new", "unsubscribed b2", "unsubscribed b3"]
    assert "--prune needs a file without such lines" in sluice(*apply, stdin="{", code=1)
    assert "--prune would unsubscribe all" in sluice(*apply, stdin="", code=1)
    assert "--prefix limits --prune" in sluice("subscriptions", "apply", "--prefix", "b", code=2)
    sluice(*apply, stdin=text)
    in_force = {id for id, value in there(settings).items() if value is not None}
    assert in_force == {b"a1", b"a2", b"b1", b"new"}
    assert sluice(*apply, "--dry-run", stdin=text) == ""
