"""All settings, with their defaults, units and bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}$")]
Options = dict[str, str]


def _of_a_collector(address: str) -> str:
    """Raises ValueError."""
    try:
        parts = urlsplit(address)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and len(parts.path) > 1
    except ValueError:  # of a port that is none, and of brackets
        whole = False
    if address and (not whole or any(c in "@?#\\" or not c.isprintable() or c.isspace() for c in address)):
        raise ValueError("give scheme, host and path, such as http://127.0.0.1:4318/v1/traces, and no user or query")
    return address


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Query(Section):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$")] = "sluice"
    """Names the job: its transactional id and its consumer group. Two jobs side by side need two names."""
    checkpoint: str = "checkpoint"
    """Directory, or URL, of the job's own notes on where it is. One job at a time, of one name."""


class Kafka(Section):
    bootstrap_servers: str = "127.0.0.1:9092"
    """Brokers to ask first: host:port, separated by commas."""
    client: Options = {}
    """Options of librdkafka under their own names, for all that the job writes and the command line does."""
    spark: Options = {}
    """Options of Kafka's Java client under their own names, for Spark's sources."""


class Events(Section):
    topic: TopicName = "events"
    """Where events are read."""
    codec: Literal["json", "cloudevents", "avro", "protobuf"] = "json"
    """How they are written. The schemas of "avro" and "protobuf" are in a schema registry."""
    starting: Literal["earliest", "latest"] = "earliest"
    """Where a query that has never run begins: with the oldest event there is, or with the next to come."""
    max_per_batch: Annotated[int, Field(gt=0)] = 100_000
    """Events a batch takes at most."""
    max_bytes: Annotated[int, Field(gt=0)] = 1_000_000
    """An event whose value is larger becomes a dead letter."""


class SchemaRegistry(Section):
    url: Annotated[str, Field(pattern=r"^(https?://[^@\s]+)?$")] = ""
    """Where the schema registry is asked: http or https, without a user in it."""
    options: Options = {}
    """Credentials, TLS and patience: basic.auth.user.info, ssl.ca.location, timeout and others."""


class Subscriptions(Section):
    topic: TopicName = "subscriptions"
    """Where subscriptions and their withdrawals are read; compacted, keyed by id."""
    status_topic: TopicName = "subscriptions.status"
    """Where the job says what became of each change, keyed by id."""
    max_per_batch: Annotated[int, Field(gt=0)] = 20_000
    """Changes a batch takes at most."""


class Deliveries(Section):
    layout: Literal["topic_per_subscriber", "shared"] = "topic_per_subscriber"
    """A topic for each subscriber, or one for all, keyed by subscriber."""
    prefix: TopicName = "deliveries."
    """The topic of a subscriber is this followed by the subscriber's name."""
    topic: TopicName = "deliveries"
    """The one topic of the layout "shared"."""
    create_topics: bool = True
    """Whether the job makes the topic of a new subscriber. If not, deliveries to a missing one are dead letters."""
    partitions: Annotated[int, Field(gt=0)] = 1
    """Partitions of the topics it makes."""
    replication_factor: Annotated[int, Field(gt=0)] = 1
    """Replicas of the topics it makes."""
    max_bytes: Annotated[int, Field(gt=0)] = 1_000_000
    """A delivery that is larger, headers included, becomes a dead letter."""


class Quotas(Section):
    subscriptions: Annotated[int, Field(ge=0)] = 0
    """Subscriptions of one subscriber at most; one more is refused. 0: any number."""
    deliveries_per_second: Annotated[int, Field(ge=0)] = 0
    """Deliveries at most to one subscriber of events of one second, by the events' timestamps. 0: any number."""
    over: Literal["dead_letter", "drop"] = "dead_letter"
    """What becomes of deliveries beyond that; both are counted in the log line of the batch."""


class DeadLetters(Section):
    topic: TopicName = "deadletters"
    """Where everything goes that could not be used, with the reason."""


class Matching(Section):
    algorithm: str = "scan"
    """Name of a matching algorithm."""
    options: dict[str, Any] = {}
    """Options of that algorithm under their own names."""
    max_per_event: Annotated[int, Field(ge=0)] = 0
    """An event that more subscriptions match becomes a dead letter; 0: any number, delivered slice by slice."""
    shards: Annotated[int, Field(gt=0)] = 1
    """Parts that the subscriptions are divided into, each matched by tasks of its own, if one host cannot hold them."""
    adaptive_after_ms: Annotated[int, Field(ge=0)] = 0
    """When events wait longer, "wpa_rein" may deliver some too many, marked, until it has caught up. 0: never."""
    adaptive_rates: list[Annotated[float, Field(gt=0, lt=1)]] = [0.01, 0.05, 0.1]
    """The share of deliveries that may be wrong then, rising from batch to batch."""


class Spark(Section):
    master: str = "local[*]"
    """Where Spark runs."""
    worker_memory_mb: Annotated[int, Field(ge=0)] = 2_048
    """What a Python worker may take, besides the subscriptions that all of a host share; 0: any amount."""
    options: Options = {}
    """Spark properties under their own names."""


class Monitoring(Section):
    enabled: bool = True
    """Whether the job answers HTTP requests for its status, its metrics and its health."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on. Everybody who reaches it may read; it says names of topics, and no event's content."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port to listen on; 0 takes a free one. The log says which; so does the file "monitoring" in the checkpoint."""
    stalled_after_s: Annotated[int, Field(gt=0)] = 300
    """The job is not healthy if for so long no batch was done while there was something to read."""
    traces: Annotated[str, AfterValidator(_of_a_collector)] = ""
    """Where a collector of OpenTelemetry takes traces (OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces): each
    batch is one. Empty: there are none."""


class Log(Section):
    format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object a line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""


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
    monitoring: Monitoring = Monitoring()
    log: Log = Log()
