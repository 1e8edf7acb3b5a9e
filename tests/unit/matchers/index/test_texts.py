"""Texts as arrays behave like a list, and their table like a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.texts import Texts
from matchers.kernels import texts as kernels
from streaming.index import packing

pytestmark = pytest.mark.kernels

LISTS = {
    "none": [],
    "one": ["a"],
    "one that is empty": [""],
    "empty ones between others": ["", "a", "", "", "b", ""],
    "equal ones": ["a"] * 20,
    "beginnings of each other": ["a", "ab", "abc", "ab", "a", ""],
    "of several lengths in UTF-8": ["é", "漢字", "\U0010ffff", "e\u0301", "a"],
    "with zeros": ["\x00", "", "\x00\x00", "a\x00", "a"],
    "lone surrogates": ["\ud800", "\udfff", "\udc80", "\ud800a", "\ud800"],
    "many": [f"s{i}" for i in range(500)],
}
some_texts = st.lists(st.text(st.characters(codec=None) | st.sampled_from("ab\x00\ud800"), max_size=4), max_size=12)


def last_places(texts: list[str]) -> dict[str, int]:
    return {text: i for i, text in enumerate(texts)}


def check(texts: list[str], wanted: list[str]) -> None:
    found, places = Texts.of(texts), last_places(texts)
    assert len(found) == len(texts)
    assert list(found) == texts
    assert [found[i] for i in range(len(texts))] == texts
    assert found.find(Texts.of(wanted)).tolist() == [places.get(text, -1) for text in wanted]
    assert found.last.tolist() == [places[text] == i for i, text in enumerate(texts)]
    different, which = found.distinct()
    assert sorted(different) == sorted(set(texts))
    assert [different[i] for i in which.tolist()] == texts
    assert found.encoded() == [text.encode("utf-8", "surrogatepass") for text in texts]


@pytest.mark.parametrize("name", LISTS)
def test_texts_are_what_their_list_is(name: str) -> None:
    check(LISTS[name], [*LISTS[name], "", "a", "nowhere", "\udfff", "s1", "s1000"])


@given(texts=some_texts, wanted=some_texts)
def test_any_texts_are_what_their_list_is(texts: list[str], wanted: list[str]) -> None:
    check(texts, wanted + texts[:3])


@given(texts=some_texts.filter(bool), data=st.data())
def test_some_of_them_in_any_order_and_again_and_again(texts: list[str], data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    for array in (np.array(positions, np.int32), np.array(positions, np.int64)):
        taken = Texts.of(texts).take(array)
        assert list(taken) == Texts.of(texts).at(array) == [texts[i] for i in positions]
        check(list(taken), texts)


@given(lists=st.lists(some_texts, max_size=4))
def test_joined_they_are_one_list_behind_the_other(lists: list[list[str]]) -> None:
    joined = Texts.joined([Texts.of(texts) for texts in lists])
    assert list(joined) == [text for texts in lists for text in texts]
    assert joined.start.dtype == np.int64
    check(list(joined), [text for texts in lists for text in texts[:2]])


def test_joined_works_with_texts_that_begin_within_their_array() -> None:
    whole = Texts.of(["no", "a", "bc", "no"])
    within = Texts(whole.text, whole.start[1:4].copy())
    assert list(Texts.joined([within, whole])) == ["a", "bc", "no", "a", "bc", "no"]
    assert within.find(Texts.of(["bc", "no"])).tolist() == [1, -1]


def slot_of(text: str) -> int:
    """Return the slot of a string in a table of 8 that holds nothing else."""
    slots = np.full(8, -1, np.int32)
    kernels.fill(Texts.of([text]).text, Texts.of([text]).start, slots, np.empty(1, bool))
    return int(slots.argmax())


def test_texts_whose_slots_collide_are_all_found_and_the_search_goes_on_at_the_first_slot() -> None:
    """Tables with as few slots as there may be: most of the texts are not where they would be alone."""
    went_round = 0
    for k in range(10):
        texts = [f"{k}-{i}" for i in range(7)]
        found = Texts.of([*texts, texts[3]])
        slots, last = np.full(8, -1, np.int32), np.empty(8, bool)
        assert kernels.fill(found.text, found.start, slots, last) == 7
        assert sorted(slots.tolist()) == [-1, 0, 1, 2, 4, 5, 6, 7]
        wanted = Texts.of([*texts, "s7", ""])
        position = np.empty(len(wanted), np.int32)
        kernels.find(found.text, found.start, slots, wanted.text, wanted.start, position)
        assert position.tolist() == [0, 1, 2, 7, 4, 5, 6, -1, -1]
        went_round += any(slots.tolist().index(position[i]) < slot_of(text) for i, text in enumerate(texts))
    assert went_round


def test_nothing_of_texts_can_be_written_to() -> None:
    for texts in (Texts.of(["a", "b"]), Texts.of(["a", "b"]).take(np.array([1])), Texts.joined([])):
        _ = texts.last
        for array in (texts.text, texts.start, texts._table[0]):
            assert not array.flags.writeable


def test_texts_come_back_from_bytes_with_their_table() -> None:
    texts = Texts.of(["a", "", "\ud800", "a"])
    _ = texts.last
    back = packing.from_bytes(packing.as_bytes(texts), Texts)
    assert "_table" in back.__dict__
    assert list(back) == list(texts)
    assert back.find(Texts.of(["a", "\ud800", "b"])).tolist() == [3, 2, -1]
