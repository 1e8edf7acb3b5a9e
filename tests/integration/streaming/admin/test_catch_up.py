"""Documents that name their start: `catch-up` delivers their past events beside the job, each once, despite kills."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from config.model import Settings
from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine, but
from tests.integration.running import job, lines
from tests.integration.streaming.admin.test_start_position import PARTITIONS, Answers, Flow, delivered, killed
from tests.support.patience import PATIENCE_S

QUICK = ("-s", "kafka.client.session.timeout.ms=6000")  # a killed member of the group is missed sooner
SECOND = 1_000_000  # the first number of the second topic


def created(sluice: CommandLine, partitions: int) -> Settings:
    """Create the topics of the job, that of subscriptions with so many partitions."""
    settings, kafka = sluice.settings(), sluice.environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    assert Topics(kafka, {}).create([Topic(settings.events.topic, PARTITIONS)]) == {}
    sluice("topics", "create", "--partitions", str(partitions))
    return settings


def started(id: str, start: object) -> dict[str, object]:
    return {"id": id, "subscriber": id, "pattern": {"x": [1]}, "from": start}


@pytest.mark.parametrize("count", [1, 2])
def test_documents_with_a_start_are_caught_up_beside_the_job(sluice: CommandLine, count: int) -> None:
    settings = created(sluice, 2)
    topics = [settings.events.topic, f"{sluice.name}.trades"][:count]
    if count == 2:
        Topics(settings.kafka.bootstrap_servers, {}).create([Topic(topics[1], PARTITIONS)])
        del sluice.environment["SLUICE_EVENTS__TOPIC"]
        sluice.environment["SLUICE_EVENTS__TOPICS"] = ",".join(topics)
        settings = but(settings, events={"topics": topics})
    flows = [Flow(settings, topic, i * SECOND) for i, topic in enumerate(topics)]
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for flow in flows:
        flow.burst(2_000)
    with job(sluice) as running:
        running.running()
        with ExitStack() as stack:
            for flow in flows:
                stack.enter_context(flow.flowing())
            offsets = {topics[0]: {"1": 10}}
            sluice("subscribe", stdin=lines(started("a", "oldest"), started("b", began), started("c", offsets)))
            command = ("catch-up", "--follow", "--rate", "4000", *QUICK)
            for step in ("offsets of", "delivered"):  # in the first replay, and behind it
                killed(sluice, step, random.random() / 2, *command)
            sluice("subscribe", stdin=lines(started("d", "2020-01-01T00:00:00Z")))
            sluice("catch-up", *QUICK)
            said = json.loads(sluice("catch-up", "a", "--json", *QUICK))
            assert (said["finished"], said["events"]) == (True, 0)
        numbers = Counter(n for flow in flows for n in range(SECOND * (flow.count >= SECOND), flow.count))
        delivered(settings, "a", len(numbers))  # the job has done the last events
    for subscriber in "abd":
        found = delivered(settings, subscriber, len(numbers))
        assert Counter(n for n, _ in found) == numbers
        assert len({replay for _, replay in found}) == 2, "one replay, and live deliveries"
    found = delivered(settings, "c")
    assert max(Counter(n for n, _ in found).values()) == 1
    past = [n for n, replay in found if replay is not None]
    assert min(past) == 10 * PARTITIONS + 1
    assert {n % PARTITIONS for n in past} == {1}
    assert set(range(min(past), flows[0].count, PARTITIONS)) <= {n for n, _ in found}


def test_what_cannot_be_caught_up_is_named_and_does_not_hold_up_others(sluice: CommandLine) -> None:
    settings = created(sluice, 1)
    flow = Flow(settings)
    flow.burst(40)  # 20 in each partition
    answer = Answers(settings)
    beyond = started("beyond", {settings.events.topic: {"7": 0}})
    late = started("late", {settings.events.topic: {"1": 5}})
    documents = [started("no", "oldest"), beyond, started("gone", "oldest"), late, started("good", "oldest")]
    sluice("subscribe", stdin=lines(*documents))
    sluice("unsubscribe", "gone")
    assert "a running job" in sluice("catch-up", "--timeout", "0", *QUICK, code=75)

    answer("rejected", "no", 0)
    answer("accepted", "beyond", 1, 0, 0)
    answer("accepted", "good", 4, 5, 7)

    def more() -> None:
        flow.burst(40)
        answer("accepted", "late", 3, 40, 40)

    timer = threading.Timer(2.0, more)
    timer.start()
    said = sluice("catch-up", "--timeout", str(PATIENCE_S), *QUICK, code=1)
    timer.join()
    assert "no: there is no subscription 'no' in the topic" in said
    assert f"beyond: the topics of events have no partition {settings.events.topic}/7; known: " in said
    assert "gone: the subscription 'gone' is unsubscribed" in said
    assert (len(delivered(settings, "late")), len(delivered(settings, "good"))) == (35, 12)
    assert sluice("catch-up", "--json", *QUICK) == "", "they are committed"

    assert "'no' has no start" not in sluice("catch-up", "no", "--timeout", "1", code=1)
    sluice("pause", "good")
    answer("paused", "good", 6, 9, 9)
    assert "the subscription 'good' is paused; `resume good --catch-up` resumes it" in sluice(
        "catch-up", "good", code=1
    )
    sluice("resume", "good")
    assert "'good' has no start" in sluice("catch-up", "good", code=1)
    assert "--follow serves all documents" in sluice("catch-up", "good", "--follow", code=2)


def test_a_subscriber_whose_topic_is_missing_or_rejects_a_delivery_does_not_hold_up_others(sluice: CommandLine) -> None:
    settings = created(sluice, 1)
    Flow(settings).burst(4)
    prefix = settings.deliveries.prefix
    small = Topic(f"{prefix}small", config={"max.message.bytes": "100"})
    # Kafka rejects a.b beside a_b: both would have the same metrics.
    assert Topics(settings.kafka.bootstrap_servers, {}).create([Topic(f"{prefix}a.b"), small]) == {}
    answer = Answers(settings)
    ids = ("a_b", "small", "good")
    sluice("subscribe", stdin=lines(*(started(id, "oldest") for id in ids)))
    for offset, id in enumerate(ids):
        answer("accepted", id, offset, 2, 2)
    said = sluice("catch-up", *QUICK, code=1)
    assert f"a_b: no topic {prefix}a_b at " in said
    assert "once the subscriber 'a_b' has its topic, `catch-up a_b` delivers the past events" in said
    assert "small: the current transaction was aborted" in said
    assert len(delivered(settings, "good")) == 4
    assert sluice("catch-up", "--json", *QUICK) == "", "they are committed"
