"""Measure a baseline: follow its progress, and check its deliveries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rig import reading
from rig.check import Answer, Deliveries, check, from_the_start
from rig.job import LoggedProcess
from rig.place import PARTITIONS, Place


class Baseline(LoggedProcess, ABC):
    """`with Baseline(...) as system`: what `run.System` promises."""

    patience_s = 60.0

    def __init__(self, name: str, command: Sequence[str], place: Place) -> None:
        super().__init__(name, command, place.directory / f"{name}.log")
        self._place = place

    def start(self) -> None:
        topic = self._place.settings.subscriptions.topic
        self._subscriptions = sum(high for _, _, high in self._place.cluster.topics().offsets(topic))
        super().start()

    def done(self) -> tuple[int, int]:
        return sum(self.reached().values()), self._subscriptions

    def load_begins(self) -> None:
        """Nothing to do: a baseline reports no latencies of its own."""

    def midpoint(self) -> None:
        """Nothing to do, likewise."""

    def checked(self) -> tuple[Answer, dict[str, Any]]:
        """Deliveries of events that it did not reach are not counted."""
        place, cluster = self._place, self._place.cluster
        changes = reading.read_changes(cluster, place.settings.subscriptions.topic)
        events = reading.read_events(cluster, place.settings.events.topic, self.reached())
        deliveries = reading.read_deliveries(cluster, place.deliveries(), events, place.prefix)
        known = of_known_events(deliveries, version=len(changes.id))
        return check(changes, from_the_start(changes, PARTITIONS), events, known), {"latency_ms": {}, **self.figures()}

    @abstractmethod
    def reached(self) -> Mapping[int, int]:
        """The offset after the last processed event, by partition of the events topic."""

    @abstractmethod
    def progress(self) -> str: ...

    @abstractmethod
    def stop(self) -> None: ...

    def figures(self) -> dict[str, Any]:
        """Its own figures."""
        return {}


def of_known_events(deliveries: Deliveries, version: int) -> Deliveries:
    """The deliveries of known events, all of this version, since a baseline writes none."""
    known, sizes = deliveries.event >= 0, np.diff(deliveries.start)
    return Deliveries(
        deliveries.event[known],
        deliveries.subscriber[known],
        np.full(int(known.sum()), version),
        deliveries.checksum[known],
        np.append(0, np.cumsum(sizes[known])),
        deliveries.id[np.repeat(known, sizes)],
    )
