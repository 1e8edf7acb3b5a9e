"""The number of tasks of an epoch: as many as its events need."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.monitoring.reporting import Report

EVENTS_PER_TASK_S = 40_000.0  # that are worth one task more
EVENTS_PER_PARTITION = 25  # of a transaction, for each partition that it writes to
BEHIND_S = 0.25  # of events that were there and not read: more than what comes while a task is at work
SHARE = 0.5  # of what tasks that are behind can do: more of them take what waits, too
GROWTH = 1.01  # of what a task is held to do, with each epoch: the machine may have been busy


@dataclass
class TaskCount:
    """Each task has a transaction of its own, whose cost does not depend on the events, so a small load has one task.

    What a task can do follows from epochs at whose end tasks are behind. Patterns, deliveries an event and cores decide
    about it. A transaction to many partitions costs so much that several tasks would only slow each other down.
    """

    per_task: float = EVENTS_PER_TASK_S  # events/s
    _tasks: int = 1  # of the last epoch
    _last: Report | None = None

    def of(self, last: Report | None, most: int) -> int:
        """The number for the next epoch, 1 to `most`. `last` is the report of the last one that had any records."""
        if last is None or last is self._last:
            return max(1, min(most, self._tasks))
        rate = last.events / max(0.001, last.duration_s)
        if last.behind > BEHIND_S * rate > 0:
            self.per_task = min(EVENTS_PER_TASK_S, SHARE * rate / self._tasks)
        else:
            self.per_task = min(EVENTS_PER_TASK_S, GROWTH * self.per_task)
        worth = int(rate / (EVENTS_PER_PARTITION * max(1, last.partitions)))
        self._last, self._tasks = last, max(1, min(most, worth, 1 + int(rate / self.per_task)))
        return self._tasks
