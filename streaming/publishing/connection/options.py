"""Translate librdkafka's options (`[kafka.client]`) into what slots and their connections need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.errors import JobError
from streaming.publishing.connection import tls, tokens

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CODECS = ("none", "gzip", "lz4", "zstd")
PARTITIONERS = ("consistent_random",)

# Names with a translation below, or in `tls` or `tokens`.
_CONNECTION: dict[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "socket.timeout.ms": ("request_timeout_ms", int),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
    "client.dns.lookup": ("client_dns_lookup", str),
}
_ALIASES = {
    "sasl.mechanism": "sasl.mechanisms",
    "compression.codec": "compression.type",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_HERE = (
    "security.protocol",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "metadata.max.age.ms",
    "connections.max.idle.ms",
    "compression.type",
    "message.max.bytes",
    "batch.size",
    "request.timeout.ms",
    "partitioner",
    "transaction.timeout.ms",
)

# Options that librdkafka knows and a slot has no use for, by the reason.
WITHOUT_EFFECT: dict[str, tuple[str, ...]] = {
    "only consumers have it": (
        *("group.id", "group.instance.id", "group.protocol", "group.protocol.type", "group.remote.assignor"),
        *("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"),
        *("max.poll.records", "coordinator.query.interval.ms", "enable.auto.commit", "auto.commit.enable"),
        *("auto.commit.interval.ms", "enable.auto.offset.store", "auto.offset.reset", "isolation.level"),
        *("queued.min.messages", "queued.max.messages.kbytes", "fetch.wait.max.ms", "fetch.queue.backoff.ms"),
        *("fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes"),
        *("fetch.error.backoff.ms", "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms"),
        *("enable.partition.eof", "check.crcs", "client.rack", "share.acknowledgement.mode"),
        "consume.callback.max.messages",
    ),
    "a slot has no queue: it sends what it is given, at once": (
        *("queue.buffering.max.messages", "queue.buffering.max.kbytes", "queue.buffering.max.ms", "linger.ms"),
        *("queue.buffering.backpressure.threshold", "queuing.strategy", "sticky.partitioning.linger.ms"),
        *("message.copy.max.bytes", "max.in.flight", "max.in.flight.requests.per.connection"),
        *("delivery.report.only.error", "produce.offset.report", "msg_order_cmp"),
    ),
    "a slot repeats what may succeed, until its own time is over": (
        *("message.send.max.retries", "retries", "retry.backoff.ms", "retry.backoff.max.ms", "message.timeout.ms"),
        *("delivery.timeout.ms", "api.version.request.timeout.ms"),
    ),
    "a batch ends at its size, and is compressed at the fastest level": ("batch.num.messages", "compression.level"),
    "transactions decide it": (
        *("transactional.id", "enable.idempotence", "enable.gapless.guarantee", "acks", "request.required.acks"),
    ),
    "a slot asks for its topics by name, when it needs them, and never makes them": (
        *("topic.metadata.refresh.interval.ms", "topic.metadata.refresh.fast.interval.ms", "topic.blacklist"),
        *("topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.sparse", "topic.metadata.propagation.max.ms"),
        *("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "allow.auto.create.topics"),
    ),
    "brokers have told their versions since Kafka 0.10": (
        *("api.version.request", "api.version.fallback.ms", "broker.version.fallback", "builtin.features"),
    ),
    "it is about librdkafka's sockets and threads": (
        *("socket.blocking.max.ms", "socket.send.buffer.bytes", "socket.receive.buffer.bytes", "socket.max.fails"),
        *("socket.keepalive.enable", "socket.nagle.disable", "broker.address.ttl", "broker.address.family"),
        *("reconnect.backoff.jitter.ms", "enable.random.seed", "internal.termination.signal", "plugin.library.paths"),
    ),
    "it is about librdkafka's logs, statistics and callbacks": (
        *("debug", "log_level", "log.queue", "log.thread.name", "log.connection.close", "statistics.interval.ms"),
        *("enabled_events", "enable.metrics.push", "error_cb", "throttle_cb", "stats_cb", "log_cb", "opaque"),
        *("background_event_cb", "socket_cb", "connect_cb", "closesocket_cb", "open_cb", "resolve_cb", "consume_cb"),
        *("rebalance_cb", "offset_commit_cb", "dr_cb", "dr_msg_cb", "partitioner_cb", "oauthbearer_token_refresh_cb"),
        *("ssl.certificate.verify_cb", "ssl_engine_callback_data", "interceptors", "default_topic_conf"),
    ),
    "`kafka.bootstrap_servers` is the address": ("bootstrap.servers", "metadata.broker.list"),
}

# Options that change who is trusted, or how: ignoring them would not be safe.
REFUSED: dict[str, tuple[str, ...]] = {
    "Python's TLS has no such choice; a PEM file has": (
        *("ssl.keystore.location", "ssl.keystore.password", "ssl.ca.certificate.stores", "ssl.providers"),
        *("ssl.engine.location", "ssl.engine.id", "ssl.curves.list", "ssl.sigalgs.list"),
        *("ssl_key", "ssl_certificate", "ssl_ca"),
    ),
    f"tasks authenticate by {', '.join(MECHANISMS)}": (
        *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.kinit.cmd"),
        *("sasl.kerberos.keytab", "sasl.kerberos.min.time.before.relogin"),
    ),
    "tasks get tokens by sasl.oauthbearer.method = oidc and client credentials": (
        *("sasl.oauthbearer.config", "enable.sasl.oauthbearer.unsecure.jwt", "sasl.oauthbearer.sub.claim.name"),
        *("sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.private.key.file"),
        *("sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem"),
        *("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.claim.aud"),
        *("sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss"),
        *("sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds"),
        *("sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.jwt.template.file"),
        "sasl.oauthbearer.metadata.authentication.type",
    ),
}

USED = (*_CONNECTION, *_ALIASES, *_HERE, *tls.NAMES, *tokens.NAMES)
KNOWN = {*USED, *(name for names in (*WITHOUT_EFFECT.values(), *REFUSED.values()) for name in names)}


@dataclass(frozen=True)
class Options:
    """What of `[kafka.client]` matters for publishing."""

    connection: Mapping[str, Any]  # of kafka-python
    metadata_max_age_s: float
    transaction_timeout_ms: int
    max_request_bytes: int  # of a Produce request, if it has more than one batch
    batch_bytes: int  # without compression, if a batch has more than one record
    compression: str
    acknowledge_ms: int  # how long a leader may wait for its replicas

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        """Raises JobError for what nobody knows, and for what cannot be obeyed."""
        given = {_ALIASES.get(name, name): str(value) for name, value in options.items()}
        for name in given:
            _check(name)
        protocol = _one_of("security.protocol", given.get("security.protocol", "plaintext").upper(), PROTOCOLS)
        _one_of("partitioner", given.get("partitioner", PARTITIONERS[0]), PARTITIONERS)
        return cls(
            connection={
                "client_id": "rdkafka",
                "request_timeout_ms": 30_000,
                "reconnect_backoff_ms": 20,
                "reconnect_backoff_max_ms": 1_000,
                "receive_message_max_bytes": 100_000_000,
                "connections_max_idle_ms": _number(given, "connections.max.idle.ms", 0) or 9 * 60_000,
                **{ours: _read(given, name, read) for name, (ours, read) in _CONNECTION.items() if name in given},
                "security_protocol": protocol,
                **_sasl(protocol, given),
                **({"ssl_context": tls.context(given)} if protocol.endswith("SSL") else {}),
            },
            metadata_max_age_s=_number(given, "metadata.max.age.ms", 300_000) / 1000,
            transaction_timeout_ms=_number(given, "transaction.timeout.ms", 60_000),
            max_request_bytes=_number(given, "message.max.bytes", 20_000_000),
            batch_bytes=_number(given, "batch.size", 1_000_000),
            compression=_one_of("compression.type", given.get("compression.type", "lz4"), CODECS),
            acknowledge_ms=_number(given, "request.timeout.ms", 30_000),
        )


def _check(name: str) -> None:
    for reason, names in REFUSED.items():
        if name in names:
            raise JobError(f"kafka.client has {name}, which tasks that publish cannot obey: {reason}")
    if name not in KNOWN:
        raise JobError(f"kafka.client has {name}, which is unknown; known: {', '.join(sorted(KNOWN))}")


def _sasl(protocol: str, options: Mapping[str, str]) -> dict[str, Any]:
    if not protocol.startswith("SASL"):
        return {}
    mechanism = _one_of("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI"), MECHANISMS)
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": tokens.provider(options)}
    for name in ("sasl.username", "sasl.password"):
        if name not in options:
            raise JobError(f"kafka.client has sasl.mechanism = {mechanism!r}, which needs {name}")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["sasl.username"],
        "sasl_plain_password": options["sasl.password"],
    }


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    return int(_read(options, name, int)) if name in options else default


def _read(options: Mapping[str, str], name: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(options[name])
    except ValueError:
        raise JobError(f"kafka.client has {name} = {options[name]!r}, which is no number") from None


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise JobError(f"kafka.client has {name} = {value!r}; tasks that publish know {', '.join(known)}")
    return value
