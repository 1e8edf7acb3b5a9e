"""Matches are grouped to deliveries, few and very many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.texts import Texts
from streaming.publishing.encode.grouping import group

pytestmark = pytest.mark.kernels

Matches = Sequence[tuple[int, int, str]]  # (event, subscriber, id)


def grouped(matches: Matches, n_events: int) -> dict[tuple[int, int], bytes]:
    event, subscriber = (np.array([match[i] for match in matches], np.int64) for i in (0, 1))
    deliveries = group(event, subscriber, Texts.of(id for _, _, id in matches), n_events)
    lists = [text.encode() for text in Texts(deliveries.ids, deliveries.ids_start)]
    places = zip(deliveries.event.tolist(), deliveries.subscriber.tolist(), strict=True)
    assert (np.diff(deliveries.event) >= 0).all()
    return dict(zip(places, lists, strict=True))


def by_definition(matches: Matches) -> dict[tuple[int, int], bytes]:
    ids = defaultdict(list)
    for event, subscriber, id in matches:
        ids[event, subscriber].append(id)
    return {delivery: orjson.dumps(sorted(of)) for delivery, of in ids.items()}


CASES: dict[str, Matches] = {
    "no match": [],
    "one match": [(2, 7, "a")],
    "a delivery for each match": [(0, 1, "b"), (1, 1, "a"), (1, 0, "c")],
    "events in any order": [(3, 0, "b"), (0, 0, "b"), (3, 0, "a"), (0, 1, "c")],
    "the same subscribers of events one after the other": [(e, s, "a") for e in range(4) for s in (5, 3, 5)],
    "equal ids": [(0, 0, "a")] * 3,
    "ids that begin alike": [(0, 0, "subscription" + "x" * i) for i in (20, 3, 0, 8, 9, 16, 2, 1)],
    "zeros": [(0, 0, id) for id in ("a\0\0", "a", "a\0", "", "\0", "a\0\0\0\0\0\0\0\0\0", "a\0b")],
    "by code points": [(0, 0, id) for id in ("\U0010ffff", "\uffff", "é", "z", "e\u0301", "漢")],
    "numbers as large as those of subscribers get": [(0, 2**31 - 1, "a"), (0, 2**31 - 2, "b"), (0, 2**31 - 1, "b")],
}


@pytest.mark.parametrize("name", CASES)
def test_matches_of_one_event_and_subscriber_are_a_delivery(name: str) -> None:
    assert grouped(CASES[name], 4) == by_definition(CASES[name])


def test_ids_are_escaped_as_orjson_does() -> None:
    characters = [chr(i) for i in range(0x100)] + ["\u2028", "\ud7ff", "\ue000"]
    matches = [(i, 0, f"a{character}{character}") for i, character in enumerate(characters)]
    assert grouped(matches, len(matches)) == by_definition(matches)


@given(
    st.sampled_from([2, 11, 12, 13, 24, 25, 100, 300]),
    st.sampled_from([1, 2, 40]),
    st.sampled_from(["", "same", "longer than a word "]),
    st.randoms(use_true_random=False),
)
def test_many_matches_of_one_event(n: int, subscribers: int, prefix: str, random: Random) -> None:
    matches = [
        (
            random.randrange(2),
            random.randrange(subscribers),
            f"{prefix}{random.randrange(n)}{'y' * random.randrange(9)}",
        )
        for _ in range(n)
    ]
    assert grouped(matches, 2) == by_definition(matches)
