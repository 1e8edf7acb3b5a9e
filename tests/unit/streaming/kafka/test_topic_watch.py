"""The watch over the input topics: a topic that was made again ends the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streaming.errors import TopicReplaced
from streaming.kafka.topic_watch import Watch


class TopicIds:
    def __init__(self, **ids: str) -> None:
        self.there = ids

    def partitions(self) -> dict[str, int]:
        return dict.fromkeys(self.there, 1)

    def ids(self, names: Sequence[str], timeout_s: float) -> dict[str, str]:
        return {name: self.there[name] for name in names if name in self.there}

    def ends(self, names: Sequence[str], timeout_s: float) -> dict[tuple[str, int], int]:
        return {(name, 0): 7 for name in names}


def watch(topics: Any) -> Watch:
    return Watch(topics, ["events", "subs"])


@pytest.mark.parametrize("meanwhile", [{"events": "1", "subs": "2"}, {"subs": "2"}])
def test_topics_that_stay_and_one_that_is_gone_for_now_end_nothing(meanwhile: dict[str, str]) -> None:
    topics = TopicIds(events="1", subs="2")
    watched = watch(topics)
    for there in (meanwhile, {"events": "1", "subs": "2"}):
        topics.there = there
        assert watched.ends() == {("events", 0): 7, ("subs", 0): 7}
        watched.check()


@pytest.mark.parametrize("gone_first", [True, False])
@pytest.mark.parametrize("name", ["events", "subs"])
def test_a_topic_that_was_made_again_is_told(name: str, gone_first: bool) -> None:
    topics = TopicIds(events="1", subs="2")
    watched = watch(topics)
    if gone_first:
        topics.there = {other: id for other, id in topics.there.items() if other != name}
        watched.ends()
    topics.there = {"events": "1", "subs": "2"} | {name: "3"}
    watched.ends()
    with pytest.raises(TopicReplaced, match=f"topic {name} was deleted and recreated; the job reads it from"):
        watched.check()


def test_a_topic_that_was_not_there_at_the_start_is_watched_from_when_it_is() -> None:
    topics = TopicIds(events="1")
    watched = watch(topics)
    for id in ("2", "2"):
        topics.there["subs"] = id
        watched.ends()
        watched.check()
    topics.there["subs"] = "3"
    watched.ends()
    with pytest.raises(TopicReplaced, match="subs"):
        watched.check()


def test_topics_that_come_later_are_found_until_they_are_added_and_watched_from_then_on() -> None:
    topics = TopicIds(events="1", subs="2")
    watched = Watch(topics, ["events", "subs"], lambda name: name.startswith("e"))  # type: ignore[arg-type]  # a double
    topics.there |= {"events.eu": "3", "other": "4"}
    for _ in range(2):
        watched.ends()
        assert watched.found == ["events.eu"]
    watched.add(["events.eu"])
    assert not watched.found
    assert watched.ends() == {(name, 0): 7 for name in ("events", "subs", "events.eu")}
    topics.there["events.us"] = "6"
    watched.ends()
    watched.add([])  # it was deleted before it could be read
    assert not watched.found
    watched.ends()
    assert watched.found == ["events.us"]
    topics.there["events.eu"] = "5"
    watched.ends()
    with pytest.raises(TopicReplaced, match=r"topic events\.eu was deleted and recreated; the job reads it from"):
        watched.check()
