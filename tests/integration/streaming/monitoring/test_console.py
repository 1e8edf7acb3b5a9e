"""The console of a real job shows what is in its topics, and explains what the job delivers."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer

from streaming.kafka import single_records
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import CommandLine
from tests.integration.running import job, lines, records, subscription
from tests.integration.streaming.monitoring.test_monitoring import ask, in_a_transaction
from tests.support.patience import PATIENCE_S
from tests.unit.streaming.monitoring.test_monitoring import Tags

SOME_EVENT = {"symbol": "IBM", "price": 120}


def shown(url: str, path: str, **fields: str) -> tuple[int, str]:
    """The code and the text of a page."""
    code, body = ask(f"{url}{path}?{urlencode(fields)}")
    found = Tags()
    found.feed(body.decode())
    return code, found.text


def test_the_console_shows_and_explains_what_the_job_does(sluice: CommandLine, kafka: str) -> None:
    name = sluice.name
    sluice("topics", "create")
    sluice(
        "subscribe",
        stdin=lines(
            subscription("ibm", "alice", symbol=["IBM"]), subscription("cheap", "bob", price=[{"numeric": ["<", 9]}])
        ),
    )
    with job(sluice, "--set", "metrics.subscriptions=true", fresh=True) as running:
        running.running()
        url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")
        sluice("subscribe", "--wait", stdin=lines(subscription("any", "carol")))
        sluice("pause", "--wait", "cheap")
        sluice("produce", stdin=lines(*(SOME_EVENT for _ in range(3)), "{not json"))
        running.until("done", lambda: running.total("event_count") == 4)

        code, text = shown(url, "/subscriptions", q="i")
        assert (code, "3 subscriptions" in text, "ibmalicein force-" in text) == (200, True, True)
        assert "cheapbobpaused-" in shown(url, "/subscriptions", subscriber="bob")[1]
        # A busy machine may take longer than a page waits for Kafka.
        running.until("shown", lambda: '"subscriber": "carol"' in shown(url, "/subscription", id="any")[1])
        assert f"{name}.subscriptions " in shown(url, "/subscription", id="any")[1]
        running.until("shown as paused", lambda: '"paused": true' in shown(url, "/subscription", id="cheap")[1])
        running.until("counted", lambda: "matches3last" in shown(url, "/subscription", id="ibm")[1])
        assert "alice13" in shown(url, "/subscribers")[1]

        event = json.dumps(SOME_EVENT)
        delivered = {who for who in ("alice", "bob", "carol") if records(kafka, f"{name}.to.{who}")}
        assert delivered == {"alice", "carol"}
        why = "ibm (alice): matchesheld     symbol: wanted"
        running.until("explained", lambda: why in shown(url, "/match", event=event, id="ibm")[1])
        assert "2 subscriptions match it now" in shown(url, "/match", event=event, id="ibm")[1]
        why_not = "not held price: wanted"
        running.until("explained", lambda: why_not in shown(url, "/match", event=event, id="cheap")[1])
        assert "cheap (bob): paused" in shown(url, "/match", event=event, id="cheap")[1]

        running.until("shown", lambda: "undecodable_event" in shown(url, "/dead-letters")[1])
        code, text = shown(url, "/dead-letters")
        assert (code, text.count("undecodable_event")) == (200, 1)
        assert f"{name}.events " in text
        assert "{not json" in text
        sluice("unsubscribe", "--wait", "any")
        assert shown(url, "/subscription", id="any")[0] == 404
        assert "Traceback" not in "".join(running.other)


def test_single_records_are_read_by_position_and_the_last_ones_from_the_end(
    kafka: str, name: str, cluster: Cluster
) -> None:
    topic = f"{name}.some"
    Topics(kafka, {}).create([Topic(topic, 2, 1)])
    in_a_transaction(kafka, topic, [b"%d" % i for i in range(5)])
    in_a_transaction(kafka, topic, [b"%d" % i for i in range(5, 9)])
    plain = Producer({"bootstrap.servers": kafka})
    plain.produce(topic, b"other", partition=1)
    assert plain.flush(PATIENCE_S) == 0

    def value_at(partition: int, offset: int) -> bytes | None:
        message = single_records.record_at(cluster, topic, partition, offset, PATIENCE_S)
        return None if message is None else message.value()

    assert [value_at(0, offset) for offset in (0, 4, 6)] == [b"0", b"4", b"5"]
    assert [value_at(0, 5), value_at(0, 99), value_at(1, 0), value_at(1, 1)] == [None, None, b"other", None]
    messages, is_whole = single_records.last_records(cluster, topic, 20, PATIENCE_S)
    assert is_whole
    assert sorted(message.value() or b"" for message in messages) == [*(b"%d" % i for i in range(9)), b"other"]
    messages, is_whole = single_records.last_records(cluster, topic, 1, PATIENCE_S)
    assert is_whole
    assert sorted(message.value() or b"" for message in messages) == [b"6", b"7", b"8", b"other"]


def test_of_large_records_the_last_are_not_all_read(
    kafka: str, name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_records, "MAX_BYTES", 250_000)
    topic = f"{name}.large"
    Topics(kafka, {}).create([Topic(topic)])
    in_a_transaction(kafka, topic, [bytes(100_000) for _ in range(6)])
    messages, is_whole = single_records.last_records(cluster, topic, 20, PATIENCE_S)
    assert (len(messages), is_whole) == (3, False)
