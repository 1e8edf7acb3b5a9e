"""A restarted job restores its state: from a saved version, from a damaged one, from the topic, and in shards."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.integration.conftest import CommandLine
from tests.integration.running import Job, job, lines, records, subscription
from tests.support.patience import PATIENCE_S


def said(running: Job, event: str) -> list[dict[str, object]]:
    return [line for line in running.lines if line["event"] == event]


def of_one_second(kafka: str, topic: str, *events: dict[str, int]) -> None:
    """Write events of one second to the first partition."""
    producer = Producer({"bootstrap.servers": kafka})
    now = int(1000 * time.time())
    for event in events:
        producer.produce(topic, json.dumps(event).encode(), partition=0, timestamp=now)
    assert not producer.flush(PATIENCE_S)


def test_a_job_goes_on_with_what_it_saved_and_without_if_that_is_spoiled(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    state = tmp_path / "checkpoint" / "state"
    sluice("topics", "create")
    sluice("subscribe", stdin=lines(*(subscription(f"s{i}", "alice", x=[i]) for i in range(30))))
    with job(sluice) as first:
        first.running()
        assert said(first, "state_built")[0]["subscription_count"] == 30
        sluice("subscribe", stdin=lines(subscription("s1", "bob", x=[1]), subscription("t", "bob", x=[2])))
        sluice("unsubscribe", "--wait", "s3")
        sluice("produce", stdin=lines({"x": 1}, {"x": 2}, {"x": 3}))
        first.until("done with three events", lambda: first.total("event_count") == 3)
    assert sorted(path.name[:8] for path in state.iterdir())[-1] == "version-"

    def deliveries() -> dict[str, list[bytes]]:
        return {who: sorted(r.value for r in records(kafka, f"{sluice.name}.to.{who}")) for who in ("alice", "bob")}

    assert deliveries() == {"alice": [b'{"x": 2}'], "bob": [b'{"x": 1}', b'{"x": 2}']}

    with job(sluice) as second:
        second.running()
        assert said(second, "state_restored")[0]["subscription_count"] == 30
        sluice("produce", stdin=lines({"x": 1, "n": 2}, {"x": 3, "n": 2}))
        second.until("done with two events", lambda: second.total("event_count") == 2)

    newest = max(state.glob("version-*"))
    spoiled = bytearray(newest.read_bytes())
    spoiled[-100] ^= 1
    newest.write_bytes(spoiled)
    for part in state.glob("part-*"):
        part.write_bytes(part.read_bytes()[:-64])
    with job(sluice, "-s", "matching.shards=2", "-s", "quotas.deliveries_per_second=2") as third:
        third.running()
        assert said(third, "saved_state_rejected")
        assert said(third, "state_built")[0]["subscription_count"] == 30
        of_one_second(
            kafka, f"{sluice.name}.events", {"x": 1, "n": 3}, {"x": 2, "n": 3}, {"x": 3, "n": 3}, {"x": 2, "n": 4}
        )
        third.until("done with four events", lambda: third.total("event_count") == 4)
        assert third.total("over_quota_count") == 1

    assert deliveries() == {
        "alice": [b'{"x": 2, "n": 3}', b'{"x": 2, "n": 4}', b'{"x": 2}'],
        "bob": [b'{"x": 1, "n": 2}', b'{"x": 1, "n": 3}', b'{"x": 1}', b'{"x": 2, "n": 3}', b'{"x": 2}'],
    }
    both = [r for r in records(kafka, f"{sluice.name}.to.bob") if r.value == b'{"x": 2, "n": 3}']
    assert [orjson.loads(dict(r.headers)["ce_subscriptionids"]) for r in both] == [["t"]]
    (letter,) = records(kafka, f"{sluice.name}.dead")
    assert letter.value == b'{"x": 2, "n": 4}'
    about = dict(letter.headers)
    assert (about["sluice_reason"], about["sluice_subscriber"]) == (b"over_quota", b"bob")


def test_an_unsubscribed_subscription_stays_unsubscribed_when_a_partition_is_added_and_the_checkpoint_lost(
    sluice: CommandLine, kafka: str, tmp_path: Path
) -> None:
    """The keys of most deletions lead to another partition than those of the subscriptions did. Every state since
    then must be the same: of the job at work, of one that reads the topic anew, and of one that begins with it."""
    topic = sluice.settings().subscriptions.topic
    sluice("topics", "create", "--partitions", "2")
    ids = [f"s{i}" for i in range(30)]
    sluice("subscribe", stdin=lines(*(subscription(id, "alice", x=[1]) for id in [*ids, "kept"])))
    with job(sluice) as first:
        first.running()
        admin = AdminClient({"bootstrap.servers": kafka})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
        sluice("unsubscribe", "--wait", *ids)
        sluice("produce", stdin=lines({"x": 1}))
        first.until("done with an event", lambda: first.total("event_count") == 1)
    moved = {r.key for r in records(kafka, topic) if r.value is None and r.partition == 2}
    assert moved, "no deletion went to the new partition, so this shows nothing"

    shutil.rmtree(tmp_path / "checkpoint")
    with job(sluice) as second:
        second.running()
        assert said(second, "state_built")[0]["subscription_count"] == 1
        sluice("produce", stdin=lines({"x": 1, "n": 2}))
        second.until("done with an event", lambda: second.total("event_count") == 1)
    with job(sluice, "-s", f"query.name={sluice.name}.2", "-s", f"query.checkpoint={tmp_path}/other") as another:
        another.running()
        assert said(another, "state_built")[0]["subscription_count"] == 1
    delivered = [orjson.loads(dict(r.headers)["ce_subscriptionids"]) for r in records(kafka, f"{sluice.name}.to.alice")]
    assert delivered[:2] == [["kept"], ["kept"]]
    assert [orjson.loads(line)["id"] for line in sluice("subscriptions", "list", "--json").splitlines()] == ["kept"]
