"""Choose the offsets at which a job begins to read.

They may differ from the committed ones: records were deleted before they were read, or the topic is not the one whose
offsets were committed. The log has each difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.errors import OffsetsBeyondEnd
from streaming.log import logger
from streaming.publishing.contract import TopicPartition
from streaming.rows import Source, SourcePartition, is_events

log = logger("sluice.job")

Bounds = Mapping[SourcePartition, tuple[int, int]]  # the first offset there is, and the next that will be written


@dataclass(frozen=True)
class Beginning:
    positions: dict[SourcePartition, int]
    first_start: bool  # no offset of a topic of subscriptions is committed: the state is built from all of them
    # Partition of a topic of events -> the first offset that is gone, and the first there is.
    deleted: Mapping[SourcePartition, tuple[int, int]]

    @classmethod
    def of(
        cls, bounds: Bounds, committed: Mapping[SourcePartition, int], names: Mapping[Source, str], latest: bool
    ) -> Beginning:
        """`names` are those of topics; `latest`: a first start, with nothing committed, takes no event that is there.
        Raises OffsetsBeyondEnd."""
        if not committed:
            begins = {at: low if is_events(at[0]) and not latest else high for at, (low, high) in bounds.items()}
            return cls(begins, True, {})
        for (source, partition), offset in committed.items():
            _, high = bounds[source, partition]
            if offset > high:
                raise OffsetsBeyondEnd(
                    f"{names[source]}, partition {partition}: the committed offset {offset} lies beyond the end, "
                    f"{high}. The topic was deleted and recreated, or has lost records. Set the offsets of the "
                    "consumer group (query.name) to the position at which reading must continue "
                    "(docs/troubleshooting.md)"
                )
        known = {source for source, _ in committed}
        for source in sorted({source for source, _ in bounds} - known):
            log.warning("topic_offsets_missing", topic=names[source])
        first_start = all(map(is_events, known))
        # An added partition is read from its beginning on, too, but what was deleted of it is missing.
        is_new = {at: is_events(at[0]) and at[0] not in known for at in bounds}
        changes_begin = {at: high if first_start else 0 for at, (_, high) in bounds.items() if not is_events(at[0])}
        positions = {
            at: committed.get(at, low if is_new[at] else changes_begin.get(at, 0)) for at, (low, _) in bounds.items()
        }
        deleted = {
            at: (positions[at], low)
            for at, (low, _) in sorted(bounds.items())
            if is_events(at[0]) and positions[at] < low
        }
        return cls(positions | {at: low for at, (_, low) in deleted.items()}, first_start, deleted)


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


def warn_deleted(at: TopicPartition, begin: int, end: int, offsets: int) -> None:
    """Log the deleted offsets of a partition, from `begin` until before `end`."""
    log.warning(
        "events_deleted",
        topic=at[0],
        partition=at[1],
        offset_from=begin,
        offset_to=end,
        offset_count=offsets,
    )
