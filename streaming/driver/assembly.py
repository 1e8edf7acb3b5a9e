"""Assemble the objects of a job from its settings."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from config.model import console_token
from matchers import ALGORITHMS
from matchers.errors import MatchingError, PatternError
from matchers.index.snapshot import Snapshot
from matchers.language.lowering import Conjunction, lower
from matchers.language.parsing import parse
from streaming import secret_files, tenants
from streaming.clock import steady_s
from streaming.codecs import RegistrySettings
from streaming.console.console import Console
from streaming.driver import sources
from streaming.driver.batches import SparkBatches
from streaming.driver.composition import TopicNames
from streaming.driver.epoch_batches import EpochBatches
from streaming.driver.limits.load_shedding import LoadShedder
from streaming.driver.limits.quotas import DeliveryQuota, SubscriptionQuota
from streaming.driver.limits.time_limit import TaggedJobs, TimeLimit
from streaming.driver.pipeline import BatchPieces, Pipeline
from streaming.driver.runs.epoch_run import EpochReading, EpochRun
from streaming.driver.runs.source_run import SourceRun
from streaming.driver.slots import Slots
from streaming.errors import JobError
from streaming.index.parts import RemoteFile, SharedFile
from streaming.kafka import layout
from streaming.kafka.clients import Cluster
from streaming.kafka.deleted import DeletedEvents
from streaming.kafka.ends import TopicEnds
from streaming.kafka.outputs import check_config, outputs
from streaming.kafka.start_offsets import Beginning, warn_deleted, with_a_batch
from streaming.kafka.topic_watch import ANSWER_S, Watch
from streaming.kafka.topics import TIMEOUT_S, Topics
from streaming.log import logger
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.reporting import Observer, Observers, Report
from streaming.monitoring.view import About
from streaming.monitoring.web.server import Server
from streaming.process import checkpoint
from streaming.process.supervision import RestartHistory
from streaming.publishing.connection.client import Client
from streaming.publishing.connection.options import Options
from streaming.publishing.delivery import DeliveryRule
from streaming.publishing.fencing import committed_offsets
from streaming.publishing.ownership import Owner
from streaming.publishing.slot import TIMEOUT_MS
from streaming.rows import EVENTS, SUBSCRIPTIONS, SourcePartition, of_changes, of_events
from streaming.source_topics import SourceTopics
from streaming.state.compaction import Compactor
from streaming.state.restore import Restored, SubscriptionsTopics, restore
from streaming.state.state import FALLBACK_ALGORITHM, MOST_MOVED_SUBSCRIPTIONS, Index, State
from streaming.state.store import Store
from streaming.subscribers.metrics_topic import MetricsTopic
from streaming.subscribers.recorder import RecorderLimits, SubscriberRecorder
from streaming.tenants import MOST_PARTITIONS
from streaming.worker.executor import on_cluster
from streaming.worker.settings import TaskSettings

if TYPE_CHECKING:
    from config.model import Settings

log = logger("sluice.job")


def check(settings: Settings) -> None:
    """Check the options before Spark starts. Raises JobError if they cannot be used."""
    _registry(settings)
    if (same := tenants.same_number(settings.subscriptions.tenants)) is not None:
        raise JobError(
            f"subscriptions.tenants: {same[0]!r} and {same[1]!r} have the same internal number; rename one of them"
        )
    for tenant in tenants.of(settings).values():
        try:
            lower(parse(tenant.pattern or {}))
        except PatternError as error:
            raise JobError(f"subscriptions.tenants.{tenant.name}.pattern cannot be used: {error}") from None
    sources.check(settings.kafka.client, secret_files.read("kafka.spark", settings.kafka.spark))
    _token(settings)


def checked_empty_state(settings: Settings, is_ready: Callable[[str], bool]) -> Snapshot:
    """Check the algorithm's options on a state without subscriptions, which it returns: of that algorithm, or of
    FALLBACK_ALGORITHM until that `is_ready`. Also loads the code that updates need. Raises JobError.
    """
    chosen = settings.matching
    try:
        empty = Snapshot(0, chosen.algorithm, chosen.options, most=MOST_MOVED_SUBSCRIPTIONS, shards=chosen.shards)
        inspect.signature(ALGORITHMS[chosen.algorithm].build).bind(None, **chosen.options)
        if not is_ready(chosen.algorithm):
            empty = replace(empty, algorithm=FALLBACK_ALGORITHM, options={})
        empty.update([("a", [Conjunction({})]), ("b", [Conjunction({})])]).update([("a", [Conjunction({})])], ["b"])
    except TypeError as error:
        raise JobError(f"matching.options do not fit matching.algorithm = {chosen.algorithm!r}: {error}") from None
    except MatchingError as error:
        raise JobError(f"matching.algorithm = {chosen.algorithm!r} cannot be used: {error}") from None
    if chosen.adaptive_after_ms and not ALGORITHMS[chosen.algorithm].rated:
        able = " or ".join(repr(name) for name, algorithm in ALGORITHMS.items() if algorithm.rated)
        raise JobError(
            f"matching.adaptive_after_ms works only with matching.algorithm = {able} (now {chosen.algorithm!r}); set "
            "it to 0, or change the algorithm"
        )
    return empty


def topics(settings: Settings) -> Topics:
    """The client for topics. Raises JobError if a required one is missing or may not be used, or if the broker rejects
    the settings of new ones."""
    there = Cluster.of(settings).topics()
    counts = there.required(layout.needed(settings), "`run_stream.py topics create` creates the topics of the job")
    of_changes = tenants.of(settings).values()
    for tenant in of_changes if settings.subscriptions.tenants else ():
        if counts[tenant.topic] > MOST_PARTITIONS:
            raise JobError(
                f"{tenant.topic} has {counts[tenant.topic]:,} partitions; with tenants, a topic of subscriptions may "
                f"have at most {MOST_PARTITIONS:,}"
            )
    statuses = [tenant.status_topic for tenant in of_changes]
    for name in filter(None, (*statuses, settings.metrics.topic)):
        there.check_readable_and_writable(name)
    there.check_group(settings.query.name)
    check_config(settings, there)
    return there


@contextmanager
def owned(settings: Settings, lineage: str, sources: SourceTopics, topics: Topics) -> Iterator[Slots]:
    """The slots of this process, which has taken the query over. Raises JobError."""
    query, again = settings.query, checkpoint.owner(settings.query.checkpoint) == lineage
    partitions = [(topic, p) for topic, n in topics.counts(sources.sources).items() for p in range(n)]
    # Each owner has claimed these. What is committed for a topic of events that was left out since is an older one's.
    # So of the topics of subscriptions that of the job itself, which is always there.
    deciding = [at for at in partitions if at[0] == sources.names[SUBSCRIPTIONS]]
    with closing(Client(settings.kafka.bootstrap_servers, settings.kafka.client)) as client:
        slots = Slots(Owner(client, query.name, lineage, deciding, again=again), partitions, sources)
        slots.take_over()
        yield slots


def owns(settings: Settings, owner: Owner) -> bool:
    """Whether no other process has taken the query over since; for any thread. Raises JobError."""
    with closing(Client(settings.kafka.bootstrap_servers, settings.kafka.client)) as client:
        return owner.is_last(client)


def restored(
    settings: Settings, names: TopicNames, empty: Snapshot, topics: Topics, owner: Owner, store: Store
) -> tuple[Restored, int, dict[SourcePartition, int]]:
    """The state of the last committed batch: a saved one and the changes since then, else all of the topic.

    Also returns the number of events deleted before they were read, by their offsets, and where Spark begins to read
    (`start_offsets.with_a_batch`). Raises JobError.
    """
    bounds = all_bounds(names, topics)
    committed = names.by_source(owner.committed([*names.by_topic(dict.fromkeys(bounds, 0))]))
    beginning = Beginning.of(bounds, committed, names.sources.names, settings.events.starting == "latest")
    deleted = _deleted(beginning, names)
    moved = {at: offset for at, offset in beginning.positions.items() if committed.get(at) != offset}
    if beginning.first_start:  # `first_start.publish_statuses` commits those of changes
        moved = of_events(moved)
    if committed and moved:  # so that the next start need not log it again, and no older owner's offset is left
        owner.publish([], names.by_topic(moved))
    where = SubscriptionsTopics(
        bootstrap_servers=settings.kafka.bootstrap_servers,
        options=settings.kafka.client,
        tenants=names.sources.tenants,
        lows=of_changes({at: low for at, (low, _) in bounds.items()}),
        ids=names.subscriptions_ids,
        query=settings.query.name,
    )
    state = restore(empty, store, where, beginning.positions, first_start=beginning.first_start)
    return state, deleted, with_a_batch(beginning.positions, bounds)


def _deleted(beginning: Beginning, names: TopicNames) -> int:
    """Log the events that were deleted before they were read, by their offsets; returns their number."""
    for (source, partition), (begin, end) in beginning.deleted.items():
        warn_deleted((names.sources.names[source], partition), begin, end, end - begin)
    return sum(end - begin for begin, end in beginning.deleted.values())


def begins(names: TopicNames, state: State, topics: Topics) -> dict[SourcePartition, int]:
    """Return the offsets at which Spark begins to read when the query starts again. Raises JobError."""
    bounds = all_bounds(names, topics)
    return with_a_batch({at: state.positions.get(at, low) for at, (low, _) in bounds.items()}, bounds)


def bounds_of(topics: Topics, names: Iterable[str]) -> dict[str, list[tuple[int, int, int]]]:
    """(partition, first offset, next offset) of each of these topics that there is. Raises JobError."""
    return topics.bounds(topics.counts(names))


def read_more(pipeline: Pipeline, added: Mapping[str, Iterable[tuple[int, int, int]]]) -> None:
    """Read more topics of events, which have these `bounds_of`, each from what is committed for it, else from its first
    record on. A topic that is read already, as one that was found twice, is left out. Call between two batches. Raises
    JobError."""
    names, state, owner = pipeline.names, pipeline.state, pipeline.owner
    added = {topic: of_topic for topic, of_topic in added.items() if topic not in names.sources.sources}
    if not added:
        return
    sources = {topic: names.sources.add(topic) for topic in added}
    bounds = {(sources[topic], p): (low, high) for topic, of_topic in added.items() for p, low, high in of_topic}
    known = names.by_topic({**state.positions, **dict.fromkeys(bounds, 0)})
    committed = names.by_source(owner.committed([*known]))
    of_added = {at: committed[at] for at in bounds if at in committed}
    beginning = Beginning.of(bounds, of_added, names.sources.names, latest=False)
    if deleted := _deleted(beginning, names):
        pipeline.observer.deleted(deleted)
    positions = beginning.positions
    owner.publish([], names.by_topic(positions))
    pipeline.slots.partitions = sorted(known)
    pipeline.settings = replace(pipeline.settings, topics=names.sources.events)
    pipeline.deleted.begin(names.by_topic(positions))
    state.positions = {**state.positions, **positions}
    log.info("topics_added", topics=sorted(sources))


def all_bounds(names: TopicNames, topics: Topics) -> dict[SourcePartition, tuple[int, int]]:
    """The first and the next offset of each partition that the job reads."""
    bounds = topics.bounds(names.sources.names.values())
    return {(source, p): (low, high) for source, topic in names.sources.names.items() for p, low, high in bounds[topic]}


def state(
    settings: Settings,
    restored: Restored,
    store: Store,
    background: Executor,
    spark: SparkContext,
    pending_index: Future[Index] | None,
) -> State:
    """The state; `background` has the processes that compact it, and `pending_index` is the index that it lacks."""
    share, lend = _sharing(store, spark)
    for part in restored.snapshot.parts:
        if part in restored.files:
            lend(restored.files[part])
    return State(
        snapshot=restored.snapshot,
        broadcast=spark.broadcast,
        positions=dict(restored.positions),
        compactor=Compactor(store, background, restored.files, lend),
        share=share,
        pending_index=pending_index,
        waited_ms=inf,
    )


def _sharing(
    store: Store, spark: SparkContext
) -> tuple[Callable[[Path], SharedFile | RemoteFile] | None, Callable[[Path], object]]:
    """`share` of a State and `lend` of its Compactor: executors get files from where the copy of the state lies, those
    that are not there yet from us. On our host they see them."""
    copy = store.copy
    if not on_cluster(spark.master):
        return None, lambda path: None
    if copy is None:
        return partial(SharedFile, spark), lambda path: None

    def share(path: Path) -> SharedFile | RemoteFile:
        url = copy.lent(path.name)
        return SharedFile(spark, path) if url is None else RemoteFile.added(spark, url, partial(copy.back, path.name))

    return share, copy.lend


def pipeline(
    settings: Settings,
    names: TopicNames,
    state: State,
    slots: Slots,
    topics: Topics,
    spark: SparkSession,
    *,
    observer: Observer,
    planned: Callable[[int], Mapping[SourcePartition, int]],
) -> Pipeline:
    """The pipeline; `planned` gives the offsets at which a batch ends, by its number."""
    quotas, context = settings.quotas, spark.sparkContext
    cores = context.defaultParallelism
    slots.open(cores, state.broadcast)
    subscriptions = SubscriptionQuota(quotas.subscriptions, names.sources.tenants)
    subscriptions.begin(state.snapshot)
    if state.compactor is not None:
        state.compactor.expired = subscriptions.expired
    return Pipeline(
        state=state,
        settings=task_settings(settings, names.sources),
        owner=slots.owner,
        slots=slots,
        outputs=outputs(settings, topics),
        names=names,
        subscription_quota=subscriptions,
        delivery_quota=DeliveryQuota(quotas.deliveries_per_second, quotas.over == "drop"),
        load_shedder=LoadShedder(settings.matching.adaptive_after_ms, settings.matching.adaptive_rates),
        tasks=cores,
        cores=(lambda: context.defaultParallelism) if on_cluster(context.master) else None,
        time_limit=TimeLimit(TaggedJobs(context), _least_s(settings)),
        deleted=DeletedEvents.of(topics),
        describe=context.setJobDescription,
        observer=observer,
        run=_run(settings, names.sources, spark, planned),
    )


def _run(
    settings: Settings,
    sources: SourceTopics,
    spark: SparkSession,
    planned: Callable[[int], Mapping[SourcePartition, int]],
) -> Callable[[Pipeline, int, Report], BatchPieces]:
    kafka = settings.kafka
    reading = EpochReading(
        spark=spark,
        topics=sources,
        client=partial(Client, kafka.bootstrap_servers, kafka.client),
        most_events=settings.events.max_per_batch,
        most_changes=settings.subscriptions.max_per_batch,
    )
    if is_direct(settings):
        return partial(EpochRun, reading=reading)
    return partial(SourceRun, planned=planned, reading=reading)


def is_direct(settings: Settings) -> bool:
    """Whether tasks read the records themselves."""
    return settings.events.reading == "direct"


def batches(
    settings: Settings, pipeline: Pipeline, ends: TopicEnds, planned: Callable[[int], Mapping[SourcePartition, int]]
) -> SparkBatches:
    """Spark's callback."""
    if not is_direct(settings):
        planned = lru_cache(1)(planned)  # it reads a file of Spark's
        return SparkBatches(pipeline, partial(_read_to_the_end, ends, pipeline.names, pipeline.state, planned))
    most = {EVENTS: settings.events.max_per_batch, SUBSCRIPTIONS: settings.subscriptions.max_per_batch}
    is_bounded = settings.quotas.deliveries_per_second or settings.matching.shards > 1
    return EpochBatches(pipeline, ends, planned, most if is_bounded else None)


def _read_to_the_end(
    ends: TopicEnds,
    names: TopicNames,
    state: State,
    planned: Callable[[int], Mapping[SourcePartition, int]],
    number: int,
) -> bool:
    """Whether there is nothing to read for the next batch; False too if the brokers do not answer.

    The last batch may have ended behind the last record: transactions end with a marker.
    """
    if (told := ends()) is None:
        return False
    positions, behind = names.by_topic(state.positions), names.by_topic(planned(number))
    return all(end <= max(positions.get(at, 0), behind.get(at, 0)) for at, end in told.items())


def task_settings(settings: Settings, sources: SourceTopics) -> TaskSettings:
    events, deliveries = settings.events, settings.deliveries
    return TaskSettings(
        topics=sources.events,
        tenants=sources.tenants,
        registry=_registry(settings),
        max_event_bytes=events.max_bytes,
        max_matches=settings.matching.max_per_event,
        memory_mb=settings.spark.worker_memory_mb,
        bootstrap_servers=settings.kafka.bootstrap_servers,
        options=settings.kafka.client,
        query=settings.query.name,
        dead_letters=settings.dead_letters.topic,
        rule=DeliveryRule.of(deliveries),
        max_bytes=deliveries.max_bytes,
        max_batch_bytes=int(layout.delivery_config(settings).get("max.message.bytes", TaskSettings.max_batch_bytes)),
        partitions=deliveries.partitions,
        counts_subscribers=bool(settings.metrics.topic),
        counts_subscriptions=settings.metrics.subscriptions,
    )


def _least_s(settings: Settings) -> float:
    """The least time limit of the tasks of a batch: Kafka ends a transaction in half of it."""
    return 2 * (Options.of(settings.kafka.client).transaction_timeout_ms or TIMEOUT_MS) / 1000


@contextmanager
def monitored(
    settings: Settings,
    sources: SourceTopics,
    watch: Watch,
    past: RestartHistory | None,
    is_standby_ready: Callable[[], bool] | None,
) -> Iterator[tuple[Monitor, str | None]]:
    """The monitor and the address where it answers, if any. Raises JobError."""
    options = settings.monitoring
    about = About(
        query=settings.query.name,
        algorithm=settings.matching.algorithm,
        codec=", ".join(dict.fromkeys(topic.codec for topic in sources.events.values())),
        pid=os.getpid(),
        started_at=steady_s(),
        stalled_after_s=options.stalled_after_s,
        stuck_after_s=options.stuck_after_s,
        past=past,
        is_standby_ready=is_standby_ready,
    )
    kafka = settings.kafka
    with (
        closing(Client(kafka.bootstrap_servers, kafka.client, ANSWER_S)) as client,
        Monitor(about, sources, watch.ends, committed=partial(_reached, client, about.query)) as monitor,
        ExitStack() as last,
    ):
        if not options.enabled:
            yield monitor, None
            return
        console = _console(settings, monitor) if options.console else None
        server = last.enter_context(Server(options.host, options.port, monitor.view, console, _token(settings)))
        last.enter_context(checkpoint.announced(settings.query.checkpoint, server.url))
        log.info("monitoring_started", monitoring_url=server.url)
        yield monitor, server.url


def _token(settings: Settings) -> str:
    """Raises JobError."""
    token = secret_files.read("monitoring", {"token": settings.monitoring.token})["token"]
    try:
        return console_token(token)
    except ValueError as error:
        raise JobError(f"monitoring.token: {error}") from None


def _console(settings: Settings, monitor: Monitor) -> Console:
    return Console(
        cluster=Cluster.of(settings),
        tenants=tenants.of(settings),
        dead_letters_topic=settings.dead_letters.topic,
        max_per_event=settings.matching.max_per_event,
        snapshot=lambda: monitor.snapshot,
        look_up=monitor.look_up,
    )


def _reached(client: Client, query: str, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The offset that is committed now of each partition that has one. Raises JobError."""
    return {at: offset for at, (offset, _) in committed_offsets(client, query, partitions, stable=False).items()}


def observer(settings: Settings, monitor: Monitor, last: ExitStack) -> Observer:
    """The observers of each batch. `last` sends the remaining traces at the end.

    Call it once Spark's JVM runs: OpenTelemetry starts threads in every process that is forked from ours.
    """
    if not settings.monitoring.traces:
        return monitor
    from streaming.monitoring.tracing import Traces  # without traces, OpenTelemetry is not loaded

    traces = Traces(
        settings.monitoring.traces,
        settings.query.name,
        events=None if settings.events.by_topic else settings.events.topic,
        subscriptions=settings.subscriptions.topic,
    )
    return Observers(monitor, last.enter_context(traces))


def recorder(settings: Settings, monitor: Monitor, state: State, last: ExitStack) -> Observer:
    """The observer that keeps the metrics of subscribers, if there is to be one. `last` writes the remaining ones."""
    metrics = settings.metrics
    if not metrics.topic:
        return Observer()
    topic = MetricsTopic(Cluster.of(settings), metrics.topic, settings.query.name)
    limits = RecorderLimits(metrics.records_per_second, metrics.subscribers, counts_subscriptions=metrics.subscriptions)
    recorder = last.enter_context(SubscriberRecorder(topic, lambda: state.snapshot, limits))
    monitor.show_subscribers(recorder.view, recorder.look_up)
    return recorder


def _registry(settings: Settings) -> RegistrySettings | None:
    return RegistrySettings.of(settings.schema_registry.url, settings.schema_registry.options)


def names(settings: Settings, topics: Topics) -> TopicNames:
    """The names of topics, with the ids of the topics of subscriptions from the broker. Raises JobError."""
    sources = SourceTopics.of(settings)
    ids = topics.ids(sources.changes.values(), TIMEOUT_S)
    return TopicNames(
        sources=sources,
        statuses=settings.subscriptions.status_topic,
        dead_letters=settings.dead_letters.topic,
        delivery_topic=lru_cache(1 << 16)(DeliveryRule.of(settings.deliveries).topic),
        query=settings.query.name,
        subscriptions_ids={number: ids[tenant.topic] for number, tenant in sources.tenants.items()},
    )
