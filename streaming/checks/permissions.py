"""The permissions in Kafka that the job and each command need, for topics with their default names."""

from __future__ import annotations

from typing import NamedTuple

EVERYTHING = "*"  # at the end of a name: all names that begin so


class Permission(NamedTuple):
    """The operations that a user may perform on a resource, or on all resources with a prefix."""

    kind: str  # topic, group or transactional-id, as Kafka's own tool calls them
    name: str
    operations: tuple[str, ...]  # write and read each include describe
    purpose: str


class User(NamedTuple):
    """A user who can do one kind of work and nothing else."""

    name: str
    work: str
    permissions: tuple[Permission, ...]


_TOPICS = ("events", "subscriptions", "subscriptions.status", "deadletters", "subscribers.metrics")

USERS = (
    User(
        "job",
        "runs the job: `run` and `doctor`",
        (
            Permission(
                "topic",
                "events",
                ("read",),
                "the events; of `events.topics` each topic, of `events.topic_pattern` all that match, best by a common "
                "prefix: an input topic that the job may not read ends it",
            ),
            Permission("topic", "subscriptions", ("read",), "subscriptions and their changes"),
            Permission(
                "topic",
                "subscriptions.status",
                ("write", "read"),
                "the answer to each change; a start without a saved state reads them",
            ),
            Permission("topic", "deadletters", ("write",), "dead letters"),
            Permission(
                "topic",
                "subscribers.metrics",
                ("write", "read"),
                "metrics of each subscriber, which a start continues (`metrics.topic`, unless it is empty)",
            ),
            Permission("topic", "deliveries.*", ("write", "create"), "deliveries, in topics that the job creates"),
            Permission("group", "sluice", ("read",), "offsets that tasks and driver commit (`query.name`)"),
            Permission("transactional-id", "sluice", ("write",), "the driver's transactions: changes of subscriptions"),
            Permission(
                "transactional-id",
                "sluice/*",
                ("write",),
                "transactions of tasks: deliveries, and the offsets of their events; the driver's for metrics",
            ),
        ),
    ),
    User(
        "replayer",
        "delivers past events: `replay`, `backtest`",
        (
            Permission("topic", "events", ("read",), "past events"),
            Permission("topic", "subscriptions", ("read",), "the subscription"),
            Permission("topic", "subscriptions.status", ("read",), "which change of the subscription is in force"),
            Permission("topic", "deliveries.*", ("write",), "deliveries"),
            Permission("group", "sluice.replay.*", ("read",), "the progress of each replay"),
            Permission("transactional-id", "sluice.replay.*", ("write",), "its transactions"),
        ),
    ),
    User(
        "redriver",
        "reads dead letters and sends them again: `dlq`",
        (
            Permission("topic", "deadletters", ("read", "write"), "reading; a redrive marks what it sent"),
            Permission("topic", "events", ("write",), "events that are sent again"),
            Permission(
                "topic", "subscriptions", ("read", "write"), "changes that are sent again, unless a later one is there"
            ),
            Permission("topic", "subscriptions.status", ("read",), "whether a later one was there"),
            Permission("topic", "deliveries.*", ("write", "create"), "deliveries that are sent again"),
            Permission("transactional-id", "sluice.redrive", ("write",), "its transactions"),
        ),
    ),
    User("producer", "writes events: `produce`", (Permission("topic", "events", ("write",), "events"),)),
    User(
        "registrar",
        "changes subscriptions: `subscribe`, `unsubscribe`, `pause`, `resume`, `subscriptions`",
        (
            Permission(
                "topic",
                "subscriptions",
                ("write", "read"),
                "`subscribe` and `unsubscribe` only write; the other commands read",
            ),
            Permission(
                "topic", "subscriptions.status", ("read",), "`--wait`, and which change of a subscription is in force"
            ),
        ),
    ),
    User(
        "watcher",
        "reads the metrics of subscribers: `subscribers`",
        (Permission("topic", "subscribers.metrics", ("read",), "deliveries, matches and dead letters per subscriber"),),
    ),
    User(
        "alice",
        "reads the deliveries of one subscriber, here `alice`: `consume`, `tap`",
        (Permission("topic", "deliveries.alice", ("read",), "deliveries"),),
    ),
    User(
        "setup",
        "creates the topics: `topics create`",
        tuple(Permission("topic", name, ("create", "describe"), "a topic that may exist already") for name in _TOPICS),
    ),
)
