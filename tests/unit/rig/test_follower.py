"""The follower reports how late it read deliveries, and the statuses of changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from rig import follower
from streaming.kafka import clients

NOW_S = 1_000.5


def message(**fields: Any) -> Any:
    return SimpleNamespace(**{name: lambda value=value: value for name, value in fields.items()})


def change(partition: int, offset: int, due_ms: int) -> Any:
    return message(topic="changes", partition=partition, offset=offset, timestamp=(1, due_ms))


def status(partition: int, offset: int) -> Any:
    of = {"change": {"partition": partition, "offset": offset}, "status": "accepted", "version": 1, "in_force_from": {}}
    return message(topic="statuses", value=orjson.dumps(of))


def test_a_change_is_in_force_when_its_status_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = message(topic="deliveries", headers=[("ce_time", b"1970-01-01T00:16:40.100Z")])
    messages = [
        change(0, 7, due_ms=1_000_300),
        status(0, 7),
        status(1, 3),  # may be read before its change
        change(1, 3, due_ms=1_000_400),
        status(0, 6),  # of a change before all that are read
        change(1, 4, due_ms=1_000_450),
        *[delivery] * follower.EVERY,
    ]
    told: dict[str, Any] = {}

    def read(cluster: Any, topics: list[str], *, follow: bool, starts: Any) -> Iterator[Any]:
        assert (topics, starts) == (["deliveries", "changes", "statuses"], {("changes", 0): 7, ("statuses", 0): 6})
        yield from messages
        while follow:
            yield None

    monkeypatch.setattr(clients, "read", read)
    monkeypatch.setattr(follower, "time", SimpleNamespace(time=lambda: NOW_S))
    monkeypatch.setattr(follower, "tell", lambda **what: told.update(what))
    monkeypatch.setattr(sys, "stdin", StringIO())
    cluster: Any = None
    follower.run(cluster, ["deliveries"], "changes", "statuses", [("changes", 0, 7), ("statuses", 0, 6)])
    changes = zip(told["change_due_ms"], told["in_force_ms"], strict=True)
    assert sorted(changes) == [(1_000_300, 200.0), (1_000_400, 100.0)]
    assert (told["read"], told["due_ms"], told["late_ms"]) == (follower.EVERY, [1_000_100.0], [400.0])
