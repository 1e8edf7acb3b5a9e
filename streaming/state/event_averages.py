"""Average the recent events, for algorithms that choose by them when segments are compacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RECENT_EVENTS = 1_000_000  # about, that count
KNOWN_FROM_EVENTS = 1_000  # without which nothing is known


@dataclass(frozen=True)
class EventAverages:
    """Sums over the last events. A process begins anew: nothing of them is saved."""

    events: float = 0.0
    attributes: float = 0.0
    batches: float = 0.0  # for each event, how many were matched at once

    def plus(self, events: int, attributes: int, batches: int) -> EventAverages:
        """The averages with these events. The more come, the less the earlier ones count."""
        total = self.events + events
        kept = min(1.0, RECENT_EVENTS / max(total, 1.0))
        return EventAverages(kept * total, kept * (self.attributes + attributes), kept * (self.batches + batches))

    def options(self) -> Mapping[str, float]:
        """The averages by the option of an algorithm (`Algorithm.weighs`); empty while too few events were seen.

        A batch counts as often as it has events, because time is spent on events, so a backlog outweighs quiet hours.
        """
        if self.events < KNOWN_FROM_EVENTS:
            return {}
        return {"attributes": max(self.attributes / self.events, 1.0), "batch": self.batches / self.events}
