"""Load the settings. Flags override the environment, the environment the file, and the file the defaults."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from config.model import Settings

PREFIX = "SLUICE_"
_NOT_SETTINGS = "SLUICE_TEST_"
# What Kubernetes sets for a service whose name begins with sluice.
_OF_A_SERVICE = re.compile(r"[A-Z0-9_]+_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)")
_SECRET = re.compile(r"password|secret|token|credential|jaas|user\.info|\.key|key\.pem|private", re.IGNORECASE)
_USER_IN_URL = re.compile(r"//[^/\s]*@")
# A secret in a file, "${file:PATH}", or a sasl.jaas.config in which all but the user's name is in files.
_IN_FILES = re.compile(r'\$\{file:[^}]*\}|[\w.$]+ \w+(\s+(username="[^"]*"|\w+="\$\{file:[^}]*\}"))+\s*;')
REDACTED = "(secret)"
LONGEST_TOPIC = 249  # characters; Kafka's limit
LONGEST_SUBSCRIBER = 200  # characters of the name
_WITH_SCHEMAS = ("avro", "protobuf")


class ConfigError(Exception):
    """The errors in the settings, one per line: the setting, the reason and the remedy."""


def load(
    file: Path | str | None = None, flags: Mapping[str, Any] | None = None, read: Callable[[str], str] | None = None
) -> Settings:
    """Load the settings from a file, the environment (SLUICE_SECTION__KEY, such as SLUICE_EVENTS__TOPIC) and flags.

    `flags` are by dotted name, such as {"events.topic": "orders"}; None means that a flag is not set. `read` returns
    the text of a file that is not on this machine. Raises ConfigError.
    """
    return load_with_sources(file, flags, read).settings


class SourcedSettings(NamedTuple):
    """Settings, and the source of each that is not a default, by its dotted name."""

    settings: Settings
    sources: dict[str, str]


def load_with_sources(
    file: Path | str | None = None, flags: Mapping[str, Any] | None = None, read: Callable[[str], str] | None = None
) -> SourcedSettings:
    """Load the settings like `load`, and note where each comes from. Raises ConfigError."""
    sources = {
        "file": _parsed(str(file), read or _text) if file else {},
        "environment": _environment(),
        "flag": _nested({name: value for name, value in (flags or {}).items() if value is not None}),
    }
    where = {"file": f"{file}: ", "environment": f"environment {PREFIX}…: ", "flag": "flags: "}
    if problems := [text for source, values in sources.items() for text in _unknown(values, where[source])]:
        raise ConfigError("\n".join(problems))
    for source in ("environment", "flag"):
        sources[source] = _with_tables(sources[source], where[source])
    try:
        settings = Settings(**reduce(_merged, sources.values()))
    except ValidationError as error:
        raise ConfigError("\n".join(_readable(e) for e in error.errors())) from None
    if problems := [
        *_of_events(settings),
        *_of_tenants(settings),
        *_of_metrics(settings),
        *_clashes(settings),
    ]:
        raise ConfigError("\n".join(problems))
    return SourcedSettings(settings, _named(sources))


def show(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain data, without secrets. References to files remain."""
    return {section: _redacted(values) for section, values in settings.model_dump().items()}


def _named(sources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The source of each setting, by its dotted name, from sources of which later ones override earlier ones."""
    found: dict[str, list[str]] = {}
    for source, settings in sources.items():
        for section, values in settings.items():
            for key, value in values.items():
                name = f"{section}.{key}"
                is_merged = isinstance(value, Mapping)  # with the entries of other sources
                found[name] = [*found.get(name, ()), source] if is_merged else [source]
    return {name: " and ".join(places) for name, places in found.items()}


def unused(settings: Settings) -> set[str]:
    """The settings that others replace."""
    return {"events.topic"} if settings.events.by_topic else set()


def _of_events(settings: Settings) -> Iterator[str]:
    """Yield errors in the settings of events: contradictions, and missing settings."""
    events = settings.events
    ways = [name for name in ("topic_pattern", "topics", "topic") if name in events.model_fields_set]
    chosen = [(f"events.{name}", getattr(events, name)) for name in ways if getattr(events, name)]
    for name, value in chosen[1:]:
        yield f"{name} = {value!r}: {chosen[0][0]} = {chosen[0][1]!r} replaces it; leave one of them out"
    for topic in sorted(events.codecs):
        if events.topic_pattern and not re.fullmatch(events.topic_pattern, topic):
            yield f"events.codecs: {topic!r} is not a topic of events; events.topic_pattern does not match it"
        elif not events.topic_pattern and topic not in events.names:
            yield f"events.codecs: {topic!r} is not a topic of events; {_nearest(topic, list(events.names))}"
    of_topics = ((f"events.codecs.{topic}", codec) for topic, codec in events.codecs.items())
    for name, codec in (("events.codec", events.codec), *of_topics):
        if codec in _WITH_SCHEMAS and not settings.schema_registry.url:
            yield (
                f"schema_registry.url = '': {name} = {codec!r} needs a schema registry, such as http://127.0.0.1:8081"
            )


def _of_tenants(settings: Settings) -> Iterator[str]:
    """Yield errors in the settings of tenants: no subscribers, or subscribers shared with another tenant."""
    owner: dict[str, str] = {}  # by name, or by beginning of names with "*" at its end
    for tenant, of in settings.subscriptions.tenants.items():
        where = f"subscriptions.tenants.{tenant}"
        if not of.prefix and not of.subscribers:
            yield f"{where}: has no subscribers; set prefix or subscribers"
        for mine in [*of.subscribers, *([f"{of.prefix}*"] if of.prefix else [])]:
            for theirs, other in owner.items():
                if other != tenant and _overlap(_plain(mine), _plain(theirs)):
                    overlap = f"its subscribers {mine!r} overlap with {theirs!r} of the tenant {other!r}"
                    yield f"{where}: {overlap}; separate them"
            owner[mine] = tenant


def _of_metrics(settings: Settings) -> Iterator[str]:
    """Yield errors in the settings of metrics: those that need the topic, without it."""
    metrics = settings.metrics
    for name in ("subscriptions", "subscribers"):
        if getattr(metrics, name) and not metrics.topic:
            yield f"metrics.{name} = {getattr(metrics, name)!r}: needs a topic; set metrics.topic"


def _overlap(a: str, b: str) -> bool:
    """Whether two names are equal; one that ends with "*" equals all names that begin with it."""
    begin, other = a.removesuffix("*"), b.removesuffix("*")
    if a == begin and b == other:
        return a == b
    return (a != begin and other.startswith(begin)) or (b != other and begin.startswith(other))


def _clashes(settings: Settings) -> Iterator[str]:
    """Yield errors in topic settings: equal topics, and topics that could be the delivery topic of a subscriber.

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
            f"deliveries.prefix = {deliveries.prefix!r}: has more than {most} characters; a topic has at most "
            f"{LONGEST_TOPIC}, and the name of a subscriber up to {LONGEST_SUBSCRIBER} of them"
        )
    taken: dict[str, str] = {}
    for name, topic in names:
        same = taken.get(_plain(topic))
        taken[_plain(topic)] = name
        if same is not None:
            yield f"{name} = {topic!r}: is the topic of {same} too, or differs from it only in dots and underscores"
        if deliveries.layout != "shared" and _plain(topic).startswith(_plain(deliveries.prefix)):
            yield (
                f"{name} = {topic!r}: begins with deliveries.prefix = {deliveries.prefix!r}, so it could be the "
                "topic of a subscriber; choose another prefix"
            )


def _topics_of_tenants(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, tenant in settings.subscriptions.tenants.items():
        yield f"subscriptions.tenants.{name}.topic", tenant.topic
        yield f"subscriptions.tenants.{name}.status_topic", tenant.status_topic


def _plain(topic: str) -> str:
    return topic.replace(".", "_")


def _merged(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of two sources. The later one overrides, except that tables have the entries of both."""
    both = {**earlier, **later}
    for name, value in later.items():
        if isinstance(value, Mapping) and isinstance(earlier.get(name), Mapping):
            both[name] = _merged(earlier[name], value)
    return both


def _with_tables(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read tables that are text. Raises ConfigError."""

    def read(section: str, key: str, value: Any) -> Any:
        annotation = _keys(section)[key].annotation
        if get_origin(annotation) is not dict:
            return value
        table = _of_json(value, f"{where}{section}.{key}")
        _, entry = get_args(annotation)
        return _with_entries(table, entry, f"{where}{section}.{key}") if _is_model(entry) else table

    return {
        section: {key: read(section, key, value) for key, value in values.items()}
        for section, values in settings.items()
    }


def _with_entries(table: Mapping[str, Any], model: type[BaseModel], where: str) -> dict[str, Any]:
    """A table of tables. The name of an entry may have a key of the entry after its last dot, as in "acme.topic"."""
    nested: dict[str, Any] = {}
    for name, value in table.items():
        entry, _, key = name.rpartition(".")
        if entry and key in model.model_fields and not isinstance(value, Mapping):
            nested[entry] = _merged(nested.get(entry, {}), {key: value})
        else:
            nested[name] = _merged(nested.get(name, {}), _of_json(value, f"{where}.{name}"))
    return nested


def _of_json(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        raise ConfigError(f"{where} is a table; write it as JSON") from None


def _is_model(entry: object) -> bool:
    return isinstance(entry, type) and issubclass(entry, BaseModel)


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
    names = (n for n in os.environ if n.startswith(PREFIX) and not n.startswith(_NOT_SETTINGS) and not _is_service(n))
    return _nested({_dotted(name.removeprefix(PREFIX)): os.environ[name] for name in names})


def _dotted(variable: str) -> str:
    """The name of a setting from that of a variable: SPARK__OPTIONS__SPARK__EXECUTOR__CORES, or, for an option with
    capitals, SPARK__OPTIONS__spark.executor.memoryOverhead."""
    parts = variable.split("__", 2)
    option = [name.lower() if name.isupper() else name for name in parts[2:]]
    return ".".join([*map(str.lower, parts[:2]), *option]).replace("__", ".")


def _is_service(name: str) -> bool:
    return "__" not in name and _OF_A_SERVICE.fullmatch(name) is not None


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nest {"a.b": 1} as {"a": {"b": 1}}. The rest after the second dot is the name of an option."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *sections, key = name.split(".", 2)
        inner = nested
        for number, section in enumerate(sections, 1):
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                whole = ".".join(sections[:number])
                raise ConfigError(f"{name} cannot be set, because {whole} is set as a whole; set one of them")
        if isinstance(inner.get(key), dict):
            raise ConfigError(f"{name} cannot be set as a whole, because parts of it are set; set one of them")
        inner[key] = value
    return nested


def _unknown(document: Mapping[str, Any], where: str) -> Iterator[str]:
    for section, values in document.items():
        if section not in Settings.model_fields:
            yield f"{where}unknown section {section!r}; {_nearest(section, list(Settings.model_fields))}"
            continue
        known = _keys(section)
        if not isinstance(values, Mapping):
            yield f"{where}{section} is a section, not a value; its keys are {', '.join(known)}"
            continue
        for key in values:
            if key not in known:
                yield f"{where}unknown key {section}.{key}; {_nearest(key, list(known))}"


def _keys(section: str) -> Mapping[str, FieldInfo]:
    model = Settings.model_fields[section].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    return model.model_fields


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _readable(error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"])
    secret = _SECRET.search(f"{name} {error['input']}")
    shown = _USER_IN_URL.sub(f"//{REDACTED}@", repr(error["input"]))
    return f"{name} = {REDACTED if secret else shown}: {error['msg']}"


def _redacted(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _redacted(inner, key) for key, inner in value.items()}
    is_secret = _SECRET.search(name) and value and not _IN_FILES.fullmatch(str(value))
    return REDACTED if is_secret else value
