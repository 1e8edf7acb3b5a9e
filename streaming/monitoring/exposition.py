"""The metrics for Prometheus, with its conventions for names, units and types; no label names a subscriber."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streaming.documents.records import REASONS
from streaming.latencies import Latencies
from streaming.monitoring.figures import Figures
from streaming.monitoring.reporting import by_request
from streaming.monitoring.totals import TOTALS
from streaming.monitoring.verdicts import ailing, unsaved_s, waiting, without_progress_s
from streaming.monitoring.view import JobView, StateView
from streaming.version import VERSION

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Exposition:
    """`page(accept)` is the type and the bytes that a request with that Accept header gets."""

    def __init__(self, view: Callable[[], JobView]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Job(view))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def page(self, accept: str) -> tuple[str, bytes]:
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


class _Job(Collector):
    def __init__(self, view: Callable[[], JobView]) -> None:
        self._view = view

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        return families(self._view())


def families(view: JobView) -> Iterator[Metric]:
    about, figures, broker, progress = view.about, view.figures, view.broker, view.progress
    yield InfoMetricFamily(
        "sluice_build",
        "Which Sluice this is, and what it runs.",
        {"version": VERSION, "query": about.query, "algorithm": about.algorithm, "codec": about.codec},
    )
    yield _gauge("sluice_ready", "1 if the job is ready, as /ready says.", float(not waiting(view)))
    yield _gauge("sluice_healthy", "1 if the job is alive, as /health says.", float(not ailing(view)))
    if view.start_s is not None:
        yield _gauge("sluice_start_duration_seconds", "From the start of the job until it ran.", view.start_s)
    if about.past is not None:
        yield _counter("sluice_restarts", "Times that the supervisor started the job again.", about.past.restarts)

    yield from _totals(figures)
    letters = {reason: figures.dead_letters.get(reason, 0) for reason in REASONS}
    yield _counters("sluice_dead_letters", "Dead letters, without those of a query's first start.", letters, "reason")
    help = "Requests of tasks to the brokers that failed and succeeded later, by error."
    failed = CounterMetricFamily("sluice_publish_errors", help, labels=["request", "error"])
    for request, errors in by_request(figures.publish_errors).items():
        for error, number in errors.items():
            failed.add_metric([request, error], number)
    yield failed
    help = "Time in which tasks encoded deliveries as record batches, all tasks together."
    yield _counter("sluice_publish_encoding_seconds", help, figures.encoded_ms / 1000)

    latency = HistogramMetricFamily(
        "sluice_event_latency_seconds",
        "Of events that matched, by stage: wait for the batch, match, publish, commit. The stage total is from the "
        "event's timestamp to the commit. Without events whose timestamp is over a year old or an hour ahead.",
        labels=["stage"],
    )
    for stage, latencies in figures.latencies.items():
        latency.add_metric([stage], *_histogram(latencies))
    yield latency
    durations = HistogramMetricFamily(
        "sluice_batch_duration_seconds", "Duration of batches that had rows, without Spark's part."
    )
    durations.add_metric([], *_histogram(figures.durations))
    yield durations
    phases = {what.removesuffix("_ms"): ms / 1000 for what, ms in figures.spent_ms.items() if what != "batch_ms"}
    yield _counters("sluice_batch_phase_seconds", "Time that batches spent in some of their phases.", phases, "phase")
    if figures.last_batch_at is not None:
        yield _gauge("sluice_last_batch_timestamp_seconds", "When the last batch was done.", figures.last_batch_at)
    yield _gauge(
        "sluice_batch_without_progress_seconds",
        "Time for which the current batch has made no progress in its stage; 0 between two batches.",
        without_progress_s(view),
    )
    yield _gauge(
        "sluice_without_index_seconds",
        "Time for which events have been matched without the index of the settings, while kernels are compiled and the "
        "index is built; 0 with it.",
        0.0 if view.preparation is None else max(0.0, view.now - view.preparation.since),
    )
    yield _gauge(
        "sluice_false_positives_ratio",
        "The share of deliveries that might be wrong, of the last batch; 0 where matching is exact.",
        figures.false_positives,
    )

    lag = GaugeMetricFamily(
        "sluice_lag_records",
        "Lag: records that are in the topic and not processed. Without samples while the broker does not answer.",
        labels=["topic", "partition"],
    )
    for partition in view.lag if broker.unknown_since is None else ():
        lag.add_metric([partition.topic, str(partition.partition)], partition.records)
    yield lag
    if broker.answered_at is not None:
        help = "Time of the broker's last answer about the ends of the topics."
        yield _gauge("sluice_broker_answered_timestamp_seconds", help, broker.answered_at)

    if view.state is not None:
        yield from _of_state(view.state)
        help = "Age of the oldest change that no save of the state has; 0 if all are saved."
        yield _gauge("sluice_state_unsaved_seconds", help, unsaved_s(view))

    help = "Rows a second that Spark's query read in its last batch."
    yield _gauge("sluice_spark_input_rows_per_second", help, progress.rows_per_s_read)
    help = "Rows a second that Spark's query processed in its last batch."
    yield _gauge("sluice_spark_processed_rows_per_second", help, progress.rows_per_s_done)
    help = "Phases of the last batch of Spark's query, by Spark's names."
    yield _gauges("sluice_spark_phase_seconds", help, progress.phases_s, "phase")
    yield _gauges("sluice_jvm_heap_bytes", "Heap of the driver's JVM.", progress.heap_bytes, "area")
    yield from _of_executors(view)
    help = "Memory of the processes below the driver; what they share counts in each."
    yield _gauges("sluice_processes_resident_bytes", help, view.resident_bytes, "role")


def _totals(figures: Figures) -> Iterable[Metric]:
    totals, found = figures.totals(), dict[str, CounterMetricFamily]()
    for total in TOTALS:
        if total.metric:
            labels = {"result": total.result} if total.result else {}
            new = CounterMetricFamily(total.metric, total.help, labels=[*labels])
            found.setdefault(total.metric, new).add_metric([*labels.values()], totals[total.key])
    return found.values()


def _of_state(state: StateView) -> Iterator[Metric]:
    yield _gauge("sluice_state_version", "Changes that the state takes into account, by offsets.", state.version)
    yield _gauge("sluice_subscriptions", "Subscriptions, paused ones included.", state.subscriptions)
    yield _gauge("sluice_state_parts", "Parts that the state consists of.", state.parts)
    yield _gauge("sluice_state_bytes", "Size of the parts, as the workers of each host load them.", state.bytes)
    if state.saved_at is not None:
        yield _gauge("sluice_state_saved_timestamp_seconds", "When the state was last saved.", state.saved_at)
    joins = HistogramMetricFamily("sluice_state_join_duration_seconds", "Duration of compactions.")
    joins.add_metric([], *_histogram(state.joins))
    yield joins


def _of_executors(view: JobView) -> Iterator[Metric]:
    """Only of executors that run now, so labels stay few where executors come and go."""
    executors, labels = view.progress.executors, ["executor", "host"]
    yield _gauge("sluice_executors", "Executors of Spark that run now.", len(executors))
    tasks = CounterMetricFamily(
        "sluice_executor_tasks", "Tasks that an executor has done, failed ones too.", labels=labels
    )
    help = "Deliveries committed by the tasks of an executor."
    deliveries = CounterMetricFamily("sluice_executor_deliveries", help, labels=labels)
    for executor in executors:
        of = [executor.id, executor.host]
        tasks.add_metric(of, executor.done + executor.failed)
        deliveries.add_metric(of, view.figures.executors.get(executor.id, 0))
    yield tasks
    yield deliveries


def _histogram(latencies: Latencies) -> tuple[list[tuple[str, float]], float]:
    counts = latencies.below([1000 * bound for bound in BOUNDS_S])
    bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    return list(zip(bounds, map(float, counts), strict=True)), latencies.sum_ms / 1000


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value)


def _gauges(name: str, help: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counters(name: str, help: str, values: Mapping[str, float], label: str) -> Metric:
    family = CounterMetricFamily(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
