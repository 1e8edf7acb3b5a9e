"""The settings, with their defaults, units and bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}$")]
TopicSetting = Annotated[str, Field(pattern=r"^[a-z][a-z0-9.]*$")]  # name of a setting of a topic


def _of_an_option(value: object) -> object:
    """Raises ValueError where a dot divided the name of an option."""
    if isinstance(value, Mapping):
        raise ValueError('write the whole name as one key, such as "security.protocol" = "SASL_SSL"')
    return value


Options = dict[str, Annotated[str, BeforeValidator(_of_an_option)]]

SHORTEST_TOKEN = 16


def _of_a_collector(address: str) -> str:
    """Raises ValueError."""
    try:
        parts = urlsplit(address)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and len(parts.path) > 1
    except ValueError:  # an invalid port, or brackets
        whole = False
    if address and (not whole or any(c in "@?#\\" or not c.isprintable() or c.isspace() for c in address)):
        raise ValueError("write scheme, host and path, such as http://127.0.0.1:4318/v1/traces, without user and query")
    return address


def console_token(token: str) -> str:
    """Return the token of the console. Raises ValueError."""
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError(
            f"a token needs at least {SHORTEST_TOKEN} letters, digits and signs; `openssl rand -hex 16` prints one"
        )
    return token


def _of_a_console(token: str) -> str:
    """Raises ValueError. A token in a file is checked when the job reads it."""
    return token if token.startswith("${file:") else console_token(token)


def _path_of_file_url(checkpoint: str) -> str:
    """Turn the URL of a directory into its path; return anything else unchanged. Raises ValueError."""
    if not checkpoint.lower().startswith("file:"):
        return checkpoint
    url = urlsplit(checkpoint)
    if url.netloc not in ("", "localhost") or not url.path.startswith("/") or url.query or url.fragment:
        raise ValueError(
            "write a path, or file:// and an absolute path, without a host and with %3F and %23 for ? and #"
        )
    return unquote(url.path)


# For delivery topics: Kafka maps two index files per partition, 10 MB each by default, and Linux reads around their
# first entry as far as the device's read-ahead goes. With an entry per 64 kB, 256 kB suffice for a segment of 1 GB.
INDEX_SETTINGS = {"segment.index.bytes": "262144", "index.interval.bytes": "65536"}


def _of_a_topic(value: object) -> str:
    """Convert a topic setting to what Kafka reads. Raises ValueError."""
    if isinstance(value, Mapping):
        raise ValueError('put the whole name in quotes, such as "retention.ms" = 86400000')
    if not isinstance(value, str | int | float):
        raise ValueError("write a string, a number, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_index_settings(config: dict[str, str]) -> dict[str, str]:
    return {**INDEX_SETTINGS, **config}


def _divided(names: object) -> object:
    """Split a string, as in the environment and flags, into names, or read it as a list in JSON; return anything else
    unchanged. Raises ValueError."""
    if not isinstance(names, str):
        return names
    if names.startswith("["):
        return json.loads(names)
    return [name.strip() for name in names.split(",")] if names else []


def _of_names(pattern: str) -> str:
    """Raises ValueError."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression of Python: {error}") from None
    return pattern


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Query(Section):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$")] = "sluice"
    """Name of the job: its transactional id and consumer group. Two jobs on one cluster need two names."""
    checkpoint: Annotated[str, Field(min_length=1), AfterValidator(_path_of_file_url)] = "checkpoint"
    """Directory of the saved state, or its URL (hdfs://, s3a://, ...). Used by one job at a time, always of the same
    name."""


class Kafka(Section):
    bootstrap_servers: str = "127.0.0.1:9092"
    """Bootstrap servers: host:port, separated by commas."""
    client: Options = {}
    """Options of librdkafka under their own names, for the driver, the command line and tasks. Tasks publish with
    another client, for which the options are translated. Options on which guarantees depend, such as
    `isolation.level`, have no effect. Files that the options name must be on executors too."""
    spark: Options = {}
    """Options of Kafka's Java client under their own names, for Spark's sources."""


Codec = Literal["json", "cloudevents", "avro", "protobuf"]


class Events(Section):
    topic: TopicName = "events"
    """Topic of the events."""
    topics: Annotated[list[TopicName], BeforeValidator(_divided)] = []
    """Several topics of events instead of `topic`; separated by commas in the environment and in flags."""
    topic_pattern: Annotated[str, AfterValidator(_of_names)] = ""
    """Regular expression instead of names: the job reads all topics whose whole name matches it, also topics created
    later."""
    codec: Codec = "json"
    """Format of events. The schemas of "avro" and "protobuf" are in a schema registry."""
    codecs: dict[TopicName, Codec] = {}
    """Formats of topics whose events have another format, such as orders = "avro"."""
    starting: Literal["earliest", "latest"] = "earliest"
    """First position of a new job: the oldest event, or the end of the topic."""
    reading: Literal["direct", "source"] = "direct"
    """Reader of the topics: the tasks themselves ("direct"), or Spark ("source"), which takes longer."""
    max_per_batch: Annotated[int, Field(gt=0)] = 100_000
    """Maximum events per transaction; per batch with reading = "source". A transaction of reading = "direct" takes at
    most 10,000, or 25 for each partition that it writes to if that is more."""
    max_bytes: Annotated[int, Field(gt=0)] = 1_000_000
    """Maximum size of an event's value; larger events become dead letters."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics of events. A pattern has none until `event_topics.resolved`."""
        return tuple(self.topics) if self.by_topic else (self.topic,)

    @property
    def by_topic(self) -> bool:
        """Whether there may be several."""
        return bool(self.topics or self.topic_pattern)

    def codec_of(self, topic: str) -> str:
        return self.codecs.get(topic, self.codec)


class SchemaRegistry(Section):
    url: Annotated[str, Field(pattern=r"^(https?://[^@\s]+)?$")] = ""
    """Address of the schema registry (http or https), without a user name."""
    options: Options = {}
    """Credentials, TLS and timeouts: basic.auth.user.info ("name:password"), bearer.auth.token, ssl.ca.location,
    ssl.certificate.location, ssl.key.location, ssl.key.password, timeout (seconds per attempt), max.retries."""


SubscriberName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$")]


class TenantSettings(Section):
    topic: TopicName
    """Topic of the tenant's subscriptions. Whoever may write to it acts as the tenant."""
    status_topic: TopicName
    """Topic of the statuses of the tenant's changes."""
    prefix: SubscriberName | Literal[""] = ""
    """The tenant may subscribe for subscribers whose names begin with this prefix."""
    subscribers: list[SubscriberName] = []
    """Further subscribers for whom the tenant may subscribe."""
    pattern: dict[str, Any] = {}
    """Pattern that narrows all subscriptions of the tenant: events that it does not match are not delivered."""
    max_subscriptions: Annotated[int, Field(ge=0)] = 0
    """Maximum subscriptions of the tenant; further ones are rejected. 0: no limit."""


class Subscriptions(Section):
    topic: TopicName = "subscriptions"
    """Topic of subscriptions, keyed by id; compacted. A record without a value deletes a subscription."""
    status_topic: TopicName = "subscriptions.status"
    """Topic of the statuses of changes, keyed by id."""
    tenants: dict[Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,50}$")], TenantSettings] = {}
    """Further topics of subscriptions, by tenant, and what each tenant may subscribe to, one line per tenant:
    acme = { topic = "acme.subscriptions", status_topic = "acme.subscriptions.status", prefix = "acme-",
    subscribers = [], pattern = { country = ["CH"] }, max_subscriptions = 0 }"""
    max_per_batch: Annotated[int, Field(gt=0)] = 20_000
    """Maximum changes per batch."""


class Deliveries(Section):
    layout: Literal["topic_per_subscriber", "shared"] = "topic_per_subscriber"
    """One topic per subscriber, or one topic for all, keyed by subscriber."""
    prefix: TopicName = "deliveries."
    """A subscriber's topic is this prefix followed by the subscriber's name."""
    topic: TopicName = "deliveries"
    """Topic of the layout "shared"."""
    create_topics: bool = True
    """Whether the job creates the topic of a new subscriber. If not, deliveries to missing topics become dead
    letters."""
    partitions: Annotated[int, Field(gt=0)] = 1
    """Partitions of created topics. Partitions beyond those of the events topic stay empty."""
    replication_factor: Annotated[int, Field(gt=0)] = 1
    """Replicas of created topics."""
    max_bytes: Annotated[int, Field(gt=0)] = 1_000_000
    """Maximum size of a delivery, headers included; larger deliveries become dead letters."""
    topic_config: Annotated[
        dict[TopicSetting, Annotated[str, BeforeValidator(_of_a_topic)]], AfterValidator(_with_index_settings)
    ] = INDEX_SETTINGS
    """Kafka's settings of created topics under their own names, such as "retention.ms" = 86_400_000, in addition to two
    defaults. "" leaves a setting to the broker. Kafka maps two index files of segment.index.bytes per partition:
    256 kB are enough for a segment of 1 GB with an entry per 64 kB."""


class Quotas(Section):
    subscriptions: Annotated[int, Field(ge=0)] = 0
    """Maximum subscriptions of a subscriber; further ones are rejected. 0: no limit."""
    deliveries_per_second: Annotated[int, Field(ge=0)] = 0
    """Maximum deliveries to a subscriber for the events of one second, by the events' timestamps. 0: no limit."""
    over: Literal["dead_letter", "drop"] = "dead_letter"
    """Treatment of deliveries over deliveries_per_second: they become dead letters, or are dropped and counted."""


class DeadLetters(Section):
    topic: TopicName = "deadletters"
    """Topic of the dead letters: records that could not be processed, with the reason."""


class Matching(Section):
    algorithm: str = "auto"
    """Matching algorithm, such as "tiles" (matchers/README.md lists all); "auto" measures which is the fastest."""
    options: dict[str, Any] = {}
    """Options of that algorithm under their own names."""
    max_per_event: Annotated[int, Field(ge=0)] = 0
    """Maximum matches per event; an event with more becomes a dead letter. 0: no limit."""
    shards: Annotated[int, Field(gt=0)] = 1
    """Number of shards of the subscriptions. Each shard is matched by separate tasks; for more subscriptions than the
    memory of one host holds."""
    adaptive_after_ms: Annotated[int, Field(ge=0)] = 0
    """When events wait longer than this, "wpa_rein" may make wrong deliveries, marked as such, until it has caught up.
    0: never."""
    adaptive_rates: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], BeforeValidator(_divided)] = [0.01, 0.05, 0.1]
    """Shares of deliveries that adaptive_after_ms allows to be wrong, rising from batch to batch."""


class Spark(Section):
    master: str = "local[*]"
    """URL of Spark's master, such as "local[*]" or "spark://HOST:7077". Ignored under spark-submit."""
    worker_memory_mb: Annotated[int, Field(ge=0)] = 2_048
    """Memory of a Python worker, in addition to the subscriptions, which all workers of a host share. 0: no limit."""
    options: Options = {}
    """Spark properties under their own names."""


class Metrics(Section):
    topic: TopicName | Literal[""] = "subscribers.metrics"
    """Topic of the metrics of each subscriber; compacted. Empty: no such metrics."""
    subscriptions: bool = False
    """Whether each subscription has metrics too. With many subscriptions the p99 is higher."""
    records_per_second: Annotated[int, Field(gt=0)] = 1_000
    """Maximum records that the job writes to that topic; further records are written later."""
    subscribers: Annotated[list[str], BeforeValidator(_divided), Field(max_length=1_000)] = []
    """Names of subscribers that are labels in the metrics for Prometheus; separated by commas in the environment and in
    flags."""


class Monitoring(Section):
    enabled: bool = True
    """Whether the job answers HTTP requests for its status (/, /status.json), its metrics (/metrics) and its health
    (/health, /ready)."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. Everybody who reaches it may read names of topics, but no event's content; on a loopback
    address (127.0.0.1) the console too, unless there is a token."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port to listen on; 0 takes a free one, named in the log and in the checkpoint's file "monitoring"."""
    console: bool = True
    """Whether the job also serves the console: subscriptions, matches of an event, dead letters."""
    token: Annotated[str, AfterValidator(_of_a_console)] = ""
    """Password of the console: at least 16 letters, digits and signs. Without one, the console is served on a loopback
    address only, to everybody."""
    stalled_after_s: Annotated[int, Field(gt=0)] = 300
    """The job is not healthy if nothing was committed for this time while there were records to read and the broker
    answered. A batch commits piece by piece. With less than five minutes, or than three times "transaction.timeout.ms",
    a job may be restarted before it has found an event that makes tasks hang."""
    stuck_after_s: Annotated[int, Field(gt=0)] = 30
    """The job is not ready, and warns, if a batch makes no progress for this time in one stage (prepare, measure,
    match, publish). Each transaction of a task is progress."""
    traces: Annotated[str, AfterValidator(_of_a_collector)] = ""
    """Address of an OpenTelemetry collector (OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces); each batch is
    sent as a trace. Empty: no traces."""


class Log(Section):
    format: Literal["text", "json"] = "text"
    """Text lines, or one JSON object per line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""


class Settings(Section):
    query: Query = Query()
    kafka: Kafka = Kafka()
    events: Events = Events()
    schema_registry: SchemaRegistry = SchemaRegistry()
    subscriptions: Subscriptions = Subscriptions()
    deliveries: Deliveries = Deliveries()
    quotas: Quotas = Quotas()
    dead_letters: DeadLetters = DeadLetters()
    matching: Matching = Matching()
    spark: Spark = Spark()
    metrics: Metrics = Metrics()
    monitoring: Monitoring = Monitoring()
    log: Log = Log()

    def of_tenant(self, name: str) -> Settings:
        """The settings by which a client reads and writes a tenant's subscriptions. Raises KeyError."""
        tenant = self.subscriptions.tenants[name]
        topics = {"topic": tenant.topic, "status_topic": tenant.status_topic, "tenants": {name: tenant}}
        return self.model_copy(update={"subscriptions": self.subscriptions.model_copy(update=topics)})
