"""Choose the offsets at which a job begins to read.

It may be another place than where the last one ended: records were deleted before they were read, or the topic is not
the one whose offsets were committed. A person should know that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streaming.errors import OffsetsBeyondEnd
from streaming.log import logger
from streaming.rows import EVENTS, SUBSCRIPTIONS, Source, SourcePartition

log = logger("sluice.job")

Bounds = Mapping[SourcePartition, tuple[int, int]]  # the first offset there is, and the next that will be written


@dataclass(frozen=True)
class Beginning:
    positions: dict[SourcePartition, int]
    # Partition of the events topic -> the first offset that is gone, and the first there is.
    deleted: Mapping[int, tuple[int, int]]

    @classmethod
    def of(
        cls, bounds: Bounds, committed: Mapping[SourcePartition, int], topic: Callable[[Source], str], latest: bool
    ) -> Beginning:
        """`topic` is the name of a source; `latest`: a first start, with nothing committed, takes no event that is
        there. Raises OffsetsBeyondEnd."""
        if not committed:
            skips = (SUBSCRIPTIONS, EVENTS) if latest else (SUBSCRIPTIONS,)
            return cls({at: high if at[0] in skips else low for at, (low, high) in bounds.items()}, {})
        for (source, partition), offset in committed.items():
            _, high = bounds[source, partition]
            if offset > high:
                raise OffsetsBeyondEnd(
                    f"{topic(source)}, partition {partition}: the committed offset {offset} lies beyond the end, "
                    f"{high}. The topic was deleted and made again, or has lost records. Set the offsets of the "
                    "consumer group (query.name) to where reading is to go on; docs/operations.md says how"
                )
        for source in (EVENTS, SUBSCRIPTIONS):
            if not any(of == source for of, _ in committed):
                log.warning(
                    "nothing is committed for a topic that this query has read, so it was deleted and made again; "
                    "it is read from its first record on",
                    topic=topic(source),
                )
        positions = dict.fromkeys(bounds, 0) | dict(committed)
        deleted = {
            partition: (positions[EVENTS, partition], low)
            for (source, partition), (low, _) in sorted(bounds.items())
            if source == EVENTS and positions[EVENTS, partition] < low
        }
        return cls(positions | {(EVENTS, partition): low for partition, (_, low) in deleted.items()}, deleted)


def with_a_batch(positions: Mapping[SourcePartition, int], bounds: Bounds) -> dict[SourcePartition, int]:
    """The positions, but before the last record of one partition if nothing else is to be read.

    So Spark has a first batch at once, which it plans without haste and in which the job can wait for more. The workers
    drop what lies before the positions.
    """
    begins = dict(positions)
    if all(begins[at] >= high for at, (_, high) in bounds.items()):
        for at, (low, high) in bounds.items():
            if low < high == begins[at]:
                begins[at] -= 1
                break
    return begins


def warn_deleted(topic: str, partition: int, begin: int, end: int, offsets: int) -> None:
    """Log the deleted offsets of a partition, from `begin` until before `end`."""
    log.warning(
        "events were deleted before they were read",
        topic=topic,
        partition=partition,
        **{"from": begin},
        to=end,
        offsets=offsets,
    )
