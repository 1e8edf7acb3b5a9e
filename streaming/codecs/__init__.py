"""Codecs: decode a record's bytes and headers to an event. Each worker process opens its codec once.

For: JSON, CloudEvents, Avro and Protobuf, and the schemas in a registry. May enter: bytes from anybody, hostile ones
too. Must not know: Kafka, Spark, and subscriptions. Each codec returns an event or the reason for rejecting the record.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from streaming.codecs.contract import Decode, Undecodable
from streaming.codecs.json import decode_event
from streaming.codecs.settings import RegistrySettings

__all__ = ["CODECS", "Decode", "RegistrySettings", "Undecodable", "decode_event", "open_codec"]

# A codec's imports happen when it is opened: a worker of a JSON stream does not wait for Avro and HTTP.


def _json(registry: RegistrySettings | None) -> Decode:
    return decode_event


def _cloudevents(registry: RegistrySettings | None) -> Decode:
    from streaming.codecs.cloudevents import decode

    return decode


def _avro(registry: RegistrySettings | None) -> Decode:
    from streaming.codecs.avro import Avro
    from streaming.codecs.registry import Registry

    assert registry is not None
    return Avro(Registry(registry)).decode


def _protobuf(registry: RegistrySettings | None) -> Decode:
    from streaming.codecs.protobuf import Protobuf
    from streaming.codecs.registry import Registry

    assert registry is not None
    return Protobuf(Registry(registry)).decode


CODECS: dict[str, Callable[[RegistrySettings | None], Decode]] = {
    "json": _json,
    "cloudevents": _cloudevents,
    "avro": _avro,
    "protobuf": _protobuf,
}


@cache  # so that schemas are fetched once per process, not once per batch
def open_codec(name: str, registry: RegistrySettings | None = None) -> Decode:
    return CODECS[name](registry)
