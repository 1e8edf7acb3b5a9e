"""Check the Kafka cluster: reachable, transactions, topics and their settings, rights, clock."""

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

CREATE = "`run_stream.py topics create` makes it"
RIGHTS = "SECURITY.md lists the rights, and the commands that give them"
OVERHEAD_BYTES = 200  # of a batch of one record, and of the record itself
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
        mend = "is it running, and are kafka.bootstrap_servers and kafka.client right?"
        yield Finding("broker", FAILURE, str(error), mend)
        yield Finding("topics", SKIPPED, "without a broker, neither topics, rights nor the clock can be looked at")


def _transactions(cluster: ClusterInfo) -> Finding:
    version = cluster.transaction_version()
    text = f"the cluster's feature transaction.version is {version}"
    if version >= 2:
        return Finding("transactions", OK, text)
    text += ": each transaction of a task takes at least three more requests to its coordinator"
    mend = "from Kafka 4.0 on: kafka-features.sh upgrade --feature transaction.version=2"
    return Finding("transactions", WARNING, text, mend)


def _topics(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Iterator[Finding]:
    for name in layout.needed(settings):
        what = f"topic {name}"
        if name not in there:
            text = "it does not exist, or this user may not know of it"
            yield Finding(what, FAILURE, text, f"{CREATE}; or see the rights below")
        elif (options := cluster.settings(name)) is None:
            text = f"{there[name]} partitions; its settings may not be seen"
            yield Finding(what, SKIPPED, text, "ask as a user with the right describe_configs")
        elif faults := list(_faults(settings, name, options)):
            state = FAILURE if any(fault[0] == FAILURE for fault in faults) else WARNING
            mend = altered(settings, {key: value for _, _, key, value in faults}, name)
            yield Finding(what, state, "; ".join(text for _, text, _, _ in faults), mend)
        else:
            yield Finding(what, OK, f"{there[name]} partitions, its settings are right")


def _faults(settings: Settings, name: str, options: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """(state, what is wrong, the setting, a value that would do)"""
    policy = set(options.get("cleanup.policy", "delete").split(","))
    of_changes = tenants.of(settings).values()
    if name in {tenant.topic for tenant in of_changes}:
        if policy != {"compact"}:
            text = "cleanup.policy is not compact: subscriptions are forgotten after retention.ms"
            yield FAILURE, text, "cleanup.policy", "compact"
        if int(options.get("min.compaction.lag.ms", 0)) < DAY_MS:
            text = "min.compaction.lag.ms is less than a day: after a crash the job may start with newer subscriptions"
            yield WARNING, text, "min.compaction.lag.ms", str(DAY_MS)
    elif name in {tenant.status_topic for tenant in of_changes}:
        if "compact" not in policy:
            text = "cleanup.policy is not compact: statuses are forgotten, and with them the order of changes"
            yield WARNING, text, "cleanup.policy", "compact"
    elif name == settings.metrics.topic:
        if "compact" not in policy:
            text = "cleanup.policy is not compact: metrics of subscribers are forgotten, or each start reads more"
            yield WARNING, text, "cleanup.policy", "compact"
    elif "compact" in policy:
        text = "cleanup.policy is compact: it takes no record without a key, and forgets all but the last of a key"
        yield FAILURE, text, "cleanup.policy", "delete"
    if name == settings.dead_letters.topic:
        most = int(options.get("max.message.bytes", 0))
        if most < MAX_LETTER_BYTES + OVERHEAD_BYTES:
            text = f"max.message.bytes is {most:,}: a dead letter may have {MAX_LETTER_BYTES:,}"
            yield WARNING, text, "max.message.bytes", str(2 * MAX_LETTER_BYTES)


def _rights(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int]) -> Iterator[Finding]:
    """The rights of the job, as SECURITY.md lists them."""
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
    why = "" if shared or not deliveries.create_topics else cluster.refuses_to_create(trial(settings).name)
    if why:
        lacking.append(f"create on the topics {deliveries.prefix}* ({why})")
    group = cluster.rights_of_group(settings.query.name)
    if group is not None and "READ" not in group:
        lacking.append(f"read on the group {settings.query.name}")
    lacking += _lacking_of_transactions(settings.query.name, cluster)
    if lacking:
        yield Finding("rights", FAILURE, f"this user lacks {', '.join(lacking)}", RIGHTS)
    elif missing := [topic for topic in wanted if topic not in rights]:
        yield Finding(
            "rights", SKIPPED, f"none that is missing, as far as there are topics: {', '.join(missing)} are not"
        )
    else:
        text = f"on {len(rights)} topics, the group {settings.query.name} and its transactional-ids, as the job needs"
        yield Finding("rights", OK, text)


def _lacking_of_transactions(query: str, cluster: ClusterInfo) -> Iterator[str]:
    """The driver has an id of its own, and each slot one. The first slot is asked about for all."""
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
        return Finding(what, SKIPPED, "the broker's limit may not be seen")
    text = f"deliveries.max_bytes is {deliveries.max_bytes:,}, the broker takes {most:,}"
    if deliveries.max_bytes + OVERHEAD_BYTES <= most:
        return Finding(what, OK, text)
    mend = f"set deliveries.max_bytes to {most - OVERHEAD_BYTES} or less, or max.message.bytes of the topics higher"
    return Finding(what, WARNING, text, mend)


def _clock(settings: Settings, cluster: ClusterInfo, there: Mapping[str, int], now_ms: int) -> Finding:
    """Compare our clock with the newest timestamps in the topics: none of them should lie in the future."""
    ours = {name: there[name] for name in layout.needed(settings) if name in there}
    newest = cluster.newest_ms(ours) if ours else None
    if newest is None:
        return Finding("clock", SKIPPED, "no record of the job's topics tells the time")
    if newest - now_ms > AHEAD_MS:
        text = f"a record claims a time {(newest - now_ms) / 1000:,.1f} s ahead of this machine's"
        return Finding("clock", WARNING, text, "set the clock of this machine or of who wrote it: latencies are wrong")
    return Finding("clock", OK, f"no record is ahead of it; the newest is {max(0, now_ms - newest) / 1000:,.1f} s old")
