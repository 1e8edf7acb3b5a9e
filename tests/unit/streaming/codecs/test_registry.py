"""Schemas from a registry: faults of an event, and faults that stop the job."""

from __future__ import annotations

import gzip
import itertools
import socket
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from streaming.codecs import registry as registries
from streaming.errors import JobError, RegistryUnreachable, of_worker
from tests.support.doubles.registry import SchemaRegistry
from tests.support.doubles.schemas import POINT, avro, framed, opened, reason
from tests.support.network.http_answers import serving
from tests.support.patience import PATIENCE_S

WITH_SCHEMAS = pytest.mark.parametrize("name", ["avro", "protobuf"])


@WITH_SCHEMAS
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "the record has no value"),
        (b"", "the value has 0 bytes"),
        (b"\0\0\0\1", "the value has 4 bytes; a zero byte and a schema id alone are 5"),
        (b'{"x": 1}', "begins with the byte 0x7b, not with a zero byte"),
        (framed(99, b"\0\0"), "schema 99 is not known to the registry"),
        (framed(2**32 - 1, b"\0\0"), "the schema registry has no schema 4294967295"),
    ],
)
def test_what_has_no_schema(name: str, value: bytes | None, why: str, registry: SchemaRegistry) -> None:
    assert why in reason(opened(name, registry), value)


@WITH_SCHEMAS
def test_a_schema_of_another_type_is_not_read(name: str, registry: SchemaRegistry) -> None:
    id = registry.register("events", "{}", "JSON")
    why = reason(opened(name, registry), framed(id, b"\0\0"))
    assert why == f"schema {id} has the type JSON, but events.codec needs {name.upper()}"


@WITH_SCHEMAS
def test_a_schema_that_cannot_be_used_is_named(name: str, registry: SchemaRegistry) -> None:
    id = registry.register("events", '{"type": "recrod"}', name.upper())
    assert f"schema {id} cannot be used" in reason(opened(name, registry), framed(id, b"\0\0"))


@WITH_SCHEMAS
def test_an_unknown_id_is_asked_for_once_in_a_while(
    name: str, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = opened(name, registry)
    for _ in range(3):
        assert "not known" in reason(decode, framed(1, b"\0\2"))
    assert registry.asked == ["/schemas/ids/1"]
    now = time.monotonic() + 60
    monkeypatch.setattr("streaming.codecs.registry.time.monotonic", lambda: now)
    assert "not known" in reason(decode, framed(1, b"\0\2"))
    assert len(registry.asked) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
@WITH_SCHEMAS
def test_a_registry_in_trouble_is_no_fault_of_the_event(name: str, status: int, registry: SchemaRegistry) -> None:
    decode = opened(name, registry, **{"max.retries": "1"})
    registry.answer = status, b'{"error_code": 50001}'
    with pytest.raises(RegistryUnreachable, match=f"status {status}") as error:
        decode(framed(1, b"\0\0"), {})
    assert error.value.retry
    assert len(registry.asked) == 2


def test_what_was_unreachable_is_read_when_the_registry_is_back(registry: SchemaRegistry) -> None:
    value, decode = avro(registry, POINT, {"x": 1}), opened("avro", registry)
    registry.answer = 503, b""
    with pytest.raises(RegistryUnreachable):
        decode(value, {})
    registry.answer = None
    assert decode(value, {}) == {"x": 1}


@WITH_SCHEMAS
def test_nobody_at_the_registrys_address(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    decode = opened(name, SchemaRegistry(f"http://127.0.0.1:{port}"))
    with pytest.raises(RegistryUnreachable, match=f"127.0.0.1:{port} does not answer"):
        decode(framed(1, b"\0\0"), {})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, b"{}"), "status 401; set the credentials in schema_registry.options"),
        ((403, b"no"), "status 403; set the credentials in schema_registry.options"),
        ((404, b"<html>"), "status 404; correct schema_registry.url"),
        ((404, b'{"error_code": 404}'), "status 404; correct schema_registry.url"),
        ((200, b"<html>"), "is not a schema registry"),
        ((200, b'{"schema": "{}", "references": [1]}'), "is not a schema registry"),
        ((200, b'{"schema": "{}", "references": {"name": "x"}}'), "is not a schema registry"),
        ((200, b'{"schema": "{}", "references": "x"}'), "is not a schema registry"),
        ((200, b'{"schema": "{}", "references": [{"name": "x", "subject": 1, "version": 1}]}'), "is not a schema"),
        (
            (200, b'{"schema": "{}", "references": [{"name": "x", "subject": "x", "version": "../"}]}'),
            "is not a schema",
        ),
        ((200, b'{"schema": {"type": "int"}}'), "is not a schema registry"),
        ((200, b'{"schema": null}'), "is not a schema registry"),
        ((200, b'{"schema": "{}", "schemaType": ["AVRO"]}'), "is not a schema registry"),
    ],
)
@WITH_SCHEMAS
def test_what_stops_the_job_until_a_setting_changes(
    name: str, answer: tuple[int, bytes], why: str, registry: SchemaRegistry
) -> None:
    registry.answer = answer
    with pytest.raises(JobError, match=why.replace("?", r"\?")) as error:
        opened(name, registry)(framed(1, b"\0\0"), {})
    assert not error.value.retry


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, None),
        ({"basic.auth.user.info": "alice:sécret"}, "Basic " + b64encode("alice:sécret".encode()).decode()),
        ({"bearer.auth.token": "abc"}, "Bearer abc"),
    ],
)
def test_credentials_are_sent(options: dict[str, str], sent: str | None, registry: SchemaRegistry) -> None:
    value = avro(registry, POINT, {"x": 1})
    opened("avro", registry, **options)(value, {})
    assert registry.authorization == [sent]


@pytest.mark.parametrize("location", ["http://[", "http://127.0.0.1:99999999/", "/again", "x" * 100_000])
def test_a_redirect_to_nowhere_is_no_answer(location: str) -> None:
    def answer(request: bytes) -> list[bytes]:
        return [f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()]

    with serving(answer) as url, pytest.raises(RegistryUnreachable, match=f"{url} does not answer"):
        opened("avro", SchemaRegistry(url))(framed(1, b"\2"), {})


def test_an_answer_without_an_end_is_not_read_to_the_end() -> None:
    sent = []

    def answer(request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        for _ in range(10_000):
            sent.append(1)
            yield b" " * 65_536

    with serving(answer) as url:
        assert "schema 1 is larger than 1,000,000 bytes" in reason(
            opened("avro", SchemaRegistry(url)), framed(1, b"\2")
        )
    assert len(sent) < 500


def test_an_answer_that_trickles_in_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=1_000)  # s
    monkeypatch.setattr(registries, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))

    def answer(request: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        for _ in range(10_000):
            yield b" "

    with serving(answer) as url, pytest.raises(RegistryUnreachable, match="no whole answer within 600 s"):
        opened("avro", SchemaRegistry(url), timeout=f"{PATIENCE_S:g}")(framed(1, b"\2"), {})


def test_an_answer_is_not_unpacked() -> None:
    """It was requested as it is, and a small one could hold gigabytes."""
    body = gzip.compress(b" " * 100_000_000)
    requests = []

    def answer(request: bytes) -> list[bytes]:
        requests.append(request.lower())
        return [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body]

    tracemalloc.start()
    try:
        with serving(answer) as url, pytest.raises(JobError, match="is not a schema registry"):
            opened("avro", SchemaRegistry(url))(framed(1, b"\2"), {})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert b"accept-encoding: identity" in requests[0]


@pytest.mark.parametrize("error", [RegistryUnreachable("it does not answer: [x]"), JobError("status 401")])
def test_the_driver_knows_a_job_error_of_a_worker_again(error: JobError) -> None:
    trace = f"Job aborted: Traceback:\n  raise\nstreaming.errors.{type(error).__name__}: {error}\n\tat"
    again = of_worker(trace)
    assert (type(again), str(again)) == (type(error), str(error))
    assert of_worker("ValueError: streaming.errors.JobError: x") is None
    assert of_worker("streaming.errors.re: x") is None
