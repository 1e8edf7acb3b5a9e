"""CloudEvents in both modes give one event; others are rejected with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.codecs.cloudevents import decode
from tests.support.doubles.schemas import reason

ATTRIBUTES = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.placed", "subject": "Grüße"}
Headers = dict[str, bytes | list[bytes]]


def cloudevent(value: bytes | None, headers: Headers) -> dict[str, Any]:
    return decode(value, {name: v if isinstance(v, list) else [v] for name, v in headers.items()})


BINARY: Headers = {f"ce_{name}": text.encode() for name, text in ATTRIBUTES.items()}


@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.order+json", "text/json; charset=utf-8"])
def test_both_modes_of_cloudevents_come_to_the_same_event(content_type: str) -> None:
    data = {"price": 150.5, "tags": ["a", None], "deep": {"x": 1}}
    envelope = ATTRIBUTES | {"datacontenttype": content_type, "data": data}
    structured = cloudevent(
        json.dumps(envelope).encode(), {"Content-Type": b"application/cloudevents+json; charset=UTF-8"}
    )
    binary = cloudevent(json.dumps(data).encode(), BINARY | {"Content-Type": content_type.encode()})
    assert structured == binary == envelope


@pytest.mark.parametrize(
    ("content_type", "value", "data"),
    [
        (None, b"[1]", {"data": [1]}),
        (b"application/json", b"null", {"data": None}),
        (b"text/plain", "Grüße".encode(), {"data": "Grüße"}),
        (b"text/plain; charset=iso-8859-1", "Grüße".encode("iso-8859-1"), {"data": "Grüße"}),
        (b"image/png", b"\x89PNG", {"data_base64": "iVBORw=="}),
        (b"application/json", None, {}),
        (b"application/json", b"", {}),
    ],
)
def test_data_of_the_binary_mode(content_type: bytes | None, value: bytes | None, data: dict[str, Any]) -> None:
    headers = BINARY | ({"content-type": content_type} if content_type else {}) | {"traceparent": b"\xff"}
    typed = {"datacontenttype": content_type.decode()} if content_type else {}
    assert cloudevent(value, headers) == ATTRIBUTES | typed | data


STRUCTURED: Headers = {"content-type": b"application/cloudevents+json"}


@pytest.mark.parametrize(
    ("value", "headers", "why"),
    [
        (b"{}", {}, "neither the content-type application/cloudevents+json nor a header ce_specversion"),
        (b"{}", {"content-type": b"application/json"}, "neither the content-type"),
        (b"[]", {"content-type": b"application/cloudevents-batch+json"}, "a batch of CloudEvents in one record"),
        (b"\0", {"content-type": b"application/cloudevents+avro"}, "this format of CloudEvents is not supported"),
        (None, STRUCTURED, "the record has no value"),
        (b"[]", STRUCTURED, "not a JSON object but an array"),
        (b"{", STRUCTURED, "not JSON"),
        (b"{}", STRUCTURED, "id, source, specversion, type missing"),
        (json.dumps(ATTRIBUTES | {"id": 7}).encode(), STRUCTURED, "id missing or not a string"),
        (
            json.dumps(ATTRIBUTES | {"specversion": "0.3"}).encode(),
            STRUCTURED,
            "specversion '0.3'; only 1.0 is supported",
        ),
        (json.dumps(ATTRIBUTES | {"data": 1, "data_base64": "AAAA"}).encode(), STRUCTURED, "both data and data_base64"),
        (
            json.dumps(ATTRIBUTES | {"data": None, "data_base64": "AAAA"}).encode(),
            STRUCTURED,
            "both data and data_base64",
        ),
        *(
            (json.dumps(ATTRIBUTES | {"data_base64": data}).encode(), STRUCTURED, "data_base64 is not Base64: ")
            for data in ("a", "AAA", "AA==A", "A A A A ", "AA-_", "\u00e9\u00e9\u00e9\u00e9", 5, None, ["AAAA"])
        ),
        (b"{}", BINARY | {"ce_id": [b"7", b"8"]}, "several headers ce_id with different values"),
        (b"{}", BINARY | {"ce_other": [b"7", b""]}, "several headers ce_other with different values"),
        (b"{}", {"content-type": b"text/plain", "Content-Type": b"text/html"}, "several headers content-type"),
        (b"{}", BINARY | {"ce_type": b""}, "type missing"),
        (b"{}", BINARY | {"ce_specversion": b"2.0"}, "specversion '2.0'"),
        (b"{}", BINARY | {"ce_subject": b"\xff"}, "header ce_subject is not a string"),
        (b"{", BINARY, "data is not JSON"),
        (b"\xff", BINARY | {"content-type": b"text/plain"}, "data is not a string"),
        (b"x", BINARY | {"content-type": b"text/plain; charset=none"}, "data is not a string"),
    ],
)
def test_what_is_no_cloudevent(value: bytes | None, headers: Headers, why: str) -> None:
    assert why in reason(cloudevent, value, headers)


def test_a_header_that_is_there_twice_has_one_value() -> None:
    twice = BINARY | {"ce_id": [b"7", b"7"], "content-type": [b"text/plain"] * 2, "other": [b"1", b"2"]}
    assert cloudevent(b"a", twice) == ATTRIBUTES | {"datacontenttype": "text/plain", "data": "a"}


@pytest.mark.parametrize("data", ["", "iVBORw==", "AAAA"])
def test_data_in_base64_is_left_as_it_is_written(data: str) -> None:
    event = ATTRIBUTES | {"data_base64": data}
    assert cloudevent(json.dumps(event).encode(), STRUCTURED) == event
