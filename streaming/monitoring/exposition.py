"""The metrics for Prometheus, with its conventions for names, units and types; labels name listed subscribers only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streaming.documents.records import OF_DELIVERIES, REASONS
from streaming.documents.subscriber_metrics import SubscriberMetrics
from streaming.latencies import Latencies
from streaming.monitoring import status
from streaming.monitoring.figures import Figures
from streaming.monitoring.metrics import COUNTERS, GAUGES, JobMetric
from streaming.monitoring.status import Document
from streaming.monitoring.view import JobView
from streaming.version import VERSION, revision

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Exposition(Collector):
    """`page(accept)` is the type and the bytes that a request with that Accept header gets."""

    def __init__(self, view: Callable[[], JobView]) -> None:
        self._view = view
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def collect(self) -> Iterable[Family]:
        return families(self._view())

    def page(self, accept: str) -> tuple[str, bytes]:
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is none
            encode, content_type = choose_encoder("")
        return content_type, encode(self._registry)


def families(view: JobView) -> Iterator[Family]:
    about, figures, document = view.about, view.figures, status.document(view)
    yield InfoMetricFamily(
        "sluice_build",
        "Version of Sluice, the commit of its image, and the query, algorithm and codec that it runs; the value is 1.",
        {
            "version": VERSION,
            "revision": revision(),
            "query": about.query,
            "algorithm": about.algorithm,
            "codec": about.codec,
        },
    )
    for new, sections in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
        for section, metrics in sections.items():
            yield from _of_section(new, metrics, document[section] if section else document)
    yield from _of_batches(figures)
    yield from _of_executors(view)
    position = GaugeMetricFamily(
        "sluice_position_records",
        "Next offset that the job processes. Its derivative (deriv) is the number of offsets processed per second; a "
        "restart may lower it.",
        labels=["topic", "partition"],
    )
    for partition in view.lag:
        position.add_metric([partition.topic, str(partition.partition)], partition.position)
    yield position
    lag = GaugeMetricFamily(
        "sluice_lag_records",
        "Lag: records in the topic that are not processed yet. No samples while the broker does not answer.",
        labels=["topic", "partition"],
    )
    for partition in view.lag if view.broker.unknown_since is None else ():
        lag.add_metric([partition.topic, str(partition.partition)], partition.records)
    yield lag
    if view.subscribers is not None and view.subscribers.is_whole:
        yield from _of_subscribers(view.subscribers.shown)
    if view.state is not None:
        compactions = _histogram(view.state.compactions)
        yield HistogramMetricFamily(
            "sluice_state_compaction_duration_seconds", "Duration of compactions.", *compactions
        )


def _of_section(new: Callable[..., Any], metrics: Iterable[JobMetric], values: Document | None) -> Iterable[Family]:
    """Families with the values of a section of the status, which may be null."""
    families: dict[str, Any] = {}
    for metric in metrics:
        value = metric.without if values is None else values[metric.key]
        if metric.metric and value is not None:
            family = families.setdefault(metric.metric, new(metric.metric, metric.help, labels=metric.labels))
            for labels, number in _samples(value, metric.result):
                family.add_metric(labels, number)
    return families.values()


def _samples(value: Any, labels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    """The numbers of a value that may be a mapping or a mapping of mappings, each with its labels."""
    if isinstance(value, Mapping):
        for label, inner in value.items():
            yield from _samples(inner, (*labels, label))
    else:
        yield labels, value


def _of_batches(figures: Figures) -> Iterator[Family]:
    letters = {reason: figures.dead_letters.get(reason, 0) for reason in REASONS}
    yield _counters(
        "sluice_dead_letters", "Dead letters, without the dead letters of a query's first start.", letters, "reason"
    )
    help = "Time that tasks spent on encoding deliveries as record batches, summed over all tasks."
    yield CounterMetricFamily("sluice_publish_encoding_seconds", help, figures.encoded_ms / 1000)
    phases = {what.removesuffix("_ms"): ms / 1000 for what, ms in figures.spent_ms.items() if what != "duration_ms"}
    yield _counters("sluice_batch_phase_seconds", "Time that batches spent in some of their phases.", phases, "phase")
    help = "Share of deliveries of the last batch that might be wrong; 0 if matching is exact."
    yield GaugeMetricFamily("sluice_false_positives_ratio", help, figures.false_positives)
    help = "Duration of batches that had rows, without Spark's part."
    yield HistogramMetricFamily("sluice_batch_duration_seconds", help, *_histogram(figures.durations))
    latency = HistogramMetricFamily(
        "sluice_event_latency_seconds",
        "Latency of events that matched, by stage: wait for the batch, match, publish, commit. The stage total is from "
        "the event's timestamp to the commit. Events whose timestamp is over a year old or an hour ahead are left out.",
        labels=["stage"],
    )
    for stage, latencies in figures.latencies.items():
        latency.add_metric([stage], *_histogram(latencies))
    yield latency


def _of_executors(view: JobView) -> Iterator[Family]:
    """Metrics of the executors that run now, so labels stay few where executors come and go."""
    executors, labels = view.progress.executors, ["executor", "host"]
    yield GaugeMetricFamily("sluice_executors", "Running executors of Spark.", len(executors))
    tasks = CounterMetricFamily(
        "sluice_executor_tasks", "Tasks that an executor has finished, failed ones included.", labels=labels
    )
    help = "Deliveries committed by the tasks of an executor."
    deliveries = CounterMetricFamily("sluice_executor_deliveries", help, labels=labels)
    for executor in executors:
        of = [executor.id, executor.host]
        tasks.add_metric(of, executor.done + executor.failed)
        deliveries.add_metric(of, view.figures.executors.get(executor.id, 0))
    yield tasks
    yield deliveries


def _of_subscribers(shown: Iterable[SubscriberMetrics]) -> Iterator[Family]:
    """Metrics of the subscribers of `metrics.subscribers`, over all restarts."""
    labels = ["subscriber"]
    deliveries, size, matches, letters = (
        CounterMetricFamily(
            f"sluice_subscriber_{name}", f"{help} `metrics.subscribers` lists the subscribers.", labels=of
        )
        for name, help, of in (
            ("deliveries", "Deliveries committed for a subscriber.", labels),
            ("delivered_bytes", "Size of a subscriber's deliveries with headers, before compression.", labels),
            ("matches", "Pairs of an event and a subscription of the subscriber.", labels),
            ("dead_letters", "Deliveries to a subscriber that became dead letters.", [*labels, "reason"]),
        )
    )
    help = "Latest timestamp of an event that the subscriber's subscriptions match."
    last = GaugeMetricFamily("sluice_subscriber_last_event_timestamp_seconds", help, labels=labels)
    for one in shown:
        of = [one.subscriber]
        deliveries.add_metric(of, one.deliveries)
        size.add_metric(of, one.size_bytes)
        matches.add_metric(of, one.matches)
        for reason in OF_DELIVERIES:
            letters.add_metric([*of, reason], one.dead_letters.get(reason, 0))
        if one.last_event_ms:
            last.add_metric(of, one.last_event_ms / 1000)
    yield from (deliveries, size, matches, letters, last)


def _histogram(latencies: Latencies) -> tuple[list[tuple[str, float]], float]:
    counts = latencies.below([1000 * bound for bound in BOUNDS_S])
    bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    return list(zip(bounds, map(float, counts), strict=True)), latencies.sum_ms / 1000


def _counters(name: str, help: str, values: Mapping[str, float], label: str) -> Family:
    family = CounterMetricFamily(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
