"""Numbers of texts behave like those of a dict that only grows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.texts import Texts
from streaming.publishing.encode.interner import Interner

pytestmark = pytest.mark.kernels

texts = st.lists(
    st.text(max_size=3) | st.sampled_from(["", "\0", "\0\0", "a" * 7, "a" * 8, "a" * 9, "\ud800"]), max_size=9
)


@given(st.lists(texts, max_size=4))
def test_a_text_keeps_its_number(lists: list[list[str]]) -> None:
    interner = Interner()
    known: dict[str, int] = {}
    for some in lists:
        expected = [known.setdefault(text, len(known)) for text in some]
        assert interner.numbers(Texts.of(some)).tolist() == expected
        assert list(interner.names) == list(known)
        assert len(interner) == len(known)


def test_names_stay_as_they_were_when_the_table_grows() -> None:
    interner = Interner()
    interner.numbers(Texts.of(["first", "second"]))
    names = interner.names
    many = [f"subscriber-{i}" for i in range(3000)]
    assert interner.numbers(Texts.of([*many, "second"])).tolist() == [*range(2, 3002), 1]
    assert interner.numbers(Texts.of(reversed(many))).tolist() == [*range(3001, 1, -1)]
    assert list(names) == ["first", "second"]


def test_a_name_may_be_longer_than_all_before() -> None:
    interner = Interner()
    long = ["x" * 5000, "y" * 70_000]
    assert interner.numbers(Texts.of([*long, "x" * 5000])).tolist() == [0, 1, 0]
    assert list(interner.names) == long


def test_texts_may_begin_anywhere() -> None:
    interner = Interner()
    whole = Texts.of(["before", "a", "b", "after"])
    assert interner.numbers(Texts(whole.text, whole.start[1:4])).tolist() == [0, 1]
    assert list(interner.names) == ["a", "b"]


def test_numbers_begin_again_once_all_names_are_forgotten() -> None:
    interner = Interner()
    interner.numbers(Texts.of([f"n{i}" for i in range(500)]))
    names = interner.names
    interner.clear()
    assert len(interner) == 0
    assert interner.numbers(Texts.of(["b", "n0"])).tolist() == [0, 1]
    assert list(names)[:2] == ["n0", "n1"]
