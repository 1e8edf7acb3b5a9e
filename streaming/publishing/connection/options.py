"""Translate librdkafka's options (`[kafka.client]`) into what slots and their connections need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streaming import secret_files
from streaming.documents.records import MAX_RECORD_BYTES
from streaming.errors import JobError
from streaming.publishing.connection import tls, tokens

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CODECS = ("none", "gzip", "lz4", "zstd")
PARTITIONERS = ("consistent_random",)

_CONNECTION: dict[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "socket.timeout.ms": ("request_timeout_ms", int),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
    "client.dns.lookup": ("client_dns_lookup", str),
}
ALIASES = {
    "sasl.mechanism": "sasl.mechanisms",
    "compression.codec": "compression.type",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

# Options that change who is trusted, or how: ignoring one would not be safe.
_TRUST = ("ssl", "enable.ssl", "sasl", "enable.sasl", "https", "security")
TRUST_NAMES = {
    "security.protocol",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    *tls.NAMES,
    *tokens.NAMES,
}
REJECTED: dict[str, tuple[str, ...]] = {
    "Python's TLS has no such option; use PEM files": (
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.ca.certificate.stores",
        "ssl.providers",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "ssl_key",
        "ssl_certificate",
        "ssl_ca",
    ),
    f"executors authenticate by {', '.join(MECHANISMS)}": (
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab",
        "sasl.kerberos.min.time.before.relogin",
    ),
    "executors get tokens by sasl.oauthbearer.method = oidc and client credentials": (
        "sasl.oauthbearer.config",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.metadata.authentication.type",
    ),
}


@dataclass(frozen=True)
class Options:
    """The options of `[kafka.client]` that publishing and reading need."""

    connection: Mapping[str, Any]  # of kafka-python
    metadata_max_age_s: float
    transaction_timeout_ms: int | None  # None: that of each slot
    max_request_bytes: int  # of a Produce request, if it has more than one batch
    batch_bytes: int  # without compression, if a batch has more than one record
    compression: str
    acknowledge_ms: int  # how long a leader may wait for its replicas
    rack: str  # brokers name a replica there, if they have one; "" if none

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Options:
        """Take the options that slots need; librdkafka rejects unknown names. Raises JobError for an option that cannot
        be obeyed, or whose file cannot be read."""
        named = {ALIASES.get(name, name): str(value) for name, value in options.items()}
        for name in named:
            _check(name)
        given = secret_files.read("kafka.client", named)
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
                **_sasl(protocol, named),
                **({"ssl_context": tls.context(given)} if protocol.endswith("SSL") else {}),
            },
            metadata_max_age_s=_number(given, "metadata.max.age.ms", 300_000) / 1000,
            transaction_timeout_ms=_number(given, "transaction.timeout.ms", 0) or None,
            max_request_bytes=_number(given, "message.max.bytes", MAX_RECORD_BYTES),
            batch_bytes=_number(given, "batch.size", 1_000_000),
            compression=_one_of("compression.type", given.get("compression.type", "lz4"), CODECS),
            acknowledge_ms=_number(given, "request.timeout.ms", 30_000),
            rack=given.get("client.rack", ""),
        )


def _check(name: str) -> None:
    for reason, names in REJECTED.items():
        if name in names:
            raise JobError(f"kafka.client option {name} is not supported on executors (kafka-python): {reason}")
    if name.startswith(_TRUST) and name not in TRUST_NAMES:
        raise JobError(f"unknown option {name} in kafka.client; known: {', '.join(sorted(TRUST_NAMES))}")


def _sasl(protocol: str, options: Mapping[str, str]) -> dict[str, Any]:
    if not protocol.startswith("SASL"):
        return {}
    mechanism = _one_of("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI"), MECHANISMS)
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": tokens.provider(options)}
    for name in ("sasl.username", "sasl.password"):
        if name not in options:
            raise JobError(f"kafka.client has sasl.mechanism = {mechanism!r}, which needs {name}")
    login = secret_files.read("kafka.client", options)
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": login["sasl.username"],
        "sasl_plain_password": login["sasl.password"],
    }


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    return int(_read(options, name, int)) if name in options else default


def _read(options: Mapping[str, str], name: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(options[name])
    except ValueError:
        raise JobError(f"kafka.client has {name} = {options[name]!r}, which is not a number") from None


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise JobError(f"kafka.client has {name} = {value!r}; executors support {', '.join(known)}")
    return value
