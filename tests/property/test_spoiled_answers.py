"""Whatever becomes of brokers' answers on their way, a slot publishes each event once, or tells in time what is wrong.

What our requests and kafka-python's connections make of the bytes is all real; sockets, brokers and the clock are not.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories.spoiled_answers import SPOILS, Spoiled, publish

ANSWERS = 40  # a history without faults has about as many
any_number = st.integers(0, 2**31)
spoiled = st.builds(Spoiled, st.integers(0, ANSWERS), st.sampled_from(SPOILS), any_number, any_number)


@given(version=st.sampled_from([1, 2]), spoiled=st.lists(spoiled, min_size=1, max_size=4))
def test_a_slot_publishes_each_event_once_or_tells_what_is_wrong(version: int, spoiled: list[Spoiled]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, version, spoiled)


def test_every_request_is_answered_wrongly() -> None:
    """Each version of each request gets an answer with each kind of fault."""
    seen: Counter[tuple[str, str]] = Counter()
    for nth in range(ANSWERS):
        for number in range(5 * nth, 5 * nth + 5):
            spoiled = Spoiled(nth, SPOILS[number % len(SPOILS)], 7 * number, 11 * number)
            with pytest.MonkeyPatch.context() as patch:
                seen.update(publish(patch, 1 + number % 2, [spoiled]))
    names = {name for name, _ in seen}
    assert names == {
        *("ApiVersions", "Metadata", "FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn"),
        *("Produce", "TxnOffsetCommit", "EndTxn", "OffsetFetch"),
    }
    assert {kind for _, kind in seen} == {*SPOILS}
