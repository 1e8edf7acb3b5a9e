"""The records of a slice of the subscriptions topic: all from its first offset until before its end, and no other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from streaming.documents.messages import place_of
from streaming.errors import BrokerUnreachable
from streaming.kafka.clients import Cluster
from streaming.state import first_load
from streaming.state.first_load import RejectedChanges, Span
from streaming.tenants import ANYBODY, Tenant


class PartitionConsumer:
    """A partition with records at some offsets, given two at a time; after them its end, again and again. At first its
    leader only has what lies before `early`."""

    def __init__(self, offsets: Sequence[int], end: int, early: int | None = None) -> None:
        self.offsets, self.end, self.early = offsets, end, early
        self.known = ""

    def list_topics(self, topic: str, timeout: float) -> None:
        self.known = topic

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        assert partitions[0].topic == self.known, "it would take a second to find the leader"
        self.at = partitions[0].offset

    def unassign(self) -> None: ...

    def poll(self, timeout: float) -> Any:
        if found := self._next():
            return found[0]
        end, self.early = self.end if self.early is None else self.early, None
        error = KafkaError(KafkaError._PARTITION_EOF)
        return SimpleNamespace(error=lambda: error, partition=lambda: 0, offset=lambda: end)

    def consume(self, most: int, timeout: float) -> list[Any]:
        assert timeout == 0, "it would wait so long for further records, in each partition"
        return self._next()

    def _next(self) -> list[Any]:
        early = self.end if self.early is None else self.early
        found = [offset for offset in self.offsets if self.at <= offset < early][:1]
        self.at = found[-1] + 1 if found else self.at
        return [PartitionMessage(offset) for offset in found]


class PartitionMessage:
    """A message with ten bytes."""

    def __init__(self, offset: int) -> None:
        self.error, self.partition, self.offset = (lambda: None), (lambda: 0), (lambda: offset)

    def __len__(self) -> int:
        return 10


def offsets(span: Span) -> list[int]:
    return [place_of(record)[1] for piece in first_load._pieces(span) for record in piece]


@pytest.mark.parametrize("low", [0, 2, 3])
@pytest.mark.parametrize("high", [4, 5, 6, 8])
@pytest.mark.parametrize("there", [range(9), range(4), [0, 3, 4, 8], [7, 8], []], ids=str)
def test_a_slice_has_the_records_of_its_offsets(
    there: Sequence[int], high: int, low: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_load, "_consumer", lambda *_: PartitionConsumer(there, 9))
    found = offsets(Span(Cluster("", {}), ANYBODY, 0, low, high))
    assert found == [offset for offset in there if low <= offset < high]


def test_a_leader_that_does_not_have_all_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_load, "_consumer", lambda *_: PartitionConsumer(range(5), 5, early=3))
    found = offsets(Span(Cluster("", {}), ANYBODY, 0, 0, 5))
    assert found == [0, 1, 2, 3, 4]


def test_after_an_error_no_further_span_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[int] = []

    def fails(span: Span, *_: object) -> None:
        begun.append(span.begin)
        time.sleep(0.05)
        raise BrokerUnreachable("away")

    monkeypatch.setattr(first_load, "_write_slices", fails)
    spans = [Span(Cluster("", {}), ANYBODY, 0, n, n + 1) for n in range(50)]
    with ThreadPoolExecutor(1) as pool, pytest.raises(BrokerUnreachable):
        first_load.load(
            pool, spans, tmp_path, {0: RejectedChanges(Tenant(), frozenset(), {})}, lambda done, total: None
        )
    assert len(begun) < len(spans)


def test_large_documents_are_compiled_some_megabytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_load, "_consumer", lambda *_: PartitionConsumer(range(9), 9))
    monkeypatch.setattr(first_load, "PIECE_BYTES", 40)
    pieces = [len(piece) for piece in first_load._pieces(Span(Cluster("", {}), ANYBODY, 0, 0, 9))]
    assert sum(pieces) == 9
    assert pieces[0] == 4


def test_a_span_without_records_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(first_load, "_consumer", lambda *_: PartitionConsumer([], 9))
    spans = [Span(Cluster("", {}), ANYBODY, 0, n, n + 1) for n in range(3)]
    none = {0: RejectedChanges(Tenant(), frozenset(), {})}
    with ThreadPoolExecutor(1) as pool:
        assert first_load.load(pool, spans, tmp_path, none, lambda done, total: None) == []
    assert list(tmp_path.iterdir()) == []
