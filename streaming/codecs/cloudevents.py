"""CloudEvents 1.0 over Kafka: both content modes give an event in the shape of the JSON envelope."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import orjson

from streaming.codecs.contract import Headers, Undecodable, kind
from streaming.codecs.json import decode_event

VERSION = "1.0"
REQUIRED = ("id", "source", "specversion", "type")
ENVELOPE = "application/cloudevents+json"
ANY_ENVELOPE = "application/cloudevents"
BATCH = "application/cloudevents-batch"
_DATA = ("data", "data_base64")  # members of the envelope that are no attributes
_JSON = re.compile(r"[^/]+/([^/]+\+)?json")
# Others cost more than their bytes, or give texts that are none (punycode, unicode_escape).
_CHARSETS = re.compile(r"utf[-_]?(8|16|32)([-_]?[bl]e)?|(us-)?ascii|iso-8859-\d+|windows-125\d", re.IGNORECASE)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]+)', re.IGNORECASE)


def decode(value: bytes | None, headers: Headers) -> dict[str, Any]:
    """Decode an event. Raises Undecodable."""
    content_type = _content_type(headers)
    media = _media(content_type)
    if media.startswith(BATCH):
        raise Undecodable(f"{media}: a batch of CloudEvents in one record is not supported; write one event per record")
    if media == ENVELOPE:
        return _checked_data(_checked(decode_event(value)))
    if media.startswith(ANY_ENVELOPE):
        raise Undecodable(f"{media}: this format of CloudEvents is not supported; supported: {ENVELOPE}")
    if "ce_specversion" in headers:
        return _binary(value, headers, content_type)
    raise Undecodable(f"not a CloudEvent: it has neither the content-type {ENVELOPE} nor a header ce_specversion")


def _binary(value: bytes | None, headers: Headers, content_type: str | None) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for key, values in headers.items():
        name = key.removeprefix("ce_")
        if name != key and name not in _DATA:
            event[name] = _text(_only(values, key), f"header {key}")
    _checked(event)
    if content_type is not None:
        event["datacontenttype"] = content_type
    if value:
        media = _media(content_type) or "application/json"  # what the specification takes it for
        if _JSON.fullmatch(media):
            event["data"] = _parsed(value)
        elif media.startswith("text/"):
            event["data"] = _text(value, "data", _charset(content_type))
        else:
            event["data_base64"] = b64encode(value).decode()
    return event


def _checked(event: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name in REQUIRED if not (isinstance(event.get(name), str) and event[name])]
    if missing:
        raise Undecodable(f"not a CloudEvent: {', '.join(missing)} missing or not a string")
    if event["specversion"] != VERSION:
        raise Undecodable(f"the CloudEvent has specversion {event['specversion']!r}; only {VERSION} is supported")
    return event


def _checked_data(event: dict[str, Any]) -> dict[str, Any]:
    """An event as the structured mode writes it, if its data are there once."""
    if "data_base64" not in event:
        return event
    if "data" in event:
        raise Undecodable("not a CloudEvent: it has both data and data_base64")
    data = event["data_base64"]
    try:
        if not isinstance(data, str):
            raise ValueError(f"not a string but {kind(data)}")
        b64decode(data, validate=True)
    except ValueError as error:
        raise Undecodable(f"not a CloudEvent: data_base64 is not Base64: {error}") from None
    return event


def _content_type(headers: Headers) -> str | None:
    values = [value for key, values in headers.items() if key.lower() == "content-type" for value in values]
    return _text(_only(values, "content-type"), "header content-type") if values else None


def _only(values: Sequence[bytes], key: str) -> bytes:
    """The value of a header that may be there several times, but with one value."""
    if any(value != values[0] for value in values):
        raise Undecodable(f"not a CloudEvent: it has several headers {key} with different values")
    return values[0]


def _media(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _charset(content_type: str | None) -> str:
    named = _CHARSET.search(content_type or "")
    return named[1] if named else "utf-8"


def _text(raw: bytes, what: str, charset: str = "utf-8") -> str:
    try:
        if not _CHARSETS.fullmatch(charset):
            raise LookupError(f"unknown encoding: {charset}")
        return raw.decode(charset)
    except (UnicodeDecodeError, LookupError) as error:
        raise Undecodable(f"{what} is not a string: {error}") from None


def _parsed(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"data is not JSON: {error}") from None
