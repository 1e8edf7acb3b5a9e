"""The continuous job: take over, find where the last one stopped, and run batches until told to stop."""

from __future__ import annotations

import errno
import gc
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from matchers.errors import MatchingError
from matchers.lowering import Conjunction
from matchers.snapshot import Snapshot
from streaming import checkpoint, class_archive, code_archive, layout, packing, session, sources, warming
from streaming.clients import Cluster
from streaming.codecs import RegistrySettings
from streaming.composing import Names
from streaming.errors import JobError, ProcessLost, SparkFailed, StorageFailed
from streaming.matching import EVENTS, SUBSCRIPTIONS, Position, of_source
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.server import Server
from streaming.monitoring.spark import progress
from streaming.monitoring.view import RUNNING, STARTING, STOPPING, About
from streaming.outputs import outputs
from streaming.parts import SharedFile
from streaming.pipeline import Pipeline
from streaming.pool import BACKGROUND, processes
from streaming.precision import Precision
from streaming.quotas import DeliveryQuota, SubscriptionQuota
from streaming.reporting import Both, Observer
from streaming.restoring import Restored, Topic, restore
from streaming.sink import TransactionalSink
from streaming.state import AT_ONCE, State
from streaming.store import Store
from streaming.supervision import Past
from streaming.topics import Topics
from streaming.upkeep import Upkeep

if TYPE_CHECKING:
    from config.model import Settings

log = logging.getLogger("sluice.job")

ANSWER_S = 5.0  # for the broker, to say where topics end
LACKING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOENT)  # of a disk


def run(settings: Settings, jars: Path, stop: threading.Event, lineage: str, past: Past | None = None) -> None:
    """Returns when `stop` is set, after the batch in hand. Raises JobError, or what broke the query. `past` is what a
    supervisor tells; None without one.

    Jobs of one `lineage` follow each other, each because the last one ended: if another job took over meanwhile, it
    keeps what it has.
    """
    try:
        _run_until(stop, settings, jars, lineage, past)
    except BrokenExecutor as error:
        raise ProcessLost(f"a process that reads subscriptions has ended: {error}") from error
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(f"Spark's JVM has ended: {error}") from error
    except OSError as error:
        if error.errno not in LACKING:
            raise
        raise StorageFailed(f"{error.filename or settings.query.checkpoint}: {error.strerror}") from error


def _run_until(stop: threading.Event, settings: Settings, jars: Path, lineage: str, past: Past | None) -> None:
    location = settings.query.checkpoint
    with (
        checkpoint.opened(location, settings.query.name) as spark_checkpoint,
        checkpoint.scratch(location) as scratch,
    ):
        began = time.monotonic()
        _registry(settings)  # a wrong option must show before Spark starts
        sources.check(settings.kafka.client, settings.kafka.spark)
        empty = without_subscriptions(settings)
        topics = Cluster.of(settings).topics()
        _require(topics, settings)
        sink = _sink(settings, lineage, topics)
        store = Store(checkpoint.state(location, scratch))
        with (
            _monitored(settings, topics, past) as (monitor, url),
            ThreadPoolExecutor(1) as beside,
            processes(1, BACKGROUND) as background,
            ExitStack() as last,
        ):
            restoring = beside.submit(_restored, settings, empty, store, topics, sink)  # while Spark starts
            spark = session.start(
                settings.query.name,
                settings.spark.master,
                settings.spark.options,
                jars / "spark",
                scratch,
                checkpoint.is_local(location),
            )
            state = None
            try:
                restored = restoring.result()
                state = State(
                    restored.snapshot,
                    spark.sparkContext.broadcast,
                    dict(restored.positions),
                    settings.events.codec,
                    _registry(settings),
                    Upkeep(store, background, restored.files),
                    partial(SharedFile, spark.sparkContext) if session.on_cluster(settings.spark.master) else None,
                    settings.events.max_bytes,
                    settings.spark.worker_memory_mb,
                )
                monitor.enter(STARTING, state)
                pipeline = _pipeline(settings, state, sink, topics, spark.sparkContext.defaultParallelism)
                pipeline.observer = _observer(settings, monitor, last)
                if restored.first_start:
                    pipeline.adopt(map(packing.read, restored.slices), restored.positions)
                restored.forget_slices()
                if session.on_cluster(settings.spark.master):
                    _bring(spark, state, scratch)
                checkpoint.own(location, lineage)
                fields = {
                    "query": settings.query.name,
                    "version": state.version,
                    "subscriptions": len(state.snapshot),
                    "algorithm": settings.matching.algorithm,
                    "monitoring": url,
                }
                _run(settings, spark, pipeline, restored.positions, spark_checkpoint, stop, monitor, fields, began)
            finally:
                monitor.enter(STOPPING)
                with suppress(Py4JError, ConnectionError):  # of a JVM that has ended
                    spark.stop()
                sink.close()
                if state is not None:
                    state.close()
            class_archive.keep(jars / "spark")
        log.info("stopped", extra={"fields": {"query": settings.query.name}})


@contextmanager
def _monitored(settings: Settings, topics: Topics, past: Past | None) -> Iterator[tuple[Monitor, str | None]]:
    """Who is told what the job does, and where that can be asked for, if anywhere. Raises JobError."""
    own = settings.monitoring
    about = About(
        settings.query.name,
        settings.matching.algorithm,
        settings.events.codec,
        os.getpid(),
        time.time(),
        own.stalled_after_s,
        past,
    )
    sources = {EVENTS: settings.events.topic, SUBSCRIPTIONS: settings.subscriptions.topic}
    if not own.enabled:
        with Monitor(about, sources) as monitor:
            yield monitor, None
        return
    with (
        Monitor(about, sources, partial(topics.ends, sources.values(), ANSWER_S)) as monitor,
        Server(own.host, own.port, monitor.view) as server,
        checkpoint.announced(settings.query.checkpoint, server.url),
    ):
        log.info("starting", extra={"fields": {"query": settings.query.name, "monitoring": server.url}})
        yield monitor, server.url


def _observer(settings: Settings, monitor: Monitor, last: ExitStack) -> Observer:
    """Who is told of each batch. The `last` thing is to send the traces that are left. Call it when Spark's JVM runs:
    OpenTelemetry begins threads in every process that is forked from ours."""
    if not settings.monitoring.traces:
        return monitor
    from streaming.monitoring.tracing import Traces  # who wants no traces loads nothing of OpenTelemetry

    name, topics = settings.query.name, (settings.events.topic, settings.subscriptions.topic)
    return Both(monitor, last.enter_context(Traces(settings.monitoring.traces, name, *topics)))


def _require(topics: Topics, settings: Settings) -> None:
    topics.required(layout.needed(settings), "`run_stream.py topics create` makes all that the job needs")
    topics.check_group(settings.query.name)


def _sink(settings: Settings, lineage: str, topics: Topics) -> TransactionalSink:
    kafka, sources = settings.kafka, (settings.events.topic, settings.subscriptions.topic)
    claimed: list[tuple[str, int]] = []
    if checkpoint.owner(settings.query.checkpoint) == lineage:
        claimed = [(topic, p) for topic, n in topics.required(sources).items() for p in range(n)]
    name = settings.query.name
    return TransactionalSink(kafka.bootstrap_servers, kafka.client, name, owner=lineage, claimed=claimed)


def _restored(settings: Settings, empty: Snapshot, store: Store, topics: Topics, sink: TransactionalSink) -> Restored:
    """The state of the last committed batch: a saved one and the changes since then, else all of the topic."""
    names = _names(settings)
    bounds = {
        (source, p): (low, high)
        for source in (EVENTS, SUBSCRIPTIONS)
        for p, low, high in topics.offsets(names.source(source))
    }
    found = sink.committed([(names.source(source), p) for source, p in bounds])
    committed = {(s, p): found[names.source(s), p] for s, p in bounds if (names.source(s), p) in found}
    positions = dict.fromkeys(bounds, 0) | committed
    if not committed:
        latest = settings.events.starting == "latest"
        positions |= {at: high if at[0] == SUBSCRIPTIONS or latest else low for at, (low, high) in bounds.items()}
    lows = {p: low for (source, p), (low, _) in bounds.items() if source == SUBSCRIPTIONS}
    topic = Topic(settings.kafka.bootstrap_servers, settings.kafka.client, settings.subscriptions.topic, lows)
    return restore(empty, store, topic, positions, first_start=not committed)


def _run(
    settings: Settings,
    spark: SparkSession,
    pipeline: Pipeline,
    positions: Mapping[Position, int],
    spark_checkpoint: str,
    stop: threading.Event,
    monitor: Monitor,
    fields: Mapping[str, Any],
    began: float,
) -> None:
    caps = {
        settings.events.topic: settings.events.max_per_batch,
        settings.subscriptions.topic: settings.subscriptions.max_per_batch,
    }
    starts = {
        settings.events.topic: of_source(positions, EVENTS),
        settings.subscriptions.topic: of_source(positions, SUBSCRIPTIONS),
    }
    batches = _Batches(pipeline)
    _forget(spark, spark_checkpoint)
    with batches.held():
        query = (
            sources.live(spark, _source_options(settings), starts, caps)
            .writeStream.queryName(settings.query.name)
            .foreachBatch(batches)
            .option("checkpointLocation", spark_checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        warming.workers(spark, pipeline.state)  # while Spark plans the query and asks for offsets
    monitor.enter(RUNNING)
    log.info("running", extra={"fields": {**fields, "start_s": round(time.monotonic() - began, 1)}})
    while query.isActive and not stop.wait(0.1):
        monitor.beat(partial(progress, query, spark))
    monitor.enter(STOPPING)
    if stop.is_set():
        batches.finish()
        with suppress(StreamingQueryException):
            query.stop()
    if batches.failure is not None:
        raise batches.failure
    if not stop.is_set():
        why, _, _ = str(query.exception()).partition("\n=== ")  # the rest is its plan
        raise SparkFailed(f"Spark stopped the query: {why}")


def _forget(spark: SparkSession, spark_checkpoint: str) -> None:
    """What Spark notes there of offsets, the transactions say better, and it may be spoiled or of another time."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(spark_checkpoint)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # type: ignore[attr-defined]


class _Batches:
    """What Spark calls: the pipeline, the exception that broke it, and a way to stop between two batches."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._turn = threading.Lock()
        self._finished = False
        self.failure: BaseException | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        with self._turn:
            if self._finished:  # to return would tell Spark that the batch is done
                raise InterruptedError("the job is stopping")
            gc.disable()  # the rows and records of a batch are many objects, and none of them in a cycle
            try:
                self._pipeline(batch, number)
            except BaseException as error:
                self.failure = error
                raise
            finally:
                gc.enable()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The next batch waits until the end of this, and if that is an exception, for ever."""
        with self._turn:
            try:
                yield
            except BaseException:
                self._finished = True
                raise

    def finish(self) -> None:
        """Wait for the batch in hand and refuse all further ones."""
        with self._turn:
            self._finished = True


def _source_options(settings: Settings) -> dict[str, str]:
    own = {f"kafka.{name}": value for name, value in settings.kafka.spark.items()}
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, **own}


def without_subscriptions(settings: Settings) -> Snapshot:
    """What there is before the first subscription. A wrong option must show here already, so it is tried; that also
    loads what updates need."""
    chosen = settings.matching
    if chosen.adaptive_after_ms and chosen.algorithm != "wpa_rein":
        raise JobError(
            "matching.adaptive_after_ms needs matching.algorithm = 'wpa_rein', which can do less at the price of "
            f"deliveries too many; {chosen.algorithm!r} cannot"
        )
    try:
        empty = Snapshot(0, chosen.algorithm, chosen.options, most=AT_ONCE, shards=chosen.shards)
        empty.update([("a", [Conjunction({})]), ("b", [Conjunction({})])]).update([("a", [Conjunction({})])], ["b"])
    except TypeError as error:
        raise JobError(f"matching.options do not fit matching.algorithm = {chosen.algorithm!r}: {error}") from None
    except MatchingError as error:
        raise JobError(f"matching.algorithm = {chosen.algorithm!r} cannot be used: {error}") from None
    return empty


def _pipeline(settings: Settings, state: State, sink: TransactionalSink, topics: Topics, cores: int) -> Pipeline:
    quotas = settings.quotas
    subscriptions = SubscriptionQuota(quotas.subscriptions)
    subscriptions.begin(state.snapshot)
    return Pipeline(
        *(state, sink, outputs(settings, topics), _names(settings), subscriptions),
        DeliveryQuota(quotas.deliveries_per_second, quotas.over == "drop"),
        Precision(settings.matching.adaptive_after_ms, settings.matching.adaptive_rates),
        cores,
        settings.matching.max_per_event,
    )


def _bring(spark: SparkSession, state: State, scratch: Path) -> None:
    """Give the executors of a cluster our code. Call before they have work."""
    warming.kernels(state)
    spark.sparkContext.addArchive(f"{code_archive.make(session.CODE, scratch)}#{code_archive.NAME}")


def _registry(settings: Settings) -> RegistrySettings | None:
    return RegistrySettings.of(settings.schema_registry.url, settings.schema_registry.options)


def _names(settings: Settings) -> Names:
    deliveries = settings.deliveries
    shared = deliveries.layout == "shared"
    return Names(
        events=settings.events.topic,
        subscriptions=settings.subscriptions.topic,
        statuses=settings.subscriptions.status_topic,
        dead_letters=settings.dead_letters.topic,
        delivery_topic=lru_cache(1 << 16)(partial(layout.delivery_topic, settings)),
        delivery_key=lambda subscriber, key: subscriber.encode() if shared else key,
        max_delivery_bytes=deliveries.max_bytes,
    )
