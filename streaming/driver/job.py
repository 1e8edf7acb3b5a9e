"""Run the job in a session: take over, find the committed offsets, and process batches until told to stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from matchers.index.snapshot import Snapshot
from streaming import tenants
from streaming.driver import assembly, sources
from streaming.driver.batches import SparkBatches
from streaming.driver.isolation import WorkersLost
from streaming.driver.pipeline import Pipeline
from streaming.driver.starting import compiling, standby, warm_up
from streaming.driver.starting.beside import Entered
from streaming.errors import BrokerUnreachable, OffsetsBeyondEnd, TopicMissing
from streaming.index import packing
from streaming.kafka.clients import Cluster
from streaming.kafka.ends import TopicEnds
from streaming.kafka.event_topics import deleted_if_matched, is_matched, resolved
from streaming.kafka.topic_watch import Watch
from streaming.kafka.topics import Topics
from streaming.log import error_fields, logger
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.reporting import Observer, Observers, Report
from streaming.monitoring.spark import progress
from streaming.monitoring.view import RUNNING, STARTING, STOPPING
from streaming.precompile import dry_run, kernels
from streaming.process import checkpoint, code_archive
from streaming.process.lock import Lock
from streaming.process.supervision import RestartHistory
from streaming.publishing import warm_up as publishing
from streaming.rows import SourcePartition
from streaming.source_topics import SourceTopics
from streaming.state import remote
from streaming.state.first_load import Slice
from streaming.state.pool import BACKGROUND_NICENESS, processes
from streaming.state.restore import Restored
from streaming.state.state import FALLBACK_ALGORITHM, State
from streaming.state.store import Store
from streaming.worker import interpreter
from streaming.worker.executor import on_cluster
from streaming.worker.settings import TaskSettings
from streaming.worker.starting.preloaded import CODE

if TYPE_CHECKING:
    from config.model import Settings

log = logger("sluice.job")

T = TypeVar("T")

# How often Spark fetches offsets while there is nothing to do. Otherwise a batch follows the last one at once.
IDLE = "20 milliseconds"
FAR_FACTOR = 4  # times as many, or as few, events per batch


@dataclass(frozen=True)
class JobRun:
    """A run of a job, from its start to its end, under the lock of its checkpoint."""

    settings: Settings
    session: Entered[SparkSession]
    stop: threading.Event
    lineage: str
    past: RestartHistory | None
    running: Callable[[Monitor], None]
    spark_checkpoint: str
    scratch: Path
    began: float  # by the monotonic clock
    has_standby: bool  # another process is to stand by for it
    is_warm: bool = False  # its workers are, but for the state

    def stand_by(self, lock: Lock) -> JobRun | None:
        """Prepare all that needs no state, and wait until the job that runs has ended, under a watched lock; return the
        run that follows, or None if told to stop."""
        settings, began = self.settings, time.monotonic()
        location, is_warm = settings.query.checkpoint, False
        assembly.check(settings)
        if not compiling.ahead(settings.matching.algorithm, settings.matching.options, self.stop, BACKGROUND_NICENESS):
            return None
        spark = self.session.value()
        if not lock.held:
            is_warm = standby.prepare(settings, spark, self.scratch, lock)
        if not lock.held:
            if self.past is not None:
                self.past.tell_progress()
            lock.stands_ready()
            log.info("standby_ready", start_s=round(time.monotonic() - began, 1))
            if not standby.wait(spark, lock, self.stop):
                return None
        checkpoint.take_over_scratch(location)
        lock.leave_standby()
        log.info("standby_started")
        # It follows the job that has ended: if another one has taken over from that, this one ends too.
        lineage = checkpoint.owner(location) or self.lineage
        return replace(self, lineage=lineage, began=time.monotonic(), is_warm=is_warm)

    def run(self) -> None:
        """Restore the state, take over from the last process, and process batches until told to stop. Raises what ends
        the job."""
        settings = self.settings
        assembly.check(settings)
        if not compiling.ahead(FALLBACK_ALGORITHM, {}, self.stop):
            return
        empty = assembly.checked_empty_state(settings, kernels.is_ready)
        topics = assembly.topics(settings)
        settings = resolved(settings, topics.partitions)
        with deleted_if_matched(settings):
            self._run(settings, empty, topics)

    def _run(self, settings: Settings, empty: Snapshot, topics: Topics) -> None:
        names = assembly.names(settings, topics)
        is_wanted = partial(is_matched, settings) if settings.events.topic_pattern else None
        watch = Watch(topics, [*names.sources.sources], is_wanted)
        standby = partial(checkpoint.is_standby_ready, settings.query.checkpoint) if self.has_standby else None
        with (
            assembly.owned(settings, self.lineage, names.sources, topics) as slots,
            assembly.monitored(settings, names.sources, watch, self.past, standby) as (monitor, url),
            self._restoring(
                partial(assembly.restored, settings, names, empty, topics, slots.owner),
                partial(assembly.owns, settings, slots.owner),
            ) as restored_with,
            processes(1, BACKGROUND_NICENESS) as background,
            ThreadPoolExecutor(1) as compiler,
            processes(os.cpu_count() or 1, BACKGROUND_NICENESS) as compilers,
            ExitStack() as last,
        ):
            state = None
            try:
                with self.session as spark:
                    context = spark.sparkContext
                    if not interpreter.is_ours(context):
                        interpreter.check(context)
                    store, (restored, deleted, begins) = restored_with(spark)
                    monitor.deleted(deleted)
                    pending_index = None
                    if restored.snapshot.algorithm != settings.matching.algorithm:
                        pending_index = compiler.submit(
                            compiling.index, settings.matching, spark, compilers, monitor.preparing, self.stop
                        )
                    state = assembly.state(settings, restored, store, background, context, pending_index)
                    monitor.enter(STARTING, state)
                    observer = Observers(
                        assembly.observer(settings, monitor, last),
                        assembly.recorder(settings, monitor, state, last),
                        ProgressToSupervisor(self.past),
                    )
                    planned = partial(sources.planned, spark, self.spark_checkpoint, names.sources)
                    pipeline = assembly.pipeline(
                        settings, names, state, slots, topics, spark, observer=observer, planned=planned
                    )
                    self._take_over(spark, pipeline, restored)
                    ends = TopicEnds(Cluster.of(settings), names.sources)
                    last.callback(ends.close)
                    batches = partial(assembly.batches, settings, pipeline, ends, planned)
                    self._process(spark, pipeline, batches, begins, topics, monitor, watch, url)
            finally:
                monitor.enter(STOPPING)
                if state is not None:
                    state.close()
        log.info("job_stopped")

    @contextmanager
    def _restoring(
        self, restore: Callable[[Store], T], owns: Callable[[], bool]
    ) -> Iterator[Callable[[SparkSession], tuple[Store, T]]]:
        """Restore the state: from a local checkpoint while Spark starts, from any other with Spark's help, as long as
        this process `owns` the query. Gives a function that waits for the result."""
        location = self.settings.query.checkpoint
        directory = checkpoint.state(location, self.scratch)
        bounds = tenants.checksum(self.settings)

        def from_remote(spark: SparkSession) -> tuple[Store, T]:
            copy = remote.opened(spark, location, self.settings.query.name, directory, owns)
            store = Store(directory, copy, bounds)
            return store, restore(store)

        if not checkpoint.is_local(location):
            yield from_remote
            return
        store = Store(directory, bounds=bounds)
        with ThreadPoolExecutor(1) as reader:
            reading = reader.submit(restore, store)
            yield lambda spark: (store, reading.result())

    def _events_per_batch(self, state: State, now: int = 0) -> int:
        """The limit, or the one of `now` while the right one is not far from it: each change takes seconds."""
        most = self.settings.events.max_per_batch
        if assembly.is_direct(self.settings):
            return most  # each epoch has its own
        right = sources.events_per_batch(most, state)
        return now if now / FAR_FACTOR < right < min(most, now * FAR_FACTOR) else right

    def _take_over(self, spark: SparkSession, pipeline: Pipeline, restored: Restored) -> None:
        """Do everything that precedes the first batch, the query's first start included, and claim the checkpoint."""
        if restored.first_start:
            slices = [packing.read(path, Slice) for path in restored.slices]
            pipeline.adopt(slices, restored.chosen, restored.positions)
        restored.forget_slices()
        if on_cluster(spark.sparkContext.master):
            _bring(spark.sparkContext, pipeline.state, pipeline.settings)
        checkpoint.own(self.settings.query.checkpoint, self.lineage)

    def _process(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        make_batches: Callable[[], SparkBatches],
        begins: Mapping[SourcePartition, int],
        topics: Topics,
        monitor: Monitor,
        watch: Watch,
        url: str | None,
    ) -> None:
        """Process batches until told to stop. Raises what ends the job."""
        state = pipeline.state
        is_direct = assembly.is_direct(self.settings)
        batches, most = make_batches(), self._events_per_batch(state)
        with ThreadPoolExecutor(1) as warmer, batches.held():
            # While Spark plans the query.
            warming = warmer.submit(_warm, spark, pipeline, is_warm=self.is_warm, reading=is_direct)
            query = self._query(spark, batches, pipeline.names.sources, begins, most)
            warming.result()
        monitor.enter(RUNNING)
        self._log_start(state, url)
        self.running(monitor)
        try:
            while query.isActive and not self.stop.wait(0.1):
                monitor.beat(partial(progress, query, spark, reads=not is_direct))
                watch.check()
                if (pending_index := state.pending_index) is not None and pending_index.done():
                    pending_index.result()  # raises if there is none
                if added := watch.found:
                    read_more = partial(self._read_more, pipeline, topics, watch, added)
                    if is_direct:
                        batches.between(read_more)
                    elif batches.ended(query):
                        read_more()
                        batches = make_batches()
                        begins = assembly.begins(pipeline.names, state, topics)
                        query = self._query(spark, batches, pipeline.names.sources, begins, most)
                if (now := self._events_per_batch(state, most)) != most and batches.ended(query):
                    batches, most = make_batches(), now
                    begins = assembly.begins(pipeline.names, state, topics)
                    query = self._query(spark, batches, pipeline.names.sources, begins, most)
                    log.info("batch_limit_changed", event_limit=most, index=state.snapshot.about)
            log.info("job_stopping", reason="requested" if self.stop.is_set() else "query ended")
            monitor.enter(STOPPING)
            batches.end(query, by_request=self.stop.is_set())
        except (OffsetsBeyondEnd, TopicMissing):  # a replaced topic may end a task before the watch detects it
            with suppress(BrokerUnreachable):
                watch.look()
            watch.check()
            raise
        finally:
            batches.abandon()

    def _read_more(self, pipeline: Pipeline, topics: Topics, watch: Watch, added: Sequence[str]) -> None:
        """Read topics that were created meanwhile; where a broker does not answer, they are found again."""
        bounds: Mapping[str, Sequence[tuple[int, int, int]]] = {}
        try:
            bounds = assembly.bounds_of(topics, added)
        except (BrokerUnreachable, TopicMissing) as error:
            log.warning("topics_unreadable", topics=list(added), **error_fields(error))
        if bounds:
            assembly.read_more(pipeline, bounds)
        watch.add(bounds)

    def _query(
        self,
        spark: SparkSession,
        batches: SparkBatches,
        topics: SourceTopics,
        begins: Mapping[SourcePartition, int],
        most: int,
    ) -> StreamingQuery:
        """Start Spark's query, with at most so many events per batch."""
        _forget(spark, self.spark_checkpoint)
        settings = self.settings
        # Without a limit where Spark's plan only shows which records exist.
        caps = None if assembly.is_direct(settings) else (most, settings.subscriptions.max_per_batch)
        stream = sources.event_and_change_stream(spark, sources.kafka_options(settings), topics.names, begins, caps)
        return (
            stream.writeStream.queryName(settings.query.name)
            .foreachBatch(batches)
            .option("checkpointLocation", self.spark_checkpoint)
            .trigger(processingTime=IDLE)
            .start()
        )

    def _log_start(self, state: State, url: str | None) -> None:
        log.info(
            "job_started",
            state_version=state.version,
            subscription_count=len(state.snapshot),
            algorithm=self.settings.matching.algorithm,
            index=state.snapshot.about,
            monitoring_url=url,
            start_s=round(time.monotonic() - self.began, 1),
        )


def _warm(spark: SparkSession, pipeline: Pipeline, *, is_warm: bool, reading: bool) -> None:
    """Warm up the workers. Killed workers are no reason to stop: the first batch starts others."""
    warm = warm_up.state if is_warm else warm_up.workers
    try:
        warm(spark, pipeline.state, pipeline.settings, reading=reading)
    except WorkersLost as error:
        log.warning("warm_up_failed", **error_fields(error))


def _forget(spark: SparkSession, spark_checkpoint: str) -> None:
    """Discard Spark's offset logs, of earlier jobs too: Kafka's committed offsets are authoritative, and a log may be
    corrupt or stale."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(spark_checkpoint).getParent()
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)


def _bring(context: SparkContext, state: State, settings: TaskSettings) -> None:
    """Send our code to the executors of a cluster. Call before they have work.

    Spark keeps an archive until the context ends, and takes no second one of its name. So an earlier job in the session
    has sent it, with all algorithms.
    """
    dry_run.match(state, settings)
    publishing.compile()
    name = f"#{code_archive.NAME}"
    if not any(archive.endswith(name) for archive in context.listArchives):
        archive = code_archive.make(CODE, Path(context._temp_dir, f"{code_archive.NAME}.zip"), papers=True)
        context.addArchive(f"{archive}{name}")


class ProgressToSupervisor(Observer):
    """Reports the first finished batch that had rows to the supervisor, if there is one."""

    def __init__(self, supervisor: RestartHistory | None) -> None:
        self._supervisor = supervisor

    def batch(self, report: Report) -> None:
        if self._supervisor is not None:
            self._supervisor.tell_progress()
            self._supervisor = None
