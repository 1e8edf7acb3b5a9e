"""Read an event from JSON in Python: events that the kernel cannot read, and events that are needed whole."""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any

from matchers.errors import MatchingError
from matchers.language.model import Event
from matchers.language.nesting import MAX_LEVELS, TOO_DEEP, is_too_deep
from matchers.language.operators import show


def parsed(event: bytes) -> Event:
    """Parse a JSON object (RFC 8259, UTF-8) of at most MAX_LEVELS levels. The last of equal names counts. Raises
    MatchingError."""
    try:
        text = event.decode()
        document = _JSON.decode(text)
    except RecursionError:
        raise MatchingError(TOO_DEEP) from None
    except ValueError as error:
        raise MatchingError(f"an event is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MatchingError(f"an event is a JSON object, not {show(document)}")
    if half := _half_of_a_pair(text):
        raise MatchingError(f"an event is not JSON: {half} is an unpaired surrogate")
    if event.count(b"{") + event.count(b"[") > MAX_LEVELS and is_too_deep(document):
        raise MatchingError(TOO_DEEP)
    return document


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def _half_of_a_pair(text: str) -> str:
    """The first escape in a JSON text that is an unpaired surrogate; "" if none is."""
    if not _SURROGATE.search(text):
        return ""
    return next((f"\\{escape[1]}" for escape in _ESCAPE.finditer(text) if escape[1]), "")


def _decimal(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError(f"a number beyond all doubles, {digits[:40]}")
    return number


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS else _decimal(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


_DIGITS = 300  # of an integer that every double range has; Python refuses to read some thousands
_JSON = json.JSONDecoder(parse_float=_decimal, parse_int=_integer, parse_constant=_no_constant)
