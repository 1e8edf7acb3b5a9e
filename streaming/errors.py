"""What stops the job, said so that a person knows what to do."""

from __future__ import annotations


class JobError(Exception):
    """The job cannot start or go on. `retry` tells whether the same may work later without a change."""

    retry = False


class BrokerUnreachable(JobError):
    retry = True


class Fenced(JobError):
    """Another job with the same query name has taken over."""


class CheckpointInUse(JobError):
    """Another process works in the checkpoint directory, or it belongs to another query."""


class TopicMissing(JobError):
    """A topic that the job itself needs does not exist."""
