"""Parse subscription documents: the records of the subscriptions topic.

    key: s1    value: {"id": "s1", "subscriber": "alice", "pattern": {"symbol": ["IBM"]}}
    key: s1    value: null                                      unsubscribes s1

An optional "expires_at" (a time with its zone) ends it by itself; while "paused" is true, it matches nothing. "from" is
where its past events begin (`starts`): the job checks it, and `catch-up` delivers them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from matchers import PatternError
from matchers.errors import known
from matchers.language.lowering import Conjunction, lower
from matchers.language.nesting import is_too_deep
from matchers.language.parsing import parse
from streaming.documents import instants
from streaming.documents.starts import Start, parsed_start
from streaming.tenants import ANYBODY, OWN, Tenant
from streaming.text_format import cut, time_of

MAX_ID_LENGTH = 200
MAX_DOCUMENT_BYTES = 1_000_000
SUBSCRIBER = re.compile(r"[a-zA-Z0-9._-]{1,200}")
MOST_CHARACTERS = 1_000  # of a reason: it goes into a header of the dead letter, and may quote the document
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER = b"0" * 19  # as _ZEROS leaves it: to look for that takes a tenth of a regular expression's time
_MOST_DIGITS = 400  # no double has as many; Python refuses to read some thousands
KEYS = ("id", "subscriber", "pattern", "expires_at", "paused", "from")


class Subscription(NamedTuple):
    """A subscription without its pattern: id, subscriber, expiry. A newer one replaces an older one of the same id.

    A tuple, because there are millions, and tuples are the fastest to make.
    """

    id: str
    subscriber: str = ""
    expires_at_ms: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subscription) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def in_force(self, timestamp_ms: int) -> bool:
        """Whether the subscription has not expired for events of that time."""
        return self.expires_at_ms is None or timestamp_ms < self.expires_at_ms


@dataclass(frozen=True)
class Change:
    """A subscription with its lowered pattern, or, without conjunctions, its deletion.

    A paused one lowers to no alternative: it exists and matches nothing.
    """

    subscription: Subscription
    conjunctions: list[Conjunction] | None
    paused: bool = False
    start: Start | None = None  # of its past events, if the document names one

    def idle(self, now_ms: int | None) -> str:
        """The reason that it matches nothing, or "". Without a time nothing has expired."""
        if self.paused:
            return "paused"
        if now_ms is None or self.subscription.in_force(now_ms):
            return ""
        return f"expired {time_of(self.subscription.expires_at_ms or 0)}"


class Rejected(ValueError):
    """A change is invalid; the text gives the reason. `id` is the subscription's, as far as it is known."""

    def __init__(self, id: str | None, reason: str) -> None:
        self.id = id
        super().__init__(cut(reason, MOST_CHARACTERS))


def read_change(key: bytes | None, value: bytes | None, tenant: Tenant = ANYBODY[OWN]) -> Change:
    """Parse a record of a subscriptions topic, which is that of the tenant. Raises Rejected."""
    id = text_of(key)
    if value is None:
        if id is None:
            raise Rejected(None, "a deletion (no value) needs the subscription's id as its key")
        _check(tenant, id)
        return Change(Subscription(id), None)
    check_size(id, len(value))
    try:
        document = parsed(value)
    except orjson.JSONDecodeError as error:
        raise Rejected(id, f"not JSON: {error}") from None
    return read_document(id, document, tenant)


def check_size(id: str | None, size: int) -> None:
    """Raises Rejected if a document has more bytes than the job takes."""
    if size > MAX_DOCUMENT_BYTES:
        raise Rejected(id, f"the document has {size:,} bytes; the maximum is {MAX_DOCUMENT_BYTES:,}")


def parsed(text: bytes | str) -> Any:
    """JSON, with integers as they are written. Raises orjson.JSONDecodeError.

    orjson reads integers beyond 64 bits as the nearest doubles, so the pattern would match other numbers.
    """
    document = orjson.loads(text)
    if not has_long_integer(text if isinstance(text, bytes) else text.encode()):
        return document
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:  # no pattern may be as deep
        return document


def has_long_integer(text: bytes) -> bool:
    """Whether a JSON text may hold an integer that needs more than 64 bits."""
    return _LONG_INTEGER in text.translate(_ZEROS)


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def id_of(key: bytes | None, value: bytes | None) -> bytes | None:
    """The id of a change, rejected or not: from its key, or without one from its document."""
    if key:
        return key
    try:
        return read_change(None, value).subscription.id.encode()
    except Rejected as rejected:
        return rejected.id.encode() if rejected.id else None


class Envelope(NamedTuple):
    """A document without its pattern."""

    subscription: Subscription
    paused: bool
    start: Start | None


def read_document(key: str | None, document: Any, tenant: Tenant = ANYBODY[OWN]) -> Change:
    """A subscription from a record's value as JSON gives it, narrowed by its tenant. Raises Rejected."""
    subscription, paused, start = read_envelope(key, document, tenant)
    try:
        conjunctions = lower(tenant.narrowed(parse(document["pattern"])))
    except PatternError as error:
        raise Rejected(subscription.id, str(error)) from None
    return Change(subscription, [] if paused else conjunctions, paused, start)


def read_envelope(key: str | None, document: Any, tenant: Tenant) -> Envelope:
    """Check all of a document but its pattern, which is there. Raises Rejected."""
    if not isinstance(document, dict):
        raise Rejected(key, 'not a JSON object; a subscription is {"id": ..., "subscriber": ..., "pattern": {...}}')
    for name in document:
        if name not in KEYS:
            raise Rejected(key, f"unknown key {name!r}; {known(name, KEYS)}")
    id = document.get("id", key)
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_LENGTH:
        raise Rejected(key, f"id must be a string of 1 to {MAX_ID_LENGTH} characters")
    if key is not None and key != id:
        raise Rejected(key, f"the record's key is {key!r} but the document's id {id!r}; they must be the same")
    subscriber = document.get("subscriber")
    if not isinstance(subscriber, str) or not SUBSCRIBER.fullmatch(subscriber):
        raise Rejected(
            id,
            "subscriber must be 1 to 200 letters, digits, dots, underscores or hyphens, since it names a topic, "
            f"not {_short(subscriber)}",
        )
    _check(tenant, id, subscriber)
    if "pattern" not in document:
        raise Rejected(id, "pattern is missing; write {} for every event")
    subscription = Subscription(id, subscriber, _expiry(id, document.get("expires_at")))
    paused = document.get("paused", False)
    if not isinstance(paused, bool):
        raise Rejected(id, f"paused must be true or false, not {_short(paused)}")
    start = _start(id, document["from"], paused) if "from" in document else None
    return Envelope(subscription, paused, start)


def _check(tenant: Tenant, id: str, subscriber: str | None = None) -> None:
    """Raises Rejected."""
    if objection := tenant.objection(id, subscriber):
        raise Rejected(id, objection)


def _expiry(id: str, value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Rejected(id, f"expires_at must be a time with its zone, such as {instants.EXAMPLE}, not {_short(value)}")
    try:
        return instants.milliseconds(value)
    except ValueError as error:
        raise Rejected(id, f"expires_at must be {error}, not {_short(value)}") from None


def _start(id: str, value: Any, paused: bool) -> Start:
    if paused:
        raise Rejected(id, "a paused subscription cannot have from; leave out from or paused")
    try:
        return parsed_start(value)
    except ValueError as error:
        raise Rejected(id, f"from must be {error}, not {_short(value)}") from None


def text_of(key: bytes | None) -> str | None:
    """The id in a record's key, if there is one. Raises Rejected."""
    try:
        return key.decode() if key else None
    except UnicodeDecodeError:
        raise Rejected(None, "the record's key is not UTF-8") from None


def _short(value: object) -> str:
    return "a deeply nested value" if is_too_deep([value]) else cut(repr(value), 60)
