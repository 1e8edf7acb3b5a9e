"""The catalogue of log lines: the name of each event, its level, its fields, its meaning, and what to do about it.

The meaning is the `message` of warnings, of errors, and of lines whose name does not suffice. docs/log-events.md is
generated from this module.
"""

from __future__ import annotations

from typing import NamedTuple

ERROR = ("error_type", "error")  # `log.error_fields`

OF_PROCESS, OF_STATE, OF_BATCHES = "Start and end", "State and index", "Batches"
OF_TOPICS, OF_MONITORING = "Topics and the broker", "Monitoring"


class LogEvent(NamedTuple):
    section: str  # of the page
    level: str
    meaning: str
    fields: tuple[str, ...] = ()
    action: str = ""  # what to do; nothing if empty
    has_message: bool = False  # at level info too
    json_only: tuple[str, ...] = ()  # fields that the text format leaves out
    if_not_zero: tuple[str, ...] = ()  # fields that the text format has only if they are not zero or empty

    def message(self) -> str:
        """The sentence for people; empty if the name suffices."""
        return self.meaning if self.has_message or self.level in ("warning", "error") else ""


BOUND = {  # fields of every JSON line
    "query": "`query.name`",
    "version": "version of Sluice",
    "pid": "process id of the driver or of its supervisor",
}
# Fields of `batch_finished` that the text format leaves out.
_DETAILS = (
    *("matched_event_count", "slot_transaction_count", "published_bytes", "prepare_ms", "apply_ms", "encode_ms"),
    *("latency_histograms", "segment_count"),
)
_UNUSUAL = (
    *("change_count", "rejected_change_count", "undecodable_count", "over_quota_count", "workers_lost_count"),
    *("workers_hung_count", "aborted_transaction_count", "deleted_event_count", "dead_letter_counts"),
    *("publish_error_counts", "false_positive_ratio"),
)
_USUAL = (
    *("batch_id", "event_count", "match_count", "delivery_count", "duration_ms", "latency_ms", "state_version"),
    "subscription_count",
)

EVENTS = {
    "process_started": LogEvent(
        OF_PROCESS, "info", "The command `run` started. `role` is `job` or `supervisor`.", ("role", *BOUND)
    ),
    "monitoring_started": LogEvent(
        OF_PROCESS,
        "info",
        "The job answers requests for its status, metrics and console at this address.",
        ("monitoring_url",),
    ),
    "standby_ready": LogEvent(
        OF_PROCESS,
        "info",
        "Another job runs on the checkpoint. This process has prepared everything and starts once that one has ended.",
        ("start_s",),
        has_message=True,
    ),
    "standby_started": LogEvent(
        OF_PROCESS, "info", "The other job has ended, and this process starts its own. `job_started` follows."
    ),
    "kernels_awaited": LogEvent(
        OF_PROCESS,
        "info",
        "Another process compiles kernels into the same cache. This one waits until the lock at `path` is free.",
        ("path",),
        action="If it takes minutes, look for a suspended process that holds the lock (`lsof PATH`), and end it.",
        has_message=True,
    ),
    "kernels_compiling": LogEvent(
        OF_PROCESS,
        "info",
        "A first start on this machine compiles kernels before the job runs; later starts load them. estimate_s holds "
        "for free cores.",
        ("algorithms", "estimate_s"),
        action="Wait, or compile them beforehand with `warm`.",
        has_message=True,
    ),
    "kernels_compiled": LogEvent(
        OF_PROCESS,
        "info",
        "The kernels of an algorithm, or those that publish or read records, are compiled.",
        ("algorithm", "kernel_count", "cpu_s"),
    ),
    "job_started": LogEvent(
        OF_PROCESS,
        "info",
        "The job processes batches. `index` is the index in use.",
        ("state_version", "subscription_count", "algorithm", "index", "monitoring_url", "start_s"),
    ),
    "job_stopping": LogEvent(
        OF_PROCESS,
        "info",
        "The job finishes the current batch and saves its state.",
        ("reason",),
        has_message=True,
    ),
    "batch_awaited": LogEvent(
        OF_PROCESS,
        "warning",
        "The job waits for the end of the current batch before it stops.",
        ("hint",),
        action="Wait. A second signal ends the job at once; the next start repeats the uncommitted batch.",
    ),
    "job_stopped": LogEvent(
        OF_PROCESS, "info", "The state is saved, and Spark has stopped. Nothing is left to commit."
    ),
    "class_archive_writing": LogEvent(
        OF_PROCESS,
        "info",
        "After the first run on a machine the JVM writes an archive of its classes, with which later starts are "
        "faster. This takes up to a minute.",
        ("timeout_s",),
        action="Wait. Ending the process is safe: the next run writes the archive.",
        has_message=True,
    ),
    "class_archive_written": LogEvent(
        OF_PROCESS, "info", "The JVM has written the archive of its classes.", ("duration_s",)
    ),
    "class_archive_failed": LogEvent(
        OF_PROCESS,
        "warning",
        "The JVM did not finish the archive of its classes in time; the next run writes it.",
        ("timeout_s",),
    ),
    "job_failed": LogEvent(
        OF_PROCESS,
        "error",
        "An error ended the job.",
        (*ERROR, "uptime_s"),
        action="Read `error`. After exit code 75 another start may succeed; otherwise remove the cause first.",
    ),
    "process_exited": LogEvent(
        OF_PROCESS, "info", "The last line of a process that ended in order.", ("exit_code", "uptime_s")
    ),
    "job_restarted": LogEvent(
        OF_PROCESS,
        "warning",
        "The job ended, and the supervisor starts it again after a pause.",
        ("exit_code", "uptime_s", "pause_s"),
        action="If it recurs, look for the cause: a negative exit code is a signal, often for lack of memory; 75 is a "
        "temporary failure of the broker, a disk or Spark's JVM, which `job_failed` names.",
    ),
    "job_blocked": LogEvent(
        OF_PROCESS,
        "error",
        "The job ended, and the supervisor waits until the obstacle is gone.",
        ("exit_code", "uptime_s", "obstacle"),
        action="Remove the obstacle, such as a full disk; the job then starts by itself.",
    ),
    "job_unblocked": LogEvent(OF_PROCESS, "info", "The obstacle is gone, and the supervisor starts the job."),
    "start_refused": LogEvent(
        OF_PROCESS,
        "error",
        "The system has no process, memory or file descriptor for the job now. The supervisor tries again.",
        (*ERROR, "pause_s"),
        action="Raise the limit that `error` names, such as `TasksMax` or `ulimit -n`.",
    ),
    "restart_prepared": LogEvent(
        OF_PROCESS,
        "info",
        "A process has loaded the code of a job. A job that is restarted while no other process runs is forked from "
        "it, and ends with it.",
        ("duration_s",),
    ),
    "restart_unprepared": LogEvent(
        OF_PROCESS,
        "warning",
        "The process from which a restart is forked has not started, was killed, or cannot import the code. A restart "
        "takes longer.",
        ("reason", "retry_s"),
        action="If it recurs, check the memory and the disk of the host. After an upgrade in place, restart the "
        "supervisor.",
    ),
    "jvm_start_failed": LogEvent(
        OF_PROCESS,
        "warning",
        "Spark's JVM ended while it started; the job tries again.",
        ("exit_code",),
        action="If all attempts fail, check JAVA_HOME (Java 17 or newer) and the driver options in `spark.options`.",
    ),
    "warm_up_failed": LogEvent(
        OF_PROCESS,
        "warning",
        "Workers were killed while they loaded kernels and state; the first batch starts others.",
        ERROR,
        action="If it recurs, raise `spark.worker_memory_mb`.",
    ),
    "executor_packages_unknown": LogEvent(
        OF_PROCESS, "warning", "No executor reported the versions of its Python packages.", ERROR
    ),
    "executor_packages_differ": LogEvent(
        OF_PROCESS,
        "warning",
        "An executor has other versions of Python packages than the driver.",
        ("host", "packages"),
        action="Install the driver's versions on all hosts, or ship one environment to all of them.",
    ),
    "state_built": LogEvent(
        OF_STATE,
        "info",
        "The subscriptions were read from their topic, without a saved state.",
        ("subscription_count", "duration_s"),
    ),
    "state_restored": LogEvent(
        OF_STATE,
        "info",
        "The subscriptions were read from the saved state and from later changes in their topic.",
        ("subscription_count", "duration_s"),
    ),
    "subscriptions_loading": LogEvent(
        OF_STATE,
        "info",
        "Progress in reading the topic of subscriptions.",
        ("offset_count", "offset_total"),
    ),
    "subscriptions_lost": LogEvent(
        OF_STATE,
        "warning",
        "Some active subscriptions are gone: compaction of their topic kept a later, rejected change in place of each, "
        "or the settings of their tenant reject them.",
        ("subscription_count", "subscription_ids"),
        action="Subscribe them again, or correct the settings of the tenant.",
    ),
    "saved_state_rejected": LogEvent(
        OF_STATE,
        "warning",
        "A saved state cannot be used; the job takes an older one, or reads the topic of subscriptions.",
        ("file", "reason", *ERROR),
        action="Nothing is lost. A corrupted file points to the disk.",
    ),
    "state_save_failed": LogEvent(
        OF_STATE,
        "warning",
        "The state was not saved. Deliveries continue; the job tries again, and a start reads unsaved changes from the "
        "topic.",
        ERROR,
        action="Check the disk or the store of `query.checkpoint`.",
    ),
    "state_save_recovered": LogEvent(OF_STATE, "info", "The state is saved again after a failure."),
    "index_preparing": LogEvent(
        OF_STATE,
        "info",
        "The index of the settings is prepared in the background; until it is ready, events are matched with a slower "
        "algorithm.",
        ("algorithms", "fallback_algorithm", "estimate_s"),
        action="Wait, or compile its kernels beforehand with `warm`.",
        has_message=True,
    ),
    "index_building": LogEvent(OF_STATE, "info", "An index over all subscriptions is built.", ("algorithm",)),
    "index_ready": LogEvent(
        OF_STATE,
        "info",
        "Events are matched with the index of the settings. `duration_s` is the time without it.",
        ("index", "duration_s"),
    ),
    "index_chosen": LogEvent(
        OF_STATE,
        "info",
        "`auto` chose an algorithm for a segment; `message` has its reason. For small segments the level is debug.",
    ),
    "segments_compacted": LogEvent(
        OF_STATE,
        "info",
        "Segments of the state were merged into one.",
        ("subscription_count", "segment_count", "duration_s", "index"),
    ),
    "compaction_failed": LogEvent(
        OF_STATE,
        "warning",
        "Segments were not merged; the job tries again later.",
        ERROR,
        action="Check the free space on the disk of `query.checkpoint`.",
    ),
    "compaction_cancelled": LogEvent(
        OF_STATE,
        "info",
        "The job stops and cancels a compaction; the next run repeats it.",
        ("segment_count",),
    ),
    "background_process_replaced": LogEvent(
        OF_STATE,
        "warning",
        "A background process (loading, compaction, compilation) was killed; another repeats its work.",
        ERROR,
        action="Often lack of memory: see the kernel's log, and give the driver's host more memory.",
    ),
    "batch_bytes_reduced": LogEvent(
        OF_BATCHES,
        "info",
        "A topic rejects record batches as too large, and gets smaller ones.",
        ("topics",),
        action="For fewer aborted transactions set batch.size in kafka.client to max.message.bytes of the topic.",
    ),
    "batch_finished": LogEvent(
        OF_BATCHES,
        "info",
        "A batch is committed.",
        (*_USUAL, *_UNUSUAL, *_DETAILS),
        json_only=_DETAILS,
        if_not_zero=_UNUSUAL,
    ),
    "batch_limit_changed": LogEvent(
        OF_BATCHES,
        "info",
        "Batches have another maximum number of events, because the index in use is faster or slower.",
        ("event_limit", "index"),
    ),
    "batch_stalled": LogEvent(
        OF_BATCHES,
        "warning",
        "The current batch makes no progress (`monitoring.stuck_after_s`).",
        ("batch_id", "stage", "stalled_s", "hint"),
        action="Check the component that `hint` names.",
    ),
    "batch_resumed": LogEvent(
        OF_BATCHES, "info", "A stalled batch makes progress.", ("batch_id", "stage", "stalled_s")
    ),
    "workers_lost": LogEvent(
        OF_BATCHES,
        "warning",
        "Spark's Python workers died on these rows. The job matches smaller ranges to find the row that kills them.",
        (*ERROR, "row_count"),
        action="If `error` names memory, raise `spark.worker_memory_mb` or lower `events.max_per_batch`. An event that "
        "no worker survives becomes a dead letter (`poison_event`).",
    ),
    "workers_retried": LogEvent(
        OF_BATCHES,
        "warning",
        "Spark's Python workers died; others match the same rows.",
        ERROR,
        action="After a line `killed worker` the worker was suspended, or waited for a disk or a lock: check the host.",
    ),
    "workers_hung": LogEvent(
        OF_BATCHES,
        "warning",
        "Tasks took ten times as long as in any of the last hundred batches, or four minutes at a start, so their "
        "workers are killed and they are repeated. Nothing is lost.",
        ("duration_s",),
        action="Check the host: its disks, its memory, its load.",
    ),
    "publish_retried": LogEvent(
        OF_BATCHES,
        "warning",
        "A task could not publish; its part of the batch is repeated.",
        ERROR,
        action="If it recurs, check the brokers and the permissions.",
    ),
    "transaction_retried": LogEvent(
        OF_BATCHES,
        "warning",
        "A transaction of the driver was aborted and is repeated.",
        ERROR,
        action="If it recurs, check the brokers.",
    ),
    "timestamps_unreadable": LogEvent(
        OF_BATCHES,
        "warning",
        "Spark cannot represent a timestamp of this batch, so tasks read the batch themselves.",
        ("batch_id", *ERROR),
        action="Correct the clock of the producer that writes such timestamps.",
    ),
    "events_deleted": LogEvent(
        OF_TOPICS,
        "warning",
        "Events were deleted from their topic before the job read them; they are not delivered.",
        ("topic", "partition", "offset_from", "offset_to", "offset_count"),
        action="Raise the retention of the topic above the longest lag of the job.",
    ),
    "topic_offsets_missing": LogEvent(
        OF_TOPICS,
        "warning",
        "The query has no committed offset for a topic, which is new to it or was deleted and recreated; the job reads "
        "it from its first record.",
        ("topic",),
    ),
    "topics_added": LogEvent(OF_TOPICS, "info", "The job reads new topics of events.", ("topics",)),
    "topics_unreadable": LogEvent(
        OF_TOPICS,
        "warning",
        "The broker does not describe new topics of events; the job tries again.",
        ("topics", *ERROR),
    ),
    "output_topic_failed": LogEvent(
        OF_TOPICS,
        "warning",
        "The topic of a subscriber cannot be created; its deliveries become dead letters.",
        ("topic", "error"),
        action="Read `error`; create the topic or correct the name of the subscriber, then redrive the dead letters.",
    ),
    "topic_list_unavailable": LogEvent(
        OF_TOPICS, "warning", "The broker does not list its topics; the job uses the last list.", ERROR
    ),
    "end_offsets_unavailable": LogEvent(
        OF_TOPICS,
        "warning",
        "The broker does not report the ends of the topics, so the lag is unknown.",
        ERROR,
        action="Check the broker.",
    ),
    "first_offsets_unavailable": LogEvent(
        OF_TOPICS,
        "warning",
        "The broker does not report the first offsets of topics; the job repeats the request.",
        ERROR,
    ),
    "committed_offsets_unavailable": LogEvent(
        OF_TOPICS, "debug", "The broker does not report the offsets that tasks have committed.", ERROR
    ),
    "monitoring_failed": LogEvent(
        OF_MONITORING,
        "error",
        "A mistake in Sluice keeps the status from being updated. Deliveries continue.",
        action="Report it with its `exception`.",
    ),
    "request_unreadable": LogEvent(
        OF_MONITORING,
        "error",
        "A mistake in Sluice kept an HTTP request from being read. Deliveries continue.",
        action="Report it with its `exception`.",
    ),
    "request_failed": LogEvent(
        OF_MONITORING,
        "error",
        "A mistake in Sluice kept an HTTP request from being answered. Deliveries continue.",
        ("path",),
        action="Report it with its `exception`.",
    ),
    "connection_failed": LogEvent(
        OF_MONITORING,
        "debug",
        "An HTTP connection could not be accepted: its client left, or too many files are open.",
        ERROR,
    ),
    "subscriber_metrics_failed": LogEvent(
        OF_MONITORING,
        "warning",
        "The metrics of subscribers cannot be saved in their topic. Deliveries continue.",
        ("topic", *ERROR),
        action="Check the topic `metrics.topic` and the permissions on it.",
    ),
    "subscriber_metrics_restored": LogEvent(
        OF_MONITORING,
        "info",
        "The metrics of subscribers were read from their topic.",
        ("subscriber_count", "subscription_count"),
    ),
    "trace_export_failed": LogEvent(
        OF_MONITORING,
        "warning",
        "The collector does not accept traces; they are dropped.",
        ("endpoint", "error"),
        action="Check the collector and `monitoring.traces`.",
    ),
    "trace_export_recovered": LogEvent(OF_MONITORING, "info", "The collector accepts traces again.", ("endpoint",)),
    "opentelemetry_logged": LogEvent(OF_MONITORING, "debug", "A log line of OpenTelemetry.", ("message",)),
}
