"""Options of librdkafka as slots understand them."""

from __future__ import annotations

import ctypes
import ssl
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import pytest

from streaming.errors import JobError
from streaming.kafka.topics import Topics
from streaming.publishing.connection.options import ALIASES, CODECS, TRUST_NAMES, Options
from streaming.publishing.connection.tokens import ClientCredentials
from streaming.publishing.encode.compression import CODECS as ENCODED

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "job", "sasl.password": "hunter2"}
OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "job",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
}


def test_without_options() -> None:
    options = Options.of({})
    assert options.connection["security_protocol"] == "PLAINTEXT"
    assert (options.transaction_timeout_ms, options.compression) == (None, "lz4")


@pytest.mark.parametrize(
    ("name", "value", "there", "expected"),
    [
        ("client.id", "me", "client_id", "me"),
        ("socket.timeout.ms", "5000", "request_timeout_ms", 5_000),
        ("reconnect.backoff.ms", "7", "reconnect_backoff_ms", 7),
        ("reconnect.backoff.max.ms", "70", "reconnect_backoff_max_ms", 70),
        ("connections.max.idle.ms", "60000", "connections_max_idle_ms", 60_000),
        ("security.protocol", "plaintext", "security_protocol", "PLAINTEXT"),
    ],
)
def test_options_of_connections(name: str, value: str, there: str, expected: object) -> None:
    assert Options.of({name: value}).connection[there] == expected


@pytest.mark.parametrize(
    ("name", "value", "there", "expected"),
    [
        ("metadata.max.age.ms", "5000", "metadata_max_age_s", 5.0),
        ("transaction.timeout.ms", "7000", "transaction_timeout_ms", 7_000),
        ("message.max.bytes", "5000", "max_request_bytes", 5_000),
        ("batch.size", "5000", "batch_bytes", 5_000),
        ("compression.type", "zstd", "compression", "zstd"),
        ("compression.codec", "none", "compression", "none"),
        ("request.timeout.ms", "5000", "acknowledge_ms", 5_000),
    ],
)
def test_options_of_transactions(name: str, value: str, there: str, expected: object) -> None:
    assert getattr(Options.of({name: value}), there) == expected


@pytest.mark.parametrize("mechanism", ["sasl.mechanism", "sasl.mechanisms"])
def test_passwords(mechanism: str) -> None:
    connection = Options.of({**SASL, mechanism: "SCRAM-SHA-512"}).connection
    assert connection["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (connection["sasl_plain_username"], connection["sasl_plain_password"]) == ("job", "hunter2")


def test_a_password_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    options = {**SASL, "sasl.mechanism": "PLAIN", "sasl.password": f"${{file:{tmp_path}/password}}"}
    assert Options.of(options).connection["sasl_plain_password"] == "hunter2"
    (tmp_path / "password").unlink()
    with pytest.raises(JobError, match=r"kafka\.client\.sasl\.password: the file .*/password cannot be read"):
        Options.of(options)


def test_tokens() -> None:
    provider = Options.of({**OIDC, "sasl.oauthbearer.extensions": "a=1,b=2"}).connection["sasl_oauth_token_provider"]
    assert isinstance(provider, ClientCredentials)
    assert provider.extensions() == {"a": "1", "b": "2"}


def test_tls() -> None:
    context = Options.of({"security.protocol": "ssl"}).connection["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    lax = {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    context = Options.of(lax).connection["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    context = Options.of({**lax, "enable.ssl.certificate.verification": "false"}).connection["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl.keylocation": "/key.pem"}, "unknown option ssl.keylocation in kafka.client; known: .*ssl.key.location"),
        ({"socket.timeout.ms": "soon"}, "socket.timeout.ms = 'soon', which is not a number"),
        ({"compression.type": "snappy"}, "compression.type = 'snappy'.*none, gzip, lz4, zstd"),
        ({"partitioner": "murmur2"}, "partitioner = 'murmur2'.*consistent_random"),
        ({"security.protocol": "tls"}, "security.protocol = 'TLS'.*SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism = 'GSSAPI'.*SCRAM-SHA-512"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "needs sasl.username"),
        ({"ssl.keystore.location": "/keys.p12"}, "ssl.keystore.location.*PEM"),
        ({"sasl.kerberos.keytab": "/keytab"}, "sasl.kerberos.keytab.*PLAIN"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"}, "No such file.*ssl.ca.location"),
        ({"security.protocol": "ssl", "ssl.ca.pem": "nonsense"}, "ssl.ca.pem"),
        ({"security.protocol": "ssl", "ssl.key.location": "/key.pem"}, "a certificate needs its key"),
        ({**OIDC, "sasl.oauthbearer.method": "default"}, "needs sasl.oauthbearer.method = oidc"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "client_credentials"),
        ({k: v for k, v in OIDC.items() if "secret" not in k}, "needs sasl.oauthbearer.client.secret"),
    ],
)
def test_what_cannot_be_obeyed_is_rejected(options: dict[str, str], message: str) -> None:
    with pytest.raises(JobError, match=message) as rejected:
        Options.of(options)
    assert "hunter2" not in str(rejected.value)


def test_compression_is_what_the_encoder_can() -> None:
    assert {*CODECS} == {*ENCODED}


def test_a_name_that_librdkafka_does_not_know_is_rejected() -> None:
    with pytest.raises(JobError, match=r"kafka.client cannot be used: .*acsk"):
        Topics("127.0.0.1:1", {"acsk": "all"})


def test_no_option_about_trust_is_ignored(tmp_path: Path) -> None:
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    librdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(tmp_path / "options").encode(), b"w"))
    librdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    lines = (tmp_path / "options").read_text().splitlines()
    names = {line.split("|")[0].strip() for line in lines if "|" in line} - {"Property"}
    names = {name for name in names if name.strip("-")}
    assert len(names) > 150
    ignored = set()
    for name in names - TRUST_NAMES - ALIASES.keys():
        with suppress(JobError):
            Options.of({name: "1"})
            ignored.add(name)
    words = ("ssl", "sasl", "secur", "https", "oauth")
    assert {name for name in ignored if any(word in name for word in words)} == {"oauthbearer_token_refresh_cb"}
    assert {"group.id", "linger.ms", "acks"} <= ignored
