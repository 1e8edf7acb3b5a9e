"""The table of errors."""

from __future__ import annotations

import pytest
from kafka import errors

from streaming.errors import Forbidden, JobError, Unsettled
from streaming.publishing.connection.answers import Act, Answer, act_on, error_of, worst
from streaming.publishing.connection.client import Attempt
from tests.unit.test_kafka_errors import RETRIABLE


@pytest.mark.parametrize(
    ("request_name", "error", "act"),
    [
        ("EndTxn", errors.ConcurrentTransactionsError, Act.AGAIN),
        ("InitProducerId", errors.CoordinatorLoadInProgressError, Act.AGAIN),
        ("OffsetFetch", errors.UnstableOffsetCommitError, Act.AGAIN),
        ("EndTxn", errors.NotCoordinatorError, Act.LOOK_UP),
        ("TxnOffsetCommit", errors.CoordinatorNotAvailableError, Act.LOOK_UP),
        ("Produce", errors.NotLeaderForPartitionError, Act.REFRESH),
        ("Produce", errors.NotEnoughReplicasError, Act.REFRESH),
        ("Produce", errors.UnknownTopicOrPartitionError, Act.GONE),
        ("OffsetFetch", errors.UnknownTopicOrPartitionError, Act.DONE),
        ("Produce", errors.DuplicateSequenceNumberError, Act.DONE),
        ("Produce", errors.TopicAuthorizationFailedError, Act.REFUSED),
        ("Produce", errors.MessageSizeTooLargeError, Act.REFUSED),
        ("Produce", errors.InvalidRecordError, Act.REFUSED),
        ("Produce", errors.PolicyViolationError, Act.REFUSED),
        ("TxnOffsetCommit", errors.TopicAuthorizationFailedError, Act.FORBIDDEN),
        ("TxnOffsetCommit", errors.GroupAuthorizationFailedError, Act.FORBIDDEN),
        ("InitProducerId", errors.TransactionalIdAuthorizationFailedError, Act.FORBIDDEN),
        ("Produce", errors.TransactionAbortableError, Act.ABORT),
        ("Produce", errors.OutOfOrderSequenceNumberError, Act.ABORT),
        ("Produce", errors.InvalidProducerEpochError, Act.UNSETTLED),
        ("EndTxn", errors.ProducerFencedError, Act.UNSETTLED),
        ("EndTxn", errors.InvalidTxnStateError, Act.UNSETTLED),
        ("EndTxn", errors.InvalidProducerIdMappingError, Act.UNSETTLED),
        ("Produce", errors.CorruptRecordError, Act.FAILED),
    ],
)
def test_what_to_do(request_name: str, error: type[errors.BrokerResponseError], act: Act) -> None:
    assert act_on(request_name, Answer("t", error.errno)) is act


@pytest.mark.parametrize("code", RETRIABLE)
def test_what_kafka_calls_retriable_is_tried_again(code: int) -> None:
    assert Act.DONE < act_on("Produce", Answer("t", code)) <= Act.GONE


def test_an_answer_that_nobody_knows_stops_the_slot() -> None:
    assert act_on("Produce", Answer("t", 9_999)) is Act.FAILED


def test_the_worst_of_many_answers_counts() -> None:
    kinds = (errors.NotCoordinatorError, errors.InvalidProducerEpochError, errors.GroupAuthorizationFailedError)
    assert worst("EndTxn", [Answer("", kind.errno) for kind in kinds]) is Act.UNSETTLED
    assert worst("EndTxn", []) is Act.DONE


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errors.ProducerFencedError, Unsettled, "q-0 was fenced.*EndTxn: producer fenced"),
        (errors.GroupAuthorizationFailedError, Forbidden, "q-0 cannot be used: group authorization failed"),
        (errors.InvalidTransactionTimeoutError, JobError, "transaction.max.timeout.ms"),
        (errors.InvalidRequestError, JobError, "Kafka refused EndTxn of q-0: invalid request: why"),
    ],
)
def test_errors_say_what_was_asked(error: type[errors.BrokerResponseError], kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        raise error_of("EndTxn", "q-0", Answer("", error.errno, "why"))


def test_a_request_with_many_partitions_counts_once_for_each_of_its_errors() -> None:
    attempt = Attempt(until=0.0)
    busy = [Answer(f"to.{n}", errors.ConcurrentTransactionsError.errno) for n in range(500)]
    moved = [Answer("to.x", errors.NotLeaderForPartitionError.errno)]
    attempt.rejected("Produce", busy)
    attempt.rejected("Produce", [*busy, *moved])
    attempt.rejected("Produce", [])
    assert attempt.errors == {"Produce CONCURRENT_TRANSACTIONS": 2, "Produce NOT_LEADER_FOR_PARTITION": 1}
