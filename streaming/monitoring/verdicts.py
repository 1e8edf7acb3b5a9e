"""Decide whether the job is alive and ready, with the reasons if not."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.monitoring.view import RESTORING, RUNNING, STARTING, InHand, JobView

BEAT_S = 30.0  # the main thread looks at the query ten times a second
BROKER_S = 30.0

LOOK_AT = {  # by stage
    "prepare": "the driver's JVM and the executors, which receive new segments of the state",
    "measure": "Spark's executors, which read the sizes of the batch's records",
    "match": "the brokers, to which tasks publish, and Spark's Python workers (streaming.worker.daemon): a single "
    "stopped worker holds up the whole batch",
    "publish": "the broker, which receives a transaction",
}


def look_at(view: JobView, stage: str) -> str:
    """Name the parts that may keep a batch from making progress in a stage."""
    if view.preparation is None:
        return LOOK_AT[stage]
    return f"the kernels and the index, which are not ready ({view.preparation.step}); then {LOOK_AT[stage]}"


def notes(view: JobView) -> list[str]:
    """Remarks on a job that do not keep it from being ready."""
    preparation = view.preparation
    if preparation is None:
        return []
    progress = f", {preparation.done} of {preparation.of} algorithms done" if preparation.of else ""
    left_s = preparation.left_s(view.now)
    left = f", about {left_s:.0f} s left" if left_s is not None else ""
    since_s = max(0.0, view.now - preparation.since)
    return [f"matching without an index, slowly, for {since_s:.0f} s: {preparation.step}{progress}{left}"]


def ailing(view: JobView) -> list[str]:
    """The reasons for a restart; empty if the job is healthy."""
    return list(_ailing(view)) if view.phase == RUNNING else []  # what comes before that takes as long as it takes


def waiting(view: JobView) -> list[str]:
    """The reasons that the job is not ready; empty if it is."""
    return list(_waiting(view))


def stalled_s(view: JobView) -> float:
    """The time for which there has been something to read and nothing was committed.

    Without the time of a standstill of the broker: a restart does not help against that.
    """
    since = view.broker.behind_since
    if since is None or view.broker.silent_s(view.now) > BROKER_S:
        return 0.0
    return max(0.0, view.now - max(since, view.progressed_at))


def without_progress_s(view: JobView) -> float:
    """The time for which the current batch has stayed in its stage without progress; 0 without a batch."""
    return 0.0 if view.in_hand is None else max(0.0, view.now - view.in_hand.since)


def unsaved_s(view: JobView) -> float:
    """The age of the oldest change that no save of the state has; 0 if all are saved."""
    since = view.state.unsaved_since if view.state else None
    return 0.0 if since is None else max(0.0, view.now - since)


def stuck(view: JobView) -> InHand | None:
    """The current batch, if it has been without progress for too long."""
    stands_still = view.phase == RUNNING and without_progress_s(view) > view.about.stuck_after_s
    return view.in_hand if stands_still else None


def _ailing(view: JobView) -> Iterator[str]:
    silent_s = view.now - view.beat_at
    if silent_s > BEAT_S:
        yield f"no sign of life from the Spark query for {silent_s:.0f} s"
    if stalled_s(view) > view.about.stalled_after_s:
        behind = sum(lag.records for lag in view.lag)
        yield (
            f"nothing was committed for {stalled_s(view):.0f} s while {behind:,} records wait "
            f"(monitoring.stalled_after_s = {view.about.stalled_after_s:g})"
        )


def _waiting(view: JobView) -> Iterator[str]:
    if view.phase == RESTORING:
        yield "the state is being restored"
    elif view.phase == STARTING:
        yield "the query is being started"
    elif view.phase != RUNNING:
        yield f"the job is {view.phase}"
    if (batch := stuck(view)) is not None:
        since_s = without_progress_s(view)
        yield (
            f"batch {batch.batch} has made no progress in its stage {batch.stage!r} for {since_s:.0f} s "
            f"(monitoring.stuck_after_s = {view.about.stuck_after_s:g}); check {look_at(view, batch.stage)}"
        )
    answered = view.broker.answered_at
    if answered is None:
        yield "no broker response yet" if view.broker.error is None else view.broker.error
    elif view.now - answered > BROKER_S:
        yield f"the broker has not answered for {view.now - answered:.0f} s: {view.broker.error or 'no reason given'}"
