"""The table of codecs, and a codec within the stage of the job."""

from __future__ import annotations

import json
import pickle
from typing import Any, get_args

import pyarrow as pa
import pytest

from config.model import Events
from matchers.index.snapshot import Snapshot
from streaming.codecs import CODECS, RegistrySettings, open_codec
from streaming.driver.batch_order import in_order
from streaming.errors import JobError
from streaming.rows import EVENTS, INPUT, PACKED, SUBSCRIPTIONS, DeadLetter, Delivery, Row, unpacked
from streaming.state.state import State
from tests.registry import SchemaRegistry
from tests.schemas import POINT, avro


def test_every_codec_of_the_settings_is_there() -> None:
    assert set(CODECS) == set(get_args(Events.model_fields["codec"].annotation))


def test_a_codec_is_opened_once_per_process() -> None:
    settings = RegistrySettings.of("http://127.0.0.1:1", {"timeout": "1"})
    again = pickle.loads(pickle.dumps(settings))
    assert open_codec("avro", settings) is open_codec("avro", again)
    assert open_codec("json") is not open_codec("cloudevents")


def test_wrong_options_of_the_registry_are_told_and_secrets_are_not() -> None:
    for options, why in (
        ({"basic.auth.user": "a:b"}, "unknown option 'basic.auth.user'; known: basic.auth.user.info, "),
        ({"timeout": "soon"}, "timeout = 'soon' must be a number of at least 1"),
        ({"timeout": "0"}, "timeout = '0' must be a number of at least 1"),
        ({"ssl.key.location": "key.pem"}, "ssl.key.location has no effect without ssl.certificate.location"),
        ({"basic.auth.user.info": "hunter2"}, "basic.auth.user.info must be name:password, with a colon"),
        ({"basic.auth.user.info": "a:hunter2", "bearer.auth.token": "hunter2"}, "keep one"),
    ):
        with pytest.raises(JobError) as error:
            RegistrySettings.of("http://r", options)
        assert why in str(error.value)
        assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(RegistrySettings.of("http://r", {"basic.auth.user.info": "a:hunter2"}))


def test_the_stage_decodes_by_the_codec_it_is_told(registry: SchemaRegistry) -> None:
    def rows(*rows: dict[str, Any]) -> list[Row]:
        given = [pa.RecordBatch.from_pylist(list(rows), schema=INPUT)]
        return in_order(unpacked(pa.Table.from_batches(state.work()[0](given), PACKED)))

    class Value:
        def __init__(self, value: Any) -> None:
            self.value = value

    state = State(Snapshot(), Value, {(EVENTS, 0): 0}, "avro", RegistrySettings.of(registry.url, {}))
    at = {"partition": 0, "timestamp": 1_000}
    subscription = json.dumps({"id": "s", "subscriber": "alice", "pattern": {"x": [1]}}).encode()
    found = rows(at | {"source": SUBSCRIPTIONS, "offset": 0, "key": b"s", "value": subscription})
    state.apply(found, {(SUBSCRIPTIONS, 0): 1})
    event = at | {"source": EVENTS, "offset": 0, "value": avro(registry, POINT, {"x": 1})}
    noise = at | {"source": EVENTS, "offset": 1, "value": b"{}", "headers": [{"key": "h", "value": None}]}
    letter, delivery, _ = rows(event, noise)
    assert isinstance(delivery, Delivery)
    assert isinstance(letter, DeadLetter)
    assert delivery.subscribers == ["alice"]
    assert delivery.record.value == event["value"]
    assert letter.record.offset == 1
    assert letter.detail == "the value has 2 bytes; a zero byte and a schema id alone are 5"
