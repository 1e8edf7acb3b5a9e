"""Kafka's errors mean for the job whether a retry may succeed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from streaming.errors import BrokerUnreachable, Forbidden, JobError, Unauthenticated
from streaming.kafka.errors import is_passing, translate

# By Kafka's table of error codes, those whose requests clients repeat.
RETRIABLE = (3, 5, 6, 7, 13, 14, 15, 16, 19, 20, 41, 56, 74, 75, 78)


BUSY = [KafkaError._WAIT_COORD, KafkaError._MSG_TIMED_OUT]  # a commit and a record that waited for a broker


@pytest.mark.parametrize(
    "code", [*RETRIABLE, KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION, *BUSY]
)
def test_the_errors_that_kafka_calls_retriable_pass(code: int) -> None:
    error = KafkaError(code)
    assert is_passing(error)
    assert type(translate(error, "it failed")) is BrokerUnreachable


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Forbidden),
        (KafkaError.SASL_AUTHENTICATION_FAILED, Unauthenticated),
        (KafkaError.TOPIC_EXCEPTION, JobError),
        (KafkaError.POLICY_VIOLATION, JobError),
        (KafkaError.INVALID_REPLICATION_FACTOR, JobError),
    ],
)
def test_others_need_a_change(code: int, kind: type[JobError]) -> None:
    error = KafkaError(code)
    assert not is_passing(error)
    assert type(translate(error, "it failed")) is kind
    assert not translate(error, "it failed").retry
