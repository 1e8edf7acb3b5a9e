"""Translate Kafka's errors into what the user can do: wait, correct the credentials, or grant a right."""

from __future__ import annotations

from confluent_kafka import KafkaError

from streaming.errors import BrokerUnreachable, Forbidden, JobError, Unauthenticated

_NOT_KNOWN = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_GONE = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


def translate(error: KafkaError, what: str) -> JobError:
    """The error to raise when `what` failed."""
    if error.code() in _FORBIDDEN:
        return Forbidden(f"{what}: {error.str()}; SECURITY.md lists the rights that are needed")
    if error.code() in _NOT_KNOWN:
        return Unauthenticated(f"{what}: {error.str()}")
    gone = error.retriable() or error.code() in _GONE
    return (BrokerUnreachable if gone else JobError)(f"{what}: {error.str()}")


def is_without_group(error: KafkaError) -> bool:
    """Whether the error is a missing right on a group. librdkafka needs a group.id even to read assigned partitions,
    and looks it up; being refused there does not prevent reading."""
    return error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


class AuthErrorListener:
    """Collects librdkafka's connection errors, since its calls only say that they failed."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """The `error_cb` of a client."""
        if error.code() in _NOT_KNOWN:
            self._error = error

    def check(self, address: str) -> None:
        """Raises Unauthenticated if authentication failed: another try would not help."""
        if self._error is not None:
            raise translate(
                self._error, f"the broker at {address} and this client do not trust each other (kafka.client)"
            )
