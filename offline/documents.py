"""Read subscriptions and events from files, each with its location, and report invalid documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from matchers.errors import known
from offline.files import batches, content, lines, name_of
from streaming.codecs import Undecodable, decode_event
from streaming.codecs.depth import checked
from streaming.documents.instants import at
from streaming.documents.subscriptions import Change, Rejected, Subscription, check_size, parsed, read_document
from streaming.text_format import plain

Event = dict[str, Any]


@dataclass(frozen=True)
class Location:
    """The location of a document: a file, and in it a line, the number of a document, or the id of a subscription."""

    file: str
    kind: str = ""
    at: int | str = ""

    def __str__(self) -> str:
        return f"{self.file}, {self.kind} {self.at}" if self.kind else self.file

    def as_data(self) -> dict[str, int | str]:
        return {"file": self.file} | ({self.kind: self.at} if self.kind else {})


@dataclass(frozen=True)
class Document:
    """A subscription that the job would accept."""

    place: Location
    change: Change
    pattern: Any  # as written

    @property
    def subscription(self) -> Subscription:
        return self.change.subscription

    def idle(self, now: datetime | None) -> str:
        """The reason that it matches nothing, or "". Without a time, `expires_at` is ignored."""
        return self.change.idle(None if now is None else at(now))


@dataclass(frozen=True)
class Rejection:
    """An invalid event, or a subscription that the job would reject."""

    place: Location
    id: str | None  # as far as it is known
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {'' if self.id is None else f'id {plain(self.id)}: '}{self.reason}"

    def as_data(self) -> dict[str, Any]:
        return {**self.place.as_data(), "id": self.id, "reason": self.reason}


def nearest(name: str, names: Collection[str]) -> str:
    """Return the end of an error message about an unknown name: the nearest known name."""
    text = known(name, names)
    return text if len(text) <= 200 else f"there are {len(names):,} others"


def subscriptions(file: Path) -> Iterator[Document | Rejection]:
    """Read JSON lines; from a .json file also one document, or an array of them. Raises InputError."""
    name = name_of(file)
    if file.suffix != ".json":
        return (_read_text(Location(name, "line", number), line) for number, line in lines(file))
    return _from_json(name, content(file))


def read(place: Location, key: str | None, document: Any, size: int | None = None) -> Document | Rejection:
    """Read a subscription from Python's form of JSON. `key` is its id if the document has none, `size` the bytes that
    it is written in, by default as few as possible."""
    try:
        change = read_document(key, document)
        check_size(change.subscription.id, _size(document) if size is None else size)
        return Document(place, change, document["pattern"])
    except Rejected as error:
        id = document.get("id") if isinstance(document, dict) else None
        return Rejection(place, error.id or (id if isinstance(id, str) else None), str(error))


def _size(document: Any) -> int:
    """The bytes of a document that is written as short as possible."""
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))


def latest(results: Iterable[Document | Rejection], rejected: Callable[[Rejection], None]) -> dict[str, Document]:
    """Return the last valid document of each id: the state of a job that has read them all."""
    documents = {}
    for document in results:
        if isinstance(document, Rejection):
            rejected(document)
        else:
            documents[document.subscription.id] = document
    return documents


def events(file: Path) -> Iterator[list[tuple[int, Event | Rejection]]]:
    """Lists of (number of the line, event). Raises InputError."""
    for batch in batches(file):
        yield [(number, read_event(Location(name_of(file), "line", number), line)) for number, line in batch]


def read_event(place: Location, text: bytes) -> Event | Rejection:
    try:
        return checked(decode_event(text))
    except Undecodable as error:
        return Rejection(place, None, _of_line(str(error), text))


def _from_json(name: str, text: bytes) -> Iterator[Document | Rejection]:
    try:
        whole = parsed(text)
    except orjson.JSONDecodeError as error:
        numbered = [(n, line.strip()) for n, line in enumerate(text.split(b"\n"), 1) if line.strip()]
        if numbered and _is_json(numbered[0][1]):  # JSON lines after all
            yield from (_read_text(Location(name, "line", number), line) for number, line in numbered)
        elif numbered:
            yield Rejection(Location(name), None, f"not JSON: {error}")
        return
    if isinstance(whole, list):
        for number, document in enumerate(whole, 1):
            yield read(Location(name, "document", number), None, document)
    else:
        yield read(Location(name), None, whole)


def _read_text(place: Location, text: bytes) -> Document | Rejection:
    try:
        document = parsed(text)
    except orjson.JSONDecodeError as error:
        return Rejection(place, None, _of_line(f"not JSON: {error}", text))
    return read(place, None, document, len(text))


def _of_line(reason: str, text: bytes) -> str:
    """The parser's message without its own line number, since the file's is printed too."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte {error.start + 1} of the line is 0x{text[error.start]:02x}"
    return re.sub(r": line 1 column (\d+) \(char \d+\)$", r" at character \1", reason)


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
