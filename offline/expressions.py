"""Rewrite expressions of another language, one per line, as subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from offline.documents import Location, Rejection, read
from offline.files import STDIN, lines, name_of
from offline.patterns import Pattern, written
from offline.sql_grammar import TranslationError


def subscriptions(
    file: Path, subscriber: str, translated: Callable[[str], Pattern | None]
) -> Iterator[dict[str, Any] | Rejection]:
    """The expressions of a file as documents of subscriptions of this subscriber. Raises InputError.

    The id of each is the name of the file and the number of the line.
    """
    stem = "line" if file == STDIN else file.stem
    for number, line in lines(file):
        place, id = Location(name_of(file), "line", number), f"{stem}-{number}"
        try:
            pattern = translated(line.decode())
        except UnicodeDecodeError:
            yield Rejection(place, id, "is not UTF-8")
            continue
        except TranslationError as error:
            yield Rejection(place, id, str(error))
            continue
        if pattern is None:
            yield Rejection(place, id, "is true for no event")
            continue
        document = {"id": id, "subscriber": subscriber, "pattern": written(pattern)}
        checked = read(place, id, document)
        yield checked if isinstance(checked, Rejection) else document
