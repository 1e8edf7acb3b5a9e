"""Load code and state in a worker: do the work of tasks on made-up records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streaming.reading import warm_up as reading
from streaming.worker.matching import Work


@dataclass(frozen=True)
class WarmUp:
    """Each of `works` is done on `records` (rows.INPUT); `reads`: tasks will read records themselves."""

    works: Sequence[Work]
    records: Sequence[pa.RecordBatch]
    reads: bool

    def __call__(self, seeds: Iterable[Any]) -> Iterator[Any]:
        """Return nothing; the seeds only start a task."""
        for _ in seeds:
            pass
        for work in self.works:
            for _ in work(iter(self.records)):
                pass
        if self.reads:
            reading.compile()
        return iter(())
