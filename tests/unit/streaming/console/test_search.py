"""Searches of a snapshot find what a look at every subscription finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.snapshot import Snapshot
from matchers.index.texts import Texts
from streaming.console import search
from streaming.console.search import FoundSubscription
from streaming.worker.compiling import compile_changes
from tests.support.doubles.stage import changes

EVERY = 1_000
NOW_MS = 1_700_000_000_000


def document(id: str, subscriber: str, **more: Any) -> tuple[bytes, bytes]:
    return id.encode(), json.dumps({"id": id, "subscriber": subscriber, "pattern": {}, **more}).encode()


def snapshot_of(*batches: Sequence[tuple[bytes, bytes | None]]) -> Snapshot:
    """Build a snapshot with a part per batch, as long as each is shorter than the one before."""
    snapshot = Snapshot(algorithm="scan", most=1)
    for batch in batches:
        unsubscribed = [key.decode() for key, value in batch if value is None]
        snapshot = snapshot.update(compile_changes(changes(batch)).segment, unsubscribed)
    return snapshot


def ids(snapshot: Snapshot, part_of_id: str, subscriber: str = "", most: int = EVERY) -> list[str]:
    return [one.id for one in search.subscriptions(snapshot, part_of_id, subscriber, most).found]


texts = st.text(st.sampled_from("abü "), min_size=1, max_size=4)


@given(wanted=st.text(st.sampled_from("abü "), max_size=3), all_texts=st.lists(texts, max_size=30))
def test_texts_that_contain_one_are_found_wherever_a_piece_ends(wanted: str, all_texts: list[str]) -> None:
    kept = search.CHUNK_BYTES
    try:
        for search.CHUNK_BYTES in (len(wanted.encode()) or 1, 7, kept):
            found = [position for position in search._containing(Texts.of(all_texts), wanted) if position is not None]
            assert found == [i for i, text in enumerate(all_texts) if wanted in text]
    finally:
        search.CHUNK_BYTES = kept


@given(wanted=st.text(st.sampled_from("abü "), max_size=3), all_texts=st.lists(texts, max_size=30))
def test_texts_that_equal_one_are_found(wanted: str, all_texts: list[str]) -> None:
    found = search._equal(Texts.of(all_texts), wanted).tolist()
    assert found == [i for i, text in enumerate(all_texts) if wanted == text]


@given(
    owners=st.dictionaries(texts, st.sampled_from(["ann", "bob"]), max_size=12),
    gone=st.sets(texts, max_size=4),
    part_of_id=st.text(st.sampled_from("abü "), max_size=2),
    subscriber=st.sampled_from(["", "ann", "bob", "eve"]),
)
def test_a_search_finds_what_is_in_force_and_nothing_else(
    owners: dict[str, str], gone: set[str], part_of_id: str, subscriber: str
) -> None:
    first = [document(id, owner) for id, owner in owners.items()]
    again = [document(id, "bob") for id in list(owners)[:2]]
    snapshot = snapshot_of(first, [*again, *((id.encode(), None) for id in gone - {*list(owners)[:2]})])
    owners = {**owners, **dict.fromkeys(list(owners)[:2], "bob")}
    left = {id: owner for id, owner in owners.items() if id not in gone or id in list(owners)[:2]}
    hers = {id: owner for id, owner in left.items() if subscriber in ("", owner)}
    assert sorted(ids(snapshot, part_of_id, subscriber)) == sorted(id for id in hers if part_of_id in id)
    assert search.count(snapshot, subscriber) == sum(owner == subscriber for owner in left.values())
    names = search.subscribers(snapshot, "", EVERY)
    assert sorted(names.found) == sorted((name, [*left.values()].count(name)) for name in {*left.values()})
    assert not names.has_more


def test_the_exact_id_comes_first_and_once() -> None:
    snapshot = snapshot_of([document(id, "ann") for id in ("xs1x", "s10", "s1")])
    assert ids(snapshot, "s1") == ["s1", "xs1x", "s10"]
    assert ids(snapshot, "s1", "bob") == []


def test_more_than_is_shown_is_said_and_not_counted() -> None:
    snapshot = snapshot_of([document(f"s{i}", f"u{i}") for i in range(5)])
    for most, shown, has_more in ((4, 4, True), (5, 5, False)):
        found = search.subscriptions(snapshot, "s", "", most)
        assert (len(found.found), found.has_more) == (shown, has_more)
        names = search.subscribers(snapshot, "u", most)
        assert (len(names.found), names.has_more) == (shown, has_more)
    assert [one.id for one in search.subscriptions(snapshot, "s4", "", 1).found] == ["s4"]


def test_a_search_ends_among_many_that_are_unsubscribed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_LOOKED_AT", 3)
    snapshot = snapshot_of([document(f"s{i}", "ann") for i in range(9)], [(b"s%d" % i, None) for i in range(4)])
    assert search.subscriptions(snapshot, "s", "", 5) == ([], True)


def test_a_search_ends_among_many_texts_whose_ends_only_seem_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_LOOKED_AT", 3)
    snapshot = snapshot_of([document(f"{i}b", f"a{i}b") for i in range(5)])
    assert search.subscriptions(snapshot, "b3", "", 5) == ([], False)  # it is there once
    assert search.subscribers(snapshot, "ba", 5) == ([], True)


def test_the_subscriber_of_exactly_this_name_comes_first() -> None:
    snapshot = snapshot_of([document("1", "anna"), document("2", "ann"), document("3", "joann"), document("4", "ann")])
    assert search.subscribers(snapshot, "ann", EVERY).found[0] == ("ann", 2)
    assert search.subscribers(snapshot, "eve", EVERY).found == []


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "in force"),
        ({"paused": True}, "paused"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expired"),
        ({"expires_at": "2100-01-01T00:00:00Z"}, "in force"),
        ({"pattern": {"a": [{"numeric": [">", 5, "<", 3]}]}}, "in force"),
    ],
)
def test_the_status_and_the_position_of_the_document_are_those_of_the_subscription(
    more: dict[str, Any], status: str
) -> None:
    snapshot = snapshot_of([document("before", "ann"), document("s1", "bob", **more), document("after", "ann")])
    found = search.subscription(snapshot, "s1")
    assert found is not None
    assert (found.id, found.subscriber, found.partition, found.offset) == ("s1", "bob", 0, 1)
    assert found.status(NOW_MS) == status
    assert search.subscription(snapshot, "s2") is None


def test_one_expires_at_its_time() -> None:
    one = FoundSubscription("s", "ann", False, NOW_MS, 0, 0)
    assert (one.status(NOW_MS - 1), one.status(NOW_MS)) == ("in force", "expired")


@pytest.mark.parametrize("text", ["\x00", "\ud800", "x" * 10_000, "%ff", "'\"<script>"])
def test_any_text_may_be_sought(text: str) -> None:
    snapshot = snapshot_of([document("a", "ann")])
    assert search.subscriptions(snapshot, text, text, EVERY) == ([], False)
    assert search.subscribers(snapshot, text, EVERY) == ([], False)
    assert search.subscriptions(Snapshot(), text, "", EVERY) == ([], False)
