"""Check the Kafka cluster: reachable, transactions, topics and their settings, permissions, clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from streaming import tenants
from streaming.checks import FAILURE, OK, SKIPPED, WARNING, Finding, delivery_topics
from streaming.checks.cluster_info import ClusterInfo
from streaming.checks.topic_commands import altered
from streaming.documents.records import MAX_LETTER_BYTES
from streaming.errors import JobError, TopicMissing
from streaming.kafka import layout
from streaming.kafka.event_topics import resolved
from streaming.kafka.outputs import trial
from streaming.kafka.retention import DAY_MS
from streaming.publishing.fencing import slot_name

if TYPE_CHECKING:
    from config.model import Settings

CREATE = "Create it with `run_stream.py topics create`"
RIGHTS = "Grant them with the commands in docs/permissions.md."
OVERHEAD_BYTES = 200  # headers of a batch of one record and of the record
AHEAD_MS = 5_000


def findings(settings: Settings, cluster: ClusterInfo, now_ms: int) -> Iterator[Finding]:
    where = settings.kafka.bootstrap_servers
    try:
        there = cluster.partitions()
        yield Finding("broker", OK, f"{where} answers; brokers: {cluster.brokers()}, topics: {len(there)}")
        yield _transactions(cluster)
        try:
            settings = resolved(settings, lambda: there)
        except TopicMissing as error:
            yield Finding("topics of events", FAILURE, str(error))
        yield from _topics(settings, cluster, there)
        yield delivery_topics.finding(settings, cluster, there)
        yield from _rights(settings, cluster, there)
        yield _largest_delivery(settings, cluster, there)
        yield _clock(settings, cluster, there, now_ms)
    except JobError as error:
        remedy = "Start the broker, or correct kafka.bootstrap_servers and kafka.client."
        yield Finding("broker", FAILURE, str(error), remedy)
        yield Finding("topics", SKIPPED, "topics, permissions and the clock cannot be checked without a broker")


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _transactions(cluster: ClusterInfo) -> Finding:
    version = cluster.transaction_version()
    text = f"the cluster's feature transaction.version is {version}"
    if version >= 2:
        return Finding("transactions", OK, text)
    text += ": each transaction of a task needs at least three more requests to its coordinator"
    remedy = "With Kafka 4.0 or newer: kafka-features.sh upgrade --feature transaction.version=2"
    return Finding("transactions", WARNING, text, remedy)


def _topics(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Iterator[Finding]:
    for name in layout.needed(settings):
        what = f"topic {name}"
        if name not in there:
            text = "does not exist, or this user may not see it"
            yield Finding(what, FAILURE, text, f"{CREATE}, or grant the permissions below.")
        elif (options := cluster.settings(name)) is None:
            text = f"{_partitions(there[name])}; this user may not see its settings"
            yield Finding(what, SKIPPED, text, "Grant the permission describe_configs on the topic.")
        elif faults := list(_faults(settings, name, options)):
            state = FAILURE if any(fault[0] == FAILURE for fault in faults) else WARNING
            remedy = altered(settings, {key: value for _, _, key, value in faults}, name)
            yield Finding(what, state, "; ".join(text for _, text, _, _ in faults), remedy)
        else:
            yield Finding(what, OK, f"{_partitions(there[name])}, settings correct")


def _faults(settings: Settings, name: str, options: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (state, the problem, the setting, a correct value)."""
    policy = set(options.get("cleanup.policy", "delete").split(","))
    of_changes = tenants.of(settings).values()
    if name in {tenant.topic for tenant in of_changes}:
        if policy != {"compact"}:
            text = "cleanup.policy is not compact: Kafka deletes subscriptions after retention.ms"
            yield FAILURE, text, "cleanup.policy", "compact"
        if int(options.get("min.compaction.lag.ms", 0)) < DAY_MS:
            text = (
                "min.compaction.lag.ms is less than a day: a crashed job may apply newer subscriptions to older events"
            )
            yield WARNING, text, "min.compaction.lag.ms", str(DAY_MS)
    elif name in {tenant.status_topic for tenant in of_changes}:
        if "compact" not in policy:
            text = "cleanup.policy is not compact: Kafka deletes statuses, and with them the order of changes"
            yield WARNING, text, "cleanup.policy", "compact"
    elif name == settings.metrics.topic:
        if "compact" not in policy:
            text = "cleanup.policy is not compact: Kafka deletes metrics of subscribers, or each start reads more"
            yield WARNING, text, "cleanup.policy", "compact"
    elif "compact" in policy:
        text = "cleanup.policy is compact: the topic rejects records without a key, and keeps one record per key"
        yield FAILURE, text, "cleanup.policy", "delete"
    if name == settings.dead_letters.topic:
        most = int(options.get("max.message.bytes", 0))
        if most < MAX_LETTER_BYTES + OVERHEAD_BYTES:
            text = f"max.message.bytes is {most:,}: a dead letter may have {MAX_LETTER_BYTES:,} bytes"
            yield WARNING, text, "max.message.bytes", str(2 * MAX_LETTER_BYTES)


def _rights(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Iterator[Finding]:
    """Check the permissions of the job that docs/permissions.md lists."""
    deliveries = settings.deliveries
    shared = deliveries.layout == "shared"
    of_changes = tenants.of(settings).values()
    wanted = {
        **dict.fromkeys(settings.events.names, ("READ",)),
        **dict.fromkeys((tenant.topic for tenant in of_changes), ("READ",)),
        **dict.fromkeys((tenant.status_topic for tenant in of_changes), ("WRITE", "READ")),
        settings.dead_letters.topic: ("WRITE",),
    }
    if settings.metrics.topic:
        wanted[settings.metrics.topic] = ("WRITE", "READ")
    wanted |= dict.fromkeys(
        delivery_topics.existing(settings, there) or ([deliveries.topic] if shared else []), ("WRITE",)
    )
    rights = cluster.rights(list(wanted))
    lacking = [
        f"{right.lower()} on the topic {topic}"
        for topic, needed in wanted.items()
        for right in needed
        if topic in rights and right not in rights[topic]
    ]
    why = "" if shared or not deliveries.create_topics else cluster.rejected_creation(trial(settings).name)
    if why:
        lacking.append(f"create on the topics {deliveries.prefix}* ({why})")
    group = cluster.rights_of_group(settings.query.name)
    if group is not None and "READ" not in group:
        lacking.append(f"read on the group {settings.query.name}")
    lacking += _lacking_of_transactions(settings.query.name, cluster)
    if lacking:
        yield Finding("permissions", FAILURE, f"this user lacks {', '.join(lacking)}", RIGHTS)
    elif missing := [topic for topic in wanted if topic not in rights]:
        yield Finding(
            "permissions",
            SKIPPED,
            f"no permission is missing; not checked, because these topics do not exist: {', '.join(missing)}",
        )
    else:
        text = f"complete for {len(rights)} topics, the group {settings.query.name} and its transactional-ids"
        yield Finding("permissions", OK, text)


def _lacking_of_transactions(query: str, cluster: ClusterInfo) -> Iterator[str]:
    """The driver has one id, and each slot another. The first slot stands for all."""
    if not cluster.may_write_transactions(query, query):
        yield f"write on the transactional-id {query}"
    first = slot_name(query, 0)
    if not cluster.may_write_transactions(first, query):
        yield f"write on the transactional-ids {first.removesuffix('0')}*"


def _largest_delivery(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Finding:
    what, deliveries = "largest delivery", settings.deliveries
    shared = deliveries.layout == "shared"
    of_topic = cluster.settings(deliveries.topic) if shared and deliveries.topic in there else None
    of_new = layout.delivery_config(settings).get("max.message.bytes")
    most = (
        int(of_topic["max.message.bytes"]) if of_topic else None if shared else int(of_new or 0) or cluster.most_bytes()
    )
    if most is None:
        return Finding(what, SKIPPED, "this user may not see the broker's limit")
    text = f"deliveries.max_bytes is {deliveries.max_bytes:,} bytes, the broker accepts {most:,} bytes"
    if deliveries.max_bytes + OVERHEAD_BYTES <= most:
        return Finding(what, OK, text)
    remedy = f"Lower deliveries.max_bytes to {most - OVERHEAD_BYTES}, or raise max.message.bytes of the topics."
    return Finding(what, WARNING, text, remedy)


def _clock(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int], now_ms: int) -> Finding:
    """Compare our clock with the newest timestamps in the topics: none of them should lie in the future."""
    ours = {name: there[name] for name in layout.needed(settings) if name in there}
    newest = cluster.newest_ms(ours) if ours else None
    if newest is None:
        return Finding("clock", SKIPPED, "the topics of the job have no record with a timestamp")
    if newest - now_ms > AHEAD_MS:
        text = f"a timestamp is {(newest - now_ms) / 1000:,.1f} s ahead of this machine's clock: latencies are wrong"
        remedy = "Correct the clock of this machine, or of the machine that wrote the record."
        return Finding("clock", WARNING, text, remedy)
    text = f"no record has a later timestamp; the newest is {max(0, now_ms - newest) / 1000:,.1f} s old"
    return Finding("clock", OK, text)
