"""Values as people read them."""

from __future__ import annotations

from streaming.text_format import MOST_LEVELS, pretty


def test_json_is_indented_unless_that_would_make_it_very_long() -> None:
    assert list(pretty(b'{"a": [1]}')) == ['{\n  "a": [\n    1\n  ]\n}']
    deep = b"[" * MOST_LEVELS + b"1" + b"]" * MOST_LEVELS
    assert "\n" in next(pretty(deep))
    assert list(pretty(b"[" + deep + b"]")) == [(b"[" + deep + b"]").decode()]


def test_a_value_that_is_nested_deeply_stays_about_as_long_as_it_is() -> None:
    value = b"[" * 900 + b"1," * 1_099 + b"1" + b"]" * 900
    assert len("".join(pretty(value))) < 2 * len(value)
