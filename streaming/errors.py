"""Errors that stop the job or a client, with the reason and the remedy. * is `retry`: a later try may succeed.

JobError
+-- BrokerUnreachable *
+-- Unauthenticated
+-- Forbidden
+-- Fenced
+-- Unsettled *
|   +-- ExecutorLost *
+-- ClaimFailed *
+-- CheckpointInUse
+-- TopicMissing
+-- Unreadable
+-- OffsetsBeyondEnd
+-- TopicReplaced *
+-- TopicDeleted *
+-- StorageFailed *
+-- NotRunning *
+-- SparkFailed *
+-- ProcessLost *
+-- RegistryUnreachable *
+-- Aborted *              publishing/contract.py: a transaction
+-- Unanswered *           admin/change_acks.py
+-- ChangeRejected          admin/change_acks.py
+-- NoSubscription         admin/pause.py
+-- NotJoined              admin/start_position.py
+-- DeliveryRejected       admin/replay.py
+-- GroupChanged *         client/deliveries.py
"""

from __future__ import annotations

import re


class JobError(Exception):
    """A job, a command or a client cannot continue. The text states the reason and the remedy. `retry` is True if
    another attempt may succeed without a change."""

    retry = False


class BrokerUnreachable(JobError):
    retry = True


class Unauthenticated(JobError):
    """The user, password or certificate is wrong, the broker's or ours."""


class Forbidden(JobError):
    """The user lacks a permission."""


class Fenced(JobError):
    """Another job with the same query name has taken over."""


class Unsettled(JobError):
    """A task could not commit its transaction, or its outcome is unknown: another producer fenced it, it took
    too long, or it was aborted several times. The driver fences all slots and fetches the committed offsets."""

    retry = True


class ExecutorLost(Unsettled):
    """Spark ran a task again, since the executor of its first attempt was lost, or was silent for too long."""


class ClaimFailed(JobError):
    """The job was fenced, and no other job has claimed the committed offsets. Before it had claimed them: an older job
    of its name still ran, or the broker ended its transaction. Later: they are not the offsets that it committed."""

    retry = True


class CheckpointInUse(JobError):
    """Another process works in the checkpoint directory, or it belongs to another query."""


class TopicMissing(JobError):
    """A topic that the job itself needs does not exist."""


class Unreadable(JobError):
    """A record batch of a topic is corrupted, so no client can read it."""


class OffsetsBeyondEnd(JobError):
    """The committed offsets do not fit the topic: it was deleted and created again, or has lost records."""


class TopicReplaced(JobError):
    """A topic was deleted and created again while the job ran. The broker deleted its committed offsets too, so the
    next start reads the new topic from its first record."""

    retry = True


class TopicDeleted(JobError):
    """A topic that a pattern matched was deleted while the job ran. The next start goes on without it."""

    retry = True


class StorageFailed(JobError):
    """A disk is full, or a directory is gone."""

    retry = True


class NotRunning(JobError):
    """No job answers at the address."""

    retry = True


class SparkFailed(JobError):
    """Spark itself failed: its JVM ended, a source or the checkpoint failed."""

    retry = True


class ProcessLost(JobError):
    """A background process of the driver was killed."""

    retry = True


class RegistryUnreachable(JobError):
    """The schema registry does not answer. The events that need it are valid, so they wait."""

    retry = True


def of_worker(trace: str) -> JobError | None:
    """The JobError that a worker raised, if any. Spark passes on only the traceback's text, so parse that."""
    for name, text in re.findall(rf"^{re.escape(__name__)}\.(\w+): (.+)$", trace, re.MULTILINE):
        error = globals().get(name)
        if isinstance(error, type) and issubclass(error, JobError):
            return error(text)
    return None
