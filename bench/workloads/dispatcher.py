"""PCM's filters in a dispatcher: events come as bytes and go out as bytes, to each of their interfaces.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware", sec. 4.2 and
figure 5: the Input Connections Manager decodes events, the Engine matches them, the Output Connections Manager
serializes and delivers them. Ours are three steps, one after the other on one thread:

    read       {"n17":40,"n52":8}  {"n03":7}      JSON to columns and values
    forward    3 7                 none           the interfaces of each event
    write      interface 3: {"n17":40,"n52":8}    a line of the interface's output, in memory
               interface 7: {"n17":40,"n52":8}

There is no network, and no queue that overflows: the rate at which steps are done is the one at which it would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bench.errors import check
from bench.workloads.documents import Documents
from bench.workloads.filters import Filters
from bench.workloads.prepared import TRAINING, Steps
from matchers import EventBatch, Interfaces, MatchBatch, Matcher, SubscriptionTable
from matchers.index.encoding import Encoder
from matchers.index.fields import Fields
from matchers.index.values import read_json_values
from matchers.index.vocabulary import Vocabulary
from matchers.language.facets import NUMBER


@dataclass(frozen=True)
class Dispatcher(Filters):
    """The settings of `Filters`; all values are numbers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.numerical == 1, "numerical", self.numerical, "1: a dispatcher reads numbers only")

    def prepared(self) -> Dispatching:  # type: ignore[override]  # another way from events to matches
        """Raises BenchError."""
        paths = [(name,) for name in self._written_names()]
        encoder = Encoder(Vocabulary(tuple((path, NUMBER) for path in paths), ((),) * len(paths)), Fields.of(paths))
        training = replace(self, events=TRAINING, seed=self.seed + 1).batch
        return Dispatching(self.table(), self.messages(), encoder, self.behind(), training)

    def messages(self) -> Documents:
        """The events of `batch` as JSON."""
        names, events = self._written_names(), self.batch()
        written = [
            f'"{names[column]}":{value:.0f}'
            for column, value in zip(events.column.tolist(), events.value.tolist(), strict=True)
        ]
        offsets = events.offsets.tolist()
        return Documents.of(f"{{{','.join(written[begin:end])}}}" for begin, end in pairwise(offsets))

    def _written_names(self) -> list[str]:
        """[names], ascending."""
        digits = len(str(self.names - 1))
        return [f"n{name:0{digits}}" for name in range(self.names)]


@dataclass(frozen=True, eq=False)
class Dispatching:
    table: SubscriptionTable
    events: Documents
    encoder: Encoder
    interfaces: Interfaces
    training: Callable[[], EventBatch]
    compile_s: float | None = None

    def __len__(self) -> int:
        return len(self.events)

    def part(self, begin: int, end: int) -> Documents:
        return self.events.part(begin, end)

    def steps(self, matcher: Matcher) -> Steps:
        def read(documents: Documents) -> tuple[Documents, EventBatch]:
            return documents, self._read(documents)

        def forward(read: tuple[Documents, EventBatch]) -> tuple[Documents, MatchBatch]:
            documents, events = read
            return documents, matcher.forward(events, self.interfaces)

        def write(forwarded: tuple[Documents, MatchBatch]) -> MatchBatch:
            outputs(*forwarded, self.interfaces.n)
            return forwarded[1]

        return {"read": read, "forward": forward, "write": write}

    def encoded(self, begin: int, end: int) -> EventBatch:
        return self._read(self.part(begin, end))

    def _read(self, documents: Documents) -> EventBatch:
        values, left = read_json_values(documents.text, documents.begins, documents.ends, self.encoder.fields)
        assert not len(left), "an event that only Python can read"
        return self.encoder.encode(values)


def outputs(documents: Documents, forwarded: MatchBatch, n_interfaces: int) -> list[bytes]:
    """Return, for each interface, a line for each event that is forwarded to it."""
    lines: list[list[bytes]] = [[] for _ in range(n_interfaces)]
    event = np.repeat(np.arange(len(forwarded)), np.diff(forwarded.offsets))
    for e, interface in zip(event.tolist(), forwarded.subscription.tolist(), strict=True):
        lines[interface].append(documents.text[documents.begins[e] : documents.ends[e]].tobytes() + b"\n")
    return [b"".join(of_interface) for of_interface in lines]
