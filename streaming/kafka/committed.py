"""Read the committed offsets of a group, with their notes.

librdkafka reads a note with whatever lies behind it in memory, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class CommittedOffsets:
    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], group: str, timeout_s: float = 60.0) -> None:
        from streaming.publishing.connection.client import Client  # loads numpy, which most commands do without
        from streaming.publishing.fencing import fence_all

        self.client = Client(bootstrap_servers, options, timeout_s)
        self._fence_all = fence_all
        self._group = group

    def read(
        self, partitions: Iterable[tuple[str, int]], *, stable: bool = True
    ) -> dict[tuple[str, int], tuple[int, str]]:
        """The offset of each partition that has one, and its note; stable ones, once no transaction is open that could
        change them. Raises JobError."""
        fenced = self._fence_all(self.client, (), self._group, list(partitions), stable=stable)
        return {at: (offset, fenced.notes.get(at, "")) for at, offset in fenced.offsets.items()}

    def reached(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset that is committed now of each partition that has one. Raises JobError."""
        return {at: offset for at, (offset, _) in self.read(partitions, stable=False).items()}

    def close(self) -> None:
        self.client.close()
