"""The table of codecs, and a codec within the stage of the job."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import get_args

import pytest

from config.model import Events
from streaming.codecs import CODECS, RegistrySettings, open_codec
from streaming.errors import JobError
from tests.support.doubles.registry import SchemaRegistry
from tests.support.doubles.schemas import POINT, avro
from tests.support.doubles.stage import ALICE, ListSink, change, event, pipeline, step


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
        ({"basic.auth.user.info": "a:hunter2", "bearer.auth.token": "hunter2"}, "set only one"),
    ):
        with pytest.raises(JobError) as error:
            RegistrySettings.of("http://r", options)
        assert why in str(error.value)
        assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(RegistrySettings.of("http://r", {"basic.auth.user.info": "a:hunter2"}))


def test_the_stage_decodes_by_the_codec_it_is_told(registry: SchemaRegistry) -> None:
    p = pipeline(ListSink())
    in_avro = {source: topic._replace(codec="avro") for source, topic in p.settings.topics.items()}
    p.settings = replace(p.settings, topics=in_avro, registry=RegistrySettings.of(registry.url, {}))
    step(p, change(0, "a", ALICE))
    value = avro(registry, POINT, {"x": 1})
    letter, delivery = step(p, event(0, value), event(1, b"{}", headers=[{"key": "h", "value": None}]))
    assert (delivery.topic, delivery.value) == ("to.alice", value)
    headers = dict(letter.headers)
    assert headers["sluice_origin_offset"] == b"1"
    assert headers["sluice_detail"] == b"the value has 2 bytes; a zero byte and a schema id alone are 5"
