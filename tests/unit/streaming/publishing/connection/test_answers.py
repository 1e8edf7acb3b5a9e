"""The table of errors."""

from __future__ import annotations

import pytest
from kafka import errors

from streaming.errors import Forbidden, JobError, Unsettled
from streaming.publishing.connection.answers import BrokerError, Reaction, error_of, reaction_to, worst
from streaming.publishing.connection.client import Attempt
from tests.unit.streaming.kafka.test_errors import RETRIABLE


@pytest.mark.parametrize(
    ("request_name", "error", "reaction"),
    [
        ("EndTxn", errors.ConcurrentTransactionsError, Reaction.AGAIN),
        ("InitProducerId", errors.CoordinatorLoadInProgressError, Reaction.AGAIN),
        ("OffsetFetch", errors.UnstableOffsetCommitError, Reaction.AGAIN),
        ("EndTxn", errors.NotCoordinatorError, Reaction.LOOK_UP),
        ("TxnOffsetCommit", errors.CoordinatorNotAvailableError, Reaction.LOOK_UP),
        ("Produce", errors.NotLeaderForPartitionError, Reaction.REFRESH),
        ("Produce", errors.NotEnoughReplicasError, Reaction.REFRESH),
        ("Produce", errors.UnknownTopicOrPartitionError, Reaction.GONE),
        ("OffsetFetch", errors.UnknownTopicOrPartitionError, Reaction.DONE),
        ("Produce", errors.DuplicateSequenceNumberError, Reaction.DONE),
        ("Produce", errors.TopicAuthorizationFailedError, Reaction.REJECTED),
        ("Produce", errors.MessageSizeTooLargeError, Reaction.REJECTED),
        ("Produce", errors.InvalidRecordError, Reaction.REJECTED),
        ("Produce", errors.PolicyViolationError, Reaction.REJECTED),
        ("TxnOffsetCommit", errors.TopicAuthorizationFailedError, Reaction.FORBIDDEN),
        ("TxnOffsetCommit", errors.GroupAuthorizationFailedError, Reaction.FORBIDDEN),
        ("InitProducerId", errors.TransactionalIdAuthorizationFailedError, Reaction.FORBIDDEN),
        ("Produce", errors.TransactionAbortableError, Reaction.ABORT),
        ("Produce", errors.OutOfOrderSequenceNumberError, Reaction.ABORT),
        ("Produce", errors.InvalidProducerEpochError, Reaction.UNSETTLED),
        ("EndTxn", errors.ProducerFencedError, Reaction.UNSETTLED),
        ("EndTxn", errors.InvalidTxnStateError, Reaction.UNSETTLED),
        ("EndTxn", errors.InvalidProducerIdMappingError, Reaction.UNSETTLED),
        ("Produce", errors.CorruptRecordError, Reaction.REFRESH),
        ("InitProducerId", errors.UnknownError, Reaction.LOOK_UP),
        ("EndTxn", errors.UnknownError, Reaction.LOOK_UP),
        ("OffsetFetch", errors.UnknownError, Reaction.LOOK_UP),
        ("FindCoordinator", errors.UnknownError, Reaction.LOOK_UP),
        ("TxnOffsetCommit", errors.UnknownError, Reaction.ABORT),
        ("Fetch", errors.UnknownError, Reaction.REFRESH),
    ],
)
def test_what_to_do(request_name: str, error: type[errors.BrokerResponseError], reaction: Reaction) -> None:
    assert reaction_to(request_name, BrokerError("t", error.errno)) is reaction


@pytest.mark.parametrize("code", RETRIABLE)
def test_what_kafka_calls_retriable_is_tried_again(code: int) -> None:
    assert Reaction.DONE < reaction_to("Produce", BrokerError("t", code)) <= Reaction.GONE


def test_an_answer_that_nobody_knows_stops_the_slot() -> None:
    assert reaction_to("Produce", BrokerError("t", 9_999)) is Reaction.FAILED


def test_the_worst_of_many_answers_counts() -> None:
    kinds = (errors.NotCoordinatorError, errors.InvalidProducerEpochError, errors.GroupAuthorizationFailedError)
    assert worst("EndTxn", [BrokerError("", kind.errno) for kind in kinds]) is Reaction.UNSETTLED
    assert worst("EndTxn", []) is Reaction.DONE


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errors.ProducerFencedError, Unsettled, "q-0 was fenced.*EndTxn: producer fenced"),
        (errors.GroupAuthorizationFailedError, Forbidden, "q-0 cannot be used: group authorization failed"),
        (errors.InvalidTransactionTimeoutError, JobError, "Kafka rejected EndTxn of q-0: invalid transaction timeout"),
        (errors.InvalidRequestError, JobError, "Kafka rejected EndTxn of q-0: invalid request: why"),
    ],
)
def test_errors_say_what_was_asked(error: type[errors.BrokerResponseError], kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        raise error_of("EndTxn", "q-0", BrokerError("", error.errno, "why"))


def test_a_timeout_that_the_broker_does_not_take_is_named_as_a_setting() -> None:
    answer = BrokerError("", errors.InvalidTransactionTimeoutError.errno)
    assert "transaction.max.timeout.ms" in str(error_of("InitProducerId", "q-0", answer))


def test_a_request_with_many_partitions_counts_once_for_each_of_its_errors() -> None:
    attempt = Attempt(until=0.0)
    busy = [BrokerError(f"to.{n}", errors.ConcurrentTransactionsError.errno) for n in range(500)]
    moved = [BrokerError("to.x", errors.NotLeaderForPartitionError.errno)]
    attempt.rejected("Produce", busy)
    attempt.rejected("Produce", [*busy, *moved])
    attempt.rejected("Produce", [])
    assert attempt.errors == {"Produce CONCURRENT_TRANSACTIONS": 2, "Produce NOT_LEADER_FOR_PARTITION": 1}
