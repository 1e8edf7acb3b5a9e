"""Written changes, and the job's answers to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streaming.admin import change_acks
from streaming.admin.change_acks import ChangeAck, ChangeRejected
from streaming.errors import JobError

if TYPE_CHECKING:
    from streaming.admin.change_acks import PendingChanges, Starts
    from streaming.kafka.clients import Cluster

TIMEOUT_S = 60.0


class WrittenChanges:
    """Changes written to the subscriptions topic. A running job answers them with its next batch.

    `count` is the number of written changes. `unchanged` has the ids of subscriptions that needed no change.
    """

    def __init__(
        self,
        cluster: Cluster,
        starts: Starts | JobError,
        pending: PendingChanges,
        count: int,
    ) -> None:
        self.count = count
        self.unchanged: tuple[str, ...] = ()
        self._cluster, self._starts, self._pending = cluster, starts, pending
        self._came: list[ChangeAck] = []

    def wait(self, timeout_s: float = TIMEOUT_S) -> list[ChangeAck]:
        """Wait until the job has answered every change. Each subscription is then in force, paused or
        unsubscribed, and every event published from now on is matched accordingly.

        Returns the answers in the order of their arrival. Raises `ChangeRejected` with the reasons if the job rejected
        a change, and `Unanswered` after `timeout_s`. The changes stay written, and `wait` may be called again.
        """
        acks = list(self.acks(timeout_s))
        if rejected := {ack.id: ack.reason for ack in acks if ack.rejected}:
            raise ChangeRejected(rejected)
        return acks

    def acks(self, timeout_s: float = TIMEOUT_S) -> Iterator[ChangeAck]:
        """Yield each answer as it arrives, rejections included, until every change is answered. Raises `Unanswered`."""
        yield from self._came
        if len(self._came) == self.count:
            return
        if isinstance(self._starts, JobError):
            raise self._starts
        for ack in change_acks.answers(self._cluster, self._starts, self._pending, timeout_s):
            self._came.append(ack)
            yield ack
