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
_PASSING = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._UNKNOWN_PARTITION,  # a broker that comes back lacks its partitions for a moment
    # What Kafka's own clients try again. librdkafka calls an error retriable in its transactional methods only.
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_CONTROLLER,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
)


def translate(error: KafkaError, what: str) -> JobError:
    """The error to raise when `what` failed."""
    if error.code() in _FORBIDDEN:
        return Forbidden(f"{what}: {error.str()}; SECURITY.md lists the permissions that are needed")
    if error.code() in _NOT_KNOWN:
        return Unauthenticated(f"{what}: {error.str()}")
    return (BrokerUnreachable if is_passing(error) else JobError)(f"{what}: {error.str()}")


def is_passing(error: KafkaError) -> bool:
    """Whether the same request may succeed later: the broker is away or busy, or a partition changes its leader."""
    return bool(error.retriable()) or error.code() in _PASSING


def is_without_group(error: KafkaError) -> bool:
    """Whether the error is a missing right on a group. librdkafka needs a group.id even to read assigned partitions,
    and looks it up; being rejected there does not prevent reading."""
    return error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


class AuthErrorListener:
    """Collects librdkafka's connection errors, since its calls only report that they failed."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """The `error_cb` of a client."""
        if error.code() in _NOT_KNOWN:
            self._error = error

    def forget(self) -> None:
        self._error = None

    def check(self, address: str) -> None:
        """Raises Unauthenticated if authentication failed: another try would not help."""
        if self._error is not None:
            raise translate(
                self._error, f"authentication or TLS with the broker at {address} failed (settings in kafka.client)"
            )
