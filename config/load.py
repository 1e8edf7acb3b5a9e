"""Load the settings: flags override the environment, that overrides the file, that overrides the defaults."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from config.model import Settings

PREFIX = "SLUICE_"
_NOT_SETTINGS = "SLUICE_TEST_"
_SECRET = re.compile(r"password|secret|token|credential|jaas|user\.info|\.key|key\.pem|private", re.IGNORECASE)
_USER_IN_URL = re.compile(r"//[^/\s]*@")
REDACTED = "(secret)"
LONGEST_TOPIC = 249  # characters; Kafka's
LONGEST_SUBSCRIBER = 200  # characters of the name
_WITH_SCHEMAS = ("avro", "protobuf")


class ConfigError(Exception):
    """The errors in the settings, one per line: the setting, the reason and what would work."""


def load(
    file: Path | str | None = None, flags: Mapping[str, Any] | None = None, read: Callable[[str], str] | None = None
) -> Settings:
    """`flags` by dotted name, such as {"events.topic": "orders"}; those that are None were not given. `read` returns
    the text of a file by its name, where the file is not on this machine.

    From the environment: SLUICE_SECTION__KEY, such as SLUICE_EVENTS__TOPIC. Raises ConfigError.
    """
    set_flags = {name: value for name, value in (flags or {}).items() if value is not None}
    document = _parsed(str(file), read or _text) if file else {}
    problems = [
        *_unknown(document, f"{file}: "),
        *_unknown(_nested(set_flags), "flags: "),
        *_unknown(_environment(), f"environment {PREFIX}…: "),
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    try:
        settings = _sources(document)(**_nested(set_flags))
    except ValidationError as error:
        raise ConfigError("\n".join(_readable(e) for e in error.errors())) from None
    if problems := [*_of_events(settings), *_of_tenants(settings), *_clashes(settings)]:
        raise ConfigError("\n".join(problems))
    return settings


def show(settings: Settings) -> dict[str, Any]:
    """All settings as plain data, without secrets."""
    return {section: _redacted(values) for section, values in settings.model_dump().items()}


def _of_events(settings: Settings) -> Iterator[str]:
    """Settings of events that contradict each other, or lack another."""
    events = settings.events
    ways = [name for name in ("topic_pattern", "topics", "topic") if name in events.model_fields_set]
    chosen = [(f"events.{name}", getattr(events, name)) for name in ways if getattr(events, name)]
    for name, value in chosen[1:]:
        yield f"{name} = {value!r}: {chosen[0][0]} = {chosen[0][1]!r} takes its place; leave one of them out"
    for topic in sorted(events.codecs):
        if events.topic_pattern and not re.fullmatch(events.topic_pattern, topic):
            yield f"events.codecs: {topic!r} is no topic of events; events.topic_pattern does not match it"
        elif not events.topic_pattern and topic not in events.names:
            yield f"events.codecs: {topic!r} is no topic of events; {_nearest(topic, list(events.names))}"
    of_topics = ((f"events.codecs.{topic}", codec) for topic, codec in events.codecs.items())
    for name, codec in (("events.codec", events.codec), *of_topics):
        if codec in _WITH_SCHEMAS and not settings.schema_registry.url:
            yield (
                f"schema_registry.url = '': {name} = {codec!r} needs a schema registry, such as http://127.0.0.1:8081"
            )


def _of_tenants(settings: Settings) -> Iterator[str]:
    """Tenants that have no subscribers, or share them with another."""
    owner: dict[str, str] = {}  # of a name, or of the beginning of names, which ends with "*"
    for tenant, of in settings.subscriptions.tenants.items():
        where = f"subscriptions.tenants.{tenant}"
        if not of.prefix and not of.subscribers:
            yield f"{where}: has no subscribers; give their common prefix, or the list of subscribers"
        for mine in [*of.subscribers, *([f"{of.prefix}*"] if of.prefix else [])]:
            for theirs, other in owner.items():
                if other != tenant and _overlap(_plain(mine), _plain(theirs)):
                    yield f"{where}: its subscribers {mine!r} meet {theirs!r} of the tenant {other!r}; keep them apart"
            owner[mine] = tenant


def _overlap(a: str, b: str) -> bool:
    """Whether a name, or the names that begin so where it ends with "*", meets another."""
    begin, other = a.removesuffix("*"), b.removesuffix("*")
    if a == begin and b == other:
        return a == b
    return (a != begin and other.startswith(begin)) or (b != other and begin.startswith(other))


def _clashes(settings: Settings) -> Iterator[str]:
    """Topic settings that could equal a delivery topic: the name of a subscriber is free and must not name another
    topic.

    Kafka allows no two topics that differ in dots and underscores only.
    """
    deliveries = settings.deliveries
    names = [
        *(("events.topics" if settings.events.topics else "events.topic", topic) for topic in settings.events.names),
        ("subscriptions.topic", settings.subscriptions.topic),
        ("subscriptions.status_topic", settings.subscriptions.status_topic),
        *_topics_of_tenants(settings),
        ("dead_letters.topic", settings.dead_letters.topic),
    ]
    if settings.metrics.topic:
        names.append(("metrics.topic", settings.metrics.topic))
    if deliveries.layout == "shared":
        names.append(("deliveries.topic", deliveries.topic))
    elif len(deliveries.prefix) + LONGEST_SUBSCRIBER > LONGEST_TOPIC:
        most = LONGEST_TOPIC - LONGEST_SUBSCRIBER
        yield (
            f"deliveries.prefix = {deliveries.prefix!r}: has more than {most} characters; with a subscriber's name, "
            f"{LONGEST_SUBSCRIBER} at most, it must fit into the {LONGEST_TOPIC} of a topic"
        )
    taken: dict[str, str] = {}
    for name, topic in names:
        same = taken.get(_plain(topic))
        taken[_plain(topic)] = name
        if same is not None:
            yield f"{name} = {topic!r}: is the topic of {same} too, or differs from it in dots and underscores only"
        if deliveries.layout != "shared" and _plain(topic).startswith(_plain(deliveries.prefix)):
            yield (
                f"{name} = {topic!r}: begins with deliveries.prefix = {deliveries.prefix!r}, so it could be that of "
                "a subscriber; choose another prefix"
            )


def _topics_of_tenants(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, tenant in settings.subscriptions.tenants.items():
        yield f"subscriptions.tenants.{name}.topic", tenant.topic
        yield f"subscriptions.tenants.{name}.status_topic", tenant.status_topic


def _plain(topic: str) -> str:
    return topic.replace(".", "_")


def _sources(document: dict[str, Any]) -> type[Settings]:
    class Sources(Settings, BaseSettings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="ignore")

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, document)

    return Sources


def _parsed(file: str, read: Callable[[str], str]) -> dict[str, Any]:
    try:
        return tomllib.loads(read(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: is not TOML: {error}") from None


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; config/example.toml shows all settings") from None


def _environment() -> dict[str, Any]:
    names = (n for n in os.environ if n.startswith(PREFIX) and not n.startswith(_NOT_SETTINGS))
    return _nested({n.removeprefix(PREFIX).lower().replace("__", "."): os.environ[n] for n in names})


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} as {"a": {"b": 1}}; what follows the second dot belongs to an option's own name."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        node, *keys = name.split(".", 2)
        if not keys:
            nested[node] = value
            continue
        inner = nested.setdefault(node, {})
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = value
    return nested


def _unknown(document: Mapping[str, Any], where: str) -> Iterator[str]:
    for section, values in document.items():
        if section not in Settings.model_fields:
            yield f"{where}unknown section {section!r}; {_nearest(section, list(Settings.model_fields))}"
            continue
        model = Settings.model_fields[section].annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        if not isinstance(values, Mapping):
            yield f"{where}{section} is a section, not a value; its keys are {', '.join(model.model_fields)}"
            continue
        for key in values:
            if key not in model.model_fields:
                yield f"{where}unknown key {section}.{key}; {_nearest(key, list(model.model_fields))}"


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _readable(error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"])
    secret = _SECRET.search(name)
    shown = _USER_IN_URL.sub(f"//{REDACTED}@", repr(error["input"]))
    return f"{name} = {REDACTED if secret else shown}: {error['msg']}"


def _redacted(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _redacted(inner, key) for key, inner in value.items()}
    return REDACTED if _SECRET.search(name) and value else value
