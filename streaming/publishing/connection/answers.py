"""The table of errors: how a transaction reacts to each answer of the broker."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from kafka import errors

from streaming.errors import Forbidden, JobError, Unsettled

# Answers that a client gives itself, or looks for.
NO_ANSWER: int = errors.NetworkExceptionError.errno
NO_LEADER: int = errors.LeaderNotAvailableError.errno
NO_PARTITION: int = errors.UnknownTopicOrPartitionError.errno
NO_TRANSACTION: int = errors.InvalidTxnStateError.errno
# A record batch exceeds the limit of its topic.
TOO_LARGE: frozenset[int] = frozenset((errors.MessageSizeTooLargeError.errno, errors.RecordListTooLargeError.errno))


class Reaction(IntEnum):
    """A reaction to an answer. If a request has several answers, the greatest reaction counts."""

    DONE = 0
    AGAIN = 1  # the same request after a short pause
    LOOK_UP = 2  # look up the coordinator, then the same request
    REFRESH = 3  # look up the leaders, then the same bytes: the sequence of their records deduplicates
    GONE = 4  # as REFRESH; but if it lasts, the topic does not exist
    REJECTED = 5  # abort, and name the topic: it never takes these records
    ABORT = 6  # abort; the next transaction may succeed
    FORBIDDEN = 7  # a right is missing, or a topic that the job itself needs
    FAILED = 8  # a setting is wrong, or this program
    UNSETTLED = 9  # the producer was fenced, or its transaction timed out


class BrokerError(NamedTuple):
    """An error in a broker's answer, about one topic (or "" if about none)."""

    topic: str
    code: int
    message: str | None = None

    @property
    def name(self) -> str:
        """Kafka's name of the error, such as CONCURRENT_TRANSACTIONS."""
        known = errors.kafka_errors.get(self.code)
        return f"ERROR_{self.code}" if known is None else str(known.message)

    def __str__(self) -> str:
        """`message size too large: what the broker adds`."""
        text = self.name.lower().replace("_", " ")
        return f"{text}: {self.message}" if self.message else text


_REACTIONS: dict[int, Reaction] = {
    error.errno: reaction
    for reaction, kinds in {
        Reaction.AGAIN: (
            errors.ConcurrentTransactionsError,  # often with a replication factor of 3
            errors.CoordinatorLoadInProgressError,
            errors.UnstableOffsetCommitError,  # a transaction of the group is open: its end is near
            errors.ThrottlingQuotaExceededError,
            errors.OperationNotAttemptedError,  # since the same request had another partition with an error
            errors.RequestTimedOutError,
        ),
        Reaction.LOOK_UP: (errors.NotCoordinatorError, errors.CoordinatorNotAvailableError),
        Reaction.REFRESH: (
            errors.NotLeaderForPartitionError,
            errors.LeaderNotAvailableError,
            errors.BrokerNotAvailableError,
            errors.ReplicaNotAvailableError,
            errors.FencedLeaderEpochError,
            errors.UnknownLeaderEpochError,
            errors.NetworkExceptionError,
            errors.NotEnoughReplicasError,
            errors.NotEnoughReplicasAfterAppendError,
            errors.KafkaStorageError,
            errors.NotControllerError,
            errors.OffsetNotAvailableError,
        ),
        Reaction.GONE: (errors.UnknownTopicOrPartitionError,),
        Reaction.REJECTED: (
            errors.TopicAuthorizationFailedError,
            errors.MessageSizeTooLargeError,
            errors.RecordListTooLargeError,
            errors.InvalidRecordError,
            errors.InvalidTimestampError,
            errors.InvalidTopicError,
            errors.PolicyViolationError,
        ),
        Reaction.ABORT: (
            errors.TransactionAbortableError,
            errors.UnknownError,
            errors.OutOfOrderSequenceNumberError,  # a topic was created again, without the first records
            errors.UnknownProducerIdError,
        ),
        Reaction.FORBIDDEN: (
            errors.GroupAuthorizationFailedError,
            errors.ClusterAuthorizationFailedError,
            errors.TransactionalIdAuthorizationFailedError,
        ),
        Reaction.UNSETTLED: (
            errors.InvalidProducerEpochError,
            errors.ProducerFencedError,
            errors.InvalidTxnStateError,  # no transaction is open: a fence or the timeout ended it
            errors.InvalidProducerIdMappingError,  # the slot was not used for so long that its id expired
        ),
    }.items()
    for error in kinds
}

# An exception within the broker. These requests may be repeated, whether they had an effect or not.
_REPEATED = {errors.UnknownError.errno: Reaction.LOOK_UP}

# Where a request differs.
_OF_REQUEST: dict[str, dict[int, Reaction]] = {
    # A duplicate: the broker has these records, as it answered before, and the answer was lost.
    "Produce": {
        errors.DuplicateSequenceNumberError.errno: Reaction.DONE,
        errors.CorruptRecordError.errno: Reaction.REFRESH,  # on the way: the same bytes may arrive next time
    },
    # These are topics of the job, not of subscribers.
    "TxnOffsetCommit": {errors.TopicAuthorizationFailedError.errno: Reaction.FORBIDDEN},
    "OffsetFetch": {
        **_REPEATED,
        errors.TopicAuthorizationFailedError.errno: Reaction.FORBIDDEN,
        errors.UnknownTopicOrPartitionError.errno: Reaction.DONE,  # then it has no committed offset
    },
    "Fetch": {
        errors.TopicAuthorizationFailedError.errno: Reaction.FORBIDDEN,
        errors.UnknownError.errno: Reaction.REFRESH,
    },
    "ListOffsets": {
        errors.TopicAuthorizationFailedError.errno: Reaction.FORBIDDEN,
        errors.UnknownError.errno: Reaction.REFRESH,
    },
    # Before this request nobody has an epoch that could be too old.
    "InitProducerId": {**_REPEATED, errors.InvalidTxnStateError.errno: Reaction.FAILED},
    "EndTxn": _REPEATED,
    "FindCoordinator": _REPEATED,
    "AddPartitionsToTxn": {errors.InvalidTxnStateError.errno: Reaction.UNSETTLED},
}


def reaction_to(request: str, answer: BrokerError) -> Reaction:
    """Return the reaction to this answer to a request of that name."""
    reaction = _OF_REQUEST.get(request, {}).get(answer.code)
    return reaction if reaction is not None else _REACTIONS.get(answer.code, Reaction.FAILED)


def worst(request: str, answers: Iterable[BrokerError]) -> Reaction:
    return max((reaction_to(request, answer) for answer in answers), default=Reaction.DONE)


def error_of(request: str, of: str, answer: BrokerError) -> JobError:
    """The error to raise for an answer that ends the work of a slot. `of` is the slot or the group."""
    about = f"{answer.topic}: " if answer.topic else ""
    reaction = reaction_to(request, answer)
    if reaction is Reaction.UNSETTLED:
        return Unsettled(f"{of} was fenced, or its transaction took longer than its timeout ({request}: {answer})")
    if reaction in (Reaction.FORBIDDEN, Reaction.REJECTED):
        return Forbidden(
            f"{of} cannot be used: {about}{answer} ({request}); SECURITY.md lists the permissions that are needed"
        )
    if request == "InitProducerId" and answer.code == errors.InvalidTransactionTimeoutError.errno:
        return JobError("kafka.client has a transaction.timeout.ms beyond the broker's transaction.max.timeout.ms")
    return JobError(f"Kafka rejected {request} of {of}: {about}{answer}")
