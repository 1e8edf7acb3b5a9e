"""JSON events from their bytes to the positions of their subscriptions, as in a worker of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from bench.workloads.documents import Documents
from bench.workloads.prepared import Steps
from matchers import EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.index.encoding import Encoder
from matchers.index.fields import Fields
from matchers.index.segment import Segment
from matchers.index.values import Values, read_json_values


@dataclass(frozen=True, eq=False)
class Traffic:
    """The steps of `Part.match`, one by one, so that each can be timed."""

    segment: Segment
    events: Documents
    compile_s: float | None
    others: Callable[[], Documents]  # events of the same kind

    def __len__(self) -> int:
        return len(self.events)

    @property
    def table(self) -> SubscriptionTable:
        return self.segment.table

    def part(self, begin: int, end: int) -> Documents:
        return self.events.part(begin, end)

    def steps(self, matcher: Matcher) -> Steps:
        def match(read: tuple[Documents, Values, EventBatch]) -> MatchBatch:
            documents, values, events = read
            rows = matcher.match(events)
            return self.segment.subscriptions(self.segment.confirmed(rows, values.several, documents.document))

        return {"read": self._read, "encode": self._encode, "match": match}

    def encoded(self, begin: int, end: int) -> EventBatch:
        return self._encode(self._read(self.part(begin, end)))[2]

    def training(self) -> EventBatch:
        return self._encode(self._read(self.others()))[2]

    @cached_property
    def _encoder(self) -> Encoder:
        vocabulary = self.segment.vocabulary
        return Encoder(vocabulary, Fields.of(path for path, _ in vocabulary.columns))

    def _read(self, documents: Documents) -> tuple[Documents, Values]:
        values, left = read_json_values(documents.text, documents.begins, documents.ends, self._encoder.fields)
        assert not len(left), "an event that only Python can read"
        return documents, values

    def _encode(self, read: tuple[Documents, Values]) -> tuple[Documents, Values, EventBatch]:
        documents, values = read
        return documents, values, self._encoder.encode(values)
