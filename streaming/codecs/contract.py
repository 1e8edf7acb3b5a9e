"""The contract of every codec: a record's value and headers in, an event or the reason for rejecting it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streaming.text_format import cut

Headers = Mapping[str, Sequence[bytes]]  # by name all values, in the order of the record
Decode = Callable[[bytes | None, Headers], dict[str, Any]]  # raises Undecodable


MOST_CHARACTERS = 1_000  # of a reason: it goes into a header of the dead letter, and may quote the event


class Undecodable(ValueError):
    """The bytes are not an event. The text states the reason, also in the dead letter."""

    def __init__(self, why: str) -> None:
        super().__init__(cut(why, MOST_CHARACTERS))


def kind(value: object) -> str:
    """The type of a JSON value in words."""
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
