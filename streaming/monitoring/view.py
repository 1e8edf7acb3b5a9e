"""A view of the job at one moment: all data for monitoring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.documents.subscriber_metrics import SubscriberMetrics
from streaming.latencies import Latencies
from streaming.monitoring.figures import Figures
from streaming.process.supervision import RestartHistory

# What the job is doing, in this order.
RESTORING = "restoring"  # Spark starts and the state is read
STARTING = "starting"  # Spark plans the query, workers load the state
RUNNING = "running"
STOPPING = "stopping"


# What is done for the index of the settings while events are matched without it, in this order.
COMPILING = "compiling kernels"
LOADING = "loading kernels"
BUILDING = "building the index"


@dataclass(frozen=True)
class About:
    """Constants of the process."""

    query: str
    algorithm: str
    codec: str
    pid: int
    started_at: float  # epoch s
    stalled_after_s: float
    stuck_after_s: float
    past: RestartHistory | None = None  # None: nobody starts it again
    is_standby_ready: Callable[[], bool] | None = None  # None: no process is to stand by for it


@dataclass(frozen=True)
class StateView:
    """The state of the subscriptions."""

    version: int
    subscriptions: int
    segments: int
    bytes: int  # of the segments, as they are handed to the workers of each host
    compactions: Latencies
    compacting: bool
    index: str  # the algorithm of the longest segment and, if it was chosen, why
    saved_at: float | None = None  # epoch s: the last save of this process
    unsaved_since: float | None = None  # epoch s: the oldest change that no save has; None: all are saved


@dataclass(frozen=True)
class Preparation:
    """The preparation of the index of the settings, while events are matched without it."""

    step: str
    since: float  # epoch s: since when events are matched without it
    began: float  # epoch s: when the step did
    reported_at: float  # epoch s: when the following was
    done: int = 0  # algorithms whose kernels are compiled
    of: int = 0

    def left_s(self, now: float) -> float | None:
        """An estimate of the time that compiling still takes, by what the compiled algorithms took; None where there is
        no way to tell."""
        if not self.done:
            return None
        left_s = (self.reported_at - self.began) * (self.of - self.done) / self.done - (now - self.reported_at)
        return left_s if left_s > 0 else None


@dataclass(frozen=True)
class Lag:
    topic: str
    partition: int
    position: int  # the first offset that is not taken into account
    end: int  # the next that will be written, as far as transactions are committed

    @property
    def records(self) -> int:
        return max(0, self.end - self.position)


@dataclass(frozen=True)
class BrokerEnds:
    """The result of a request to the broker for the ends of the topics."""

    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)  # (topic, partition) -> next offset
    answered_at: float | None = None  # epoch s
    error: str | None = None  # of the last time, if it did not answer then
    behind_since: float | None = None  # epoch s; None: at the last answer there was nothing left to read

    def silent_s(self, now: float) -> float:
        """The time for which it has not answered, by its errors."""
        return 0.0 if self.error is None or self.answered_at is None else now - self.answered_at

    @property
    def unknown_since(self) -> float | None:
        """Since when the ends are not known any more (epoch s); None if they are, or never were."""
        return None if self.error is None else self.answered_at


@dataclass(frozen=True)
class Executor:
    """A running Spark executor, with the tasks that it has had."""

    id: str
    host: str
    cores: int
    running: int  # tasks
    done: int
    failed: int


@dataclass(frozen=True)
class SparkProgress:
    """The offsets that Spark's query has read, the heap of its JVM, and its executors."""

    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)  # (topic, partition) -> first offset not read
    heap_bytes: Mapping[str, int] = field(default_factory=dict)  # of the driver's JVM: used, live, committed, max
    executors: tuple[Executor, ...] = ()


@dataclass(frozen=True)
class InHand:
    """The current stage of a batch."""

    batch: int
    stage: str
    since: float  # epoch s: when that began, or last went on


@dataclass(frozen=True)
class Trouble:
    """A warning or an error that was logged."""

    at: float  # epoch s
    level: str
    event: str
    fields: Mapping[str, Any]
    message: str = ""  # what the event means


@dataclass(frozen=True)
class SubscriberView:
    """A subscriber's metrics, and its deliveries per second of late."""

    metrics: SubscriberMetrics
    deliveries_per_s: float


@dataclass(frozen=True)
class SubscribersView:
    """The metrics of subscribers."""

    number: int = 0  # of those that have any
    is_whole: bool = False  # they include the sums of earlier processes from the topic
    busiest: tuple[SubscriberView, ...] = ()  # the busiest first
    shown: tuple[SubscriberMetrics, ...] = ()  # those of `metrics.subscribers`


@dataclass(frozen=True)
class JobView:
    about: About
    now: float  # epoch s
    phase: str
    beat_at: float  # epoch s: when the main thread last saw the query run
    progressed_at: float  # epoch s: when `Observer.progressed` was last called, or a slot committed
    figures: Figures
    in_hand: InHand | None  # None: no batch
    state: StateView | None  # None: it is being restored
    preparation: Preparation | None  # None: events are matched with the index of the settings
    lag: tuple[Lag, ...]
    broker: BrokerEnds
    progress: SparkProgress
    resident_bytes: Mapping[str, int]  # by role; empty where the roles are unknown
    start_s: float | None  # how long it took until it ran
    troubles: tuple[Trouble, ...]  # the newest first
    subscribers: SubscribersView | None = None  # None: they are not counted
