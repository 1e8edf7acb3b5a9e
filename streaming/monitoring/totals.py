"""List the counters of a job: the log line of a batch, spans, /status.json, /metrics, the page and `top` show these."""

from __future__ import annotations

from typing import NamedTuple


class Total(NamedTuple):
    """A counter since the start of the job."""

    key: str  # in reports, the log, spans and /status.json
    label: str  # on the page and in `top`
    metric: str = ""  # of Prometheus; none: metrics count it another way
    help: str = ""  # of the metric
    result: str = ""  # its label `result`, where several counters are one metric
    unit: str = ""


OF_CHANGES = "Changes of subscriptions, without those of a query's first start."

# Of all rows that were read.
READ = (
    Total("batches", "batches", "sluice_batches", "Batches that had rows."),
    Total("events", "events", "sluice_events", "Events read, those that cannot be decoded among them."),
    Total("read_bytes", "read", "sluice_read_bytes", "Keys and values of all that was read.", unit="bytes"),
)
# What a batch's report counts.
COUNTED = (
    Total("matched", "events that matched", "sluice_matched_events", "Events that some subscription matched."),
    Total("matches", "matches", "sluice_matches", "Pairs of an event and a subscription that matches it."),
    Total("deliveries", "deliveries", "sluice_deliveries", "Deliveries committed to the topics of subscribers."),
    Total("undecodable", "events not decoded"),  # dead letters by reason
    Total("changes", "changes accepted", "sluice_changes", OF_CHANGES, result="accepted"),
    Total("refused", "changes refused", "sluice_changes", OF_CHANGES, result="refused"),
    Total(
        "over_quota",
        "deliveries over quota",
        "sluice_deliveries_over_quota",
        "Deliveries over quotas.deliveries_per_second.",
    ),
    Total(
        "workers_lost",
        "workers lost",
        "sluice_workers_lost",
        "Times that workers died on a batch, or were killed because they hung.",
    ),
    Total(
        "workers_hung",
        "workers that hung",
        "sluice_workers_hung",
        "Times that workers were killed because they hung.",
    ),
    Total(
        "transactions_aborted",
        "transactions aborted",
        "sluice_transactions_aborted",
        "Aborted attempts at a transaction.",
    ),
    Total(
        "unreported",
        "events of lost tasks",
        "sluice_events_unreported",
        "Events committed by tasks that were lost before they reported, by offsets: no other counter has them.",
    ),
    Total(
        "deleted_unread",
        "events deleted unread",
        "sluice_events_deleted_unread",
        "Events deleted from their topic before they were read, by offsets: ends of transactions among them count too.",
    ),
    Total(
        "slot_transactions",
        "transactions of tasks",
        "sluice_slot_transactions",
        "Transactions that tasks committed, each in a slot.",
    ),
    Total(
        "published_bytes",
        "published by tasks",
        "sluice_published_bytes",
        "Record batches that tasks published, as brokers store them.",
        unit="bytes",
    ),
)
TOTALS = (*READ, *COUNTED)
LABELS = {total.key: total.label for total in TOTALS}
