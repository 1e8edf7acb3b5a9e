"""List the metrics of a job: the log line of a batch, spans, /status.json, /metrics, the page and `top` show these."""

from __future__ import annotations

from typing import NamedTuple


class JobMetric(NamedTuple):
    """A value in a section of /status.json."""

    key: str  # there; a counter's in reports and spans too
    label: str = ""  # on the page and in `top`; none: they show it another way
    metric: str = ""  # of Prometheus; none: metrics count it another way
    help: str = ""  # of the metric
    unit: str = ""
    labels: tuple[str, ...] = ()  # the metric's, where the value is a mapping, or several counters are one metric
    result: tuple[str, ...] = ()  # of a counter that is one of several: the value of the label `result`
    without: float | None = None  # the metric's value while the section is null
    logged: str = ""  # the field in the log line of a batch


OF_CHANGES = "Changes of subscriptions, without the changes that a query reads at its first start."

# Of all rows that were read.
READ = (
    JobMetric("batches", "batches", "sluice_batches", "Batches that had rows."),
    JobMetric("events", "events", "sluice_events", "Events read, undecodable ones included."),
    JobMetric(
        "read_bytes", "read", "sluice_read_bytes", "Size of the keys and values of all records read.", unit="bytes"
    ),
)
# What a batch's report counts.
COUNTED = (
    JobMetric(
        "matched",
        "events that matched",
        "sluice_matched_events",
        "Events that some subscription matched.",
        logged="matched_event_count",
    ),
    JobMetric(
        "matches",
        "matches",
        "sluice_matches",
        "Pairs of an event and a subscription that matches it.",
        logged="match_count",
    ),
    JobMetric(
        "deliveries",
        "deliveries",
        "sluice_deliveries",
        "Deliveries committed to the topics of subscribers.",
        logged="delivery_count",
    ),
    JobMetric("undecodable", "events not decoded", logged="undecodable_count"),  # dead letters by reason
    JobMetric(
        "changes",
        "changes accepted",
        "sluice_changes",
        OF_CHANGES,
        labels=("result",),
        result=("accepted",),
        logged="change_count",
    ),
    JobMetric(
        "rejected",
        "changes rejected",
        "sluice_changes",
        OF_CHANGES,
        labels=("result",),
        result=("rejected",),
        logged="rejected_change_count",
    ),
    JobMetric(
        "over_quota",
        "deliveries over quota",
        "sluice_deliveries_over_quota",
        "Deliveries over quotas.deliveries_per_second.",
        logged="over_quota_count",
    ),
    JobMetric(
        "workers_lost",
        "workers lost",
        "sluice_workers_lost",
        "Number of times that workers died on a batch, or were killed because they hung.",
        logged="workers_lost_count",
    ),
    JobMetric(
        "workers_hung",
        "workers that hung",
        "sluice_workers_hung",
        "Number of times that workers were killed because their batch took far too long.",
        logged="workers_hung_count",
    ),
    JobMetric(
        "transactions_aborted",
        "transactions aborted",
        "sluice_transactions_aborted",
        "Aborted attempts at a transaction.",
        logged="aborted_transaction_count",
    ),
    JobMetric(
        "deleted_unread",
        "events deleted unread",
        "sluice_events_deleted_unread",
        "Offsets of events that were deleted before they were read; markers of transactions among them count too.",
        logged="deleted_event_count",
    ),
    JobMetric(
        "slot_transactions",
        "transactions of tasks",
        "sluice_slot_transactions",
        "Transactions that tasks committed, each in a slot.",
        logged="slot_transaction_count",
    ),
    JobMetric(
        "published_bytes",
        "published by tasks",
        "sluice_published_bytes",
        "Record batches that tasks published, as brokers store them.",
        unit="bytes",
        logged="published_bytes",
    ),
)
TOTALS = (*READ, *COUNTED)
LABELS = {total.key: total.label for total in TOTALS}

STATE = (
    JobMetric(
        "subscriptions",
        "subscriptions",
        "sluice_subscriptions",
        "Subscriptions, paused ones included.",
        logged="subscription_count",
    ),
    JobMetric(
        "version",
        "version",
        "sluice_state_version",
        "Changes that the state includes, counted by offsets.",
        logged="state_version",
    ),
    JobMetric("segments", "segments", "sluice_state_segments", "Segments of the state.", logged="segment_count"),
    JobMetric(
        "bytes",
        "size of the segments",
        "sluice_state_bytes",
        "Size of the segments, as the workers of each host load them.",
        unit="bytes",
    ),
    JobMetric("compactions", "compactions"),  # in a histogram
    JobMetric(
        "saved_at",
        "last saved",
        "sluice_state_saved_timestamp_seconds",
        "Time of the last save of the state.",
        unit="epoch_s",
    ),
    JobMetric(
        "unsaved_s",
        "oldest unsaved change",
        "sluice_state_unsaved_seconds",
        "Age of the oldest unsaved change of the state; 0 if all changes are saved.",
        unit="s",
    ),
)

# By section of the status; "" is its top level.
COUNTERS = {
    "totals": TOTALS,
    "job": (
        JobMetric(
            "restarts",
            "restarts",
            "sluice_restarts",
            "Number of times that the supervisor had restarted the job or its standby when this process started.",
        ),
    ),
    "": (
        JobMetric(
            "publish_errors",
            metric="sluice_publish_errors",
            help="Requests of tasks to brokers that failed and succeeded later.",
            labels=("request", "error"),
        ),
    ),
}
GAUGES = {
    "health": (JobMetric("ok", metric="sluice_healthy", help="1 if the job is alive, as /health reports, else 0."),),
    "ready": (JobMetric("ok", metric="sluice_ready", help="1 if the job is ready, as /ready reports, else 0."),),
    "job": (
        JobMetric(
            "start_s",
            "start took",
            "sluice_start_duration_seconds",
            "Time from the start of monitoring until the query ran; start_s in the log is from the command on.",
        ),
        JobMetric(
            "standby_ready",
            metric="sluice_standby_ready",
            help="1 if a process stands by that has prepared everything, else 0; only with `run --standby`.",
        ),
    ),
    "state": STATE,
    "preparation": (
        JobMetric(
            "for_s",
            metric="sluice_without_index_seconds",
            help="Time for which events have been matched without the index of the settings, while kernels are "
            "compiled and the index is built; 0 once the index is in use.",
            without=0,
        ),
    ),
    "in_hand": (
        JobMetric(
            "without_progress_s",
            metric="sluice_batch_without_progress_seconds",
            help="Time for which the current batch has made no progress in its stage; 0 between two batches.",
            without=0,
        ),
    ),
    "broker": (
        JobMetric(
            "answered_at",
            metric="sluice_broker_answered_timestamp_seconds",
            help="Time of the broker's last answer with the end offsets of the topics.",
        ),
    ),
    "spark": (
        JobMetric("heap_bytes", metric="sluice_jvm_heap_bytes", help="Heap of the driver's JVM.", labels=("area",)),
    ),
    "": (
        JobMetric(
            "last_batch_at", metric="sluice_last_batch_timestamp_seconds", help="Time of the end of the last batch."
        ),
        JobMetric(
            "resident_bytes",
            metric="sluice_processes_resident_bytes",
            help="Resident memory of the driver's child processes; shared memory counts in each.",
            labels=("role",),
        ),
    ),
}
