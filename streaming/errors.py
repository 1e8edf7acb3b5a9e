"""What stops the job, said so that a person knows what to do."""

from __future__ import annotations

import re


class JobError(Exception):
    """The job cannot start or go on. `retry` tells whether the same may work later without a change."""

    retry = False


class BrokerUnreachable(JobError):
    retry = True


class Unauthenticated(JobError):
    """Wrong user, password or certificate, the broker's or ours."""


class Forbidden(JobError):
    """The broker knows the user, who lacks a right."""


class Fenced(JobError):
    """Another job with the same query name has taken over."""


class CheckpointInUse(JobError):
    """Another process works in the checkpoint directory, or it belongs to another query."""


class TopicMissing(JobError):
    """A topic that the job itself needs does not exist."""


class StorageFailed(JobError):
    """A disk is full, or a directory is gone."""

    retry = True


class NotRunning(JobError):
    """Where a job was asked what it does, none answers."""

    retry = True


class SparkFailed(JobError):
    """Spark itself cannot go on: its JVM ended, a source or the checkpoint failed."""

    retry = True


class ProcessLost(JobError):
    """A process beside the driver was killed."""

    retry = True


class RegistryUnreachable(JobError):
    """The schema registry does not answer. The events it is needed for are good: they wait."""

    retry = True


def of_worker(trace: str) -> JobError | None:
    """The JobError that a worker raised, if it did. Of its exceptions Spark brings only the traceback's text."""
    for name, text in re.findall(rf"^{re.escape(__name__)}\.(\w+): (.+)$", trace, re.MULTILINE):
        error = globals().get(name)
        if isinstance(error, type) and issubclass(error, JobError):
            return error(text)
    return None
