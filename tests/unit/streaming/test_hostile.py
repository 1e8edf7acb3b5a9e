"""Hostile records: programs for pickle, names of subscribers that are paths."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.load import LONGEST_SUBSCRIBER
from config.model import Settings
from matchers.index.snapshot import Snapshot
from streaming.codecs import CODECS
from streaming.documents.subscriptions import SUBSCRIBER, Rejected, read_document
from streaming.kafka import layout
from streaming.publishing.delivery import DeliveryRule
from streaming.rows import EVENTS, SUBSCRIPTIONS, RejectedChange
from streaming.source_topics import EventTopic
from streaming.state.state import State
from tests.support.doubles import stage


class Bomb:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec in ("json", "cloudevents")])
def test_a_pickle_runs_nothing_wherever_it_is(codec: str, protocol: int, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    bomb = pickle.dumps(Bomb(ran), protocol)
    pickle.loads(bomb)
    assert ran.exists()  # it would
    ran.unlink()
    state = State(Snapshot(), stage.Value, {(EVENTS, 0): 0})
    settings = replace(stage.SETTINGS, topics={EVENTS: EventTopic("events", codec)})
    stage.apply(state, [stage.change(0, "a", stage.ALICE)], settings=settings)
    headers = [{"key": "content-type", "value": bomb}, {"key": "ce_specversion", "value": bomb}]
    sink = stage.ListSink()
    rows = stage.work(
        state,
        [
            stage.event(0, bomb),
            stage.event(1, bomb, key=bomb, headers=headers),
            stage.event(2, bomb) | {"source": SUBSCRIPTIONS},
            stage.event(3, bomb) | {"source": SUBSCRIPTIONS, "key": bomb},
            stage.change(4, "b", {"subscriber": "b", "pattern": {"x": [1]}}) | {"key": bomb},
        ],
        settings=settings,
        slots=stage.Slots(sink),
    )
    assert [dict(letter.headers)["sluice_origin_offset"] for letter in stage.published(sink)] == [b"0", b"1"]
    assert [row.record.offset for row in rows if isinstance(row, RejectedChange)] == [2, 3, 4]
    assert not ran.exists()


NAMES = [
    (".", True),
    ("..", True),
    ("-", True),
    ("a.b", True),
    ("x" * 200, True),
    ("x" * 201, False),
    ("", False),
    ("a/b", False),
    ("../x", False),
    ("a b", False),
    ("a\nb", False),
    ("alice\n", False),
    ("a\0", False),
    ("\u00e4", False),
    ("\u0430lice", False),  # a Cyrillic letter that looks like another
    ("\uff0e", False),
    (None, False),
    (["alice"], False),
]


@pytest.mark.parametrize(("name", "good"), NAMES, ids=lambda given: repr(given)[:12])
def test_a_subscriber_is_named_so_that_the_name_makes_a_topic(name: Any, good: bool) -> None:
    document = {"id": "s", "subscriber": name, "pattern": {}}
    if good:
        read_document("s", document)
        topic = DeliveryRule.of(Settings().deliveries).topic(name)
        assert len(topic) <= 249
        assert topic not in layout.needed(Settings())
    else:
        with pytest.raises(Rejected, match="1 to 200 letters, digits, dots, underscores or hyphens"):
            read_document("s", document)


def test_settings_know_the_longest_name_of_a_subscriber() -> None:
    assert SUBSCRIBER.fullmatch("x" * LONGEST_SUBSCRIBER)
    assert not SUBSCRIBER.fullmatch("x" * (LONGEST_SUBSCRIBER + 1))
