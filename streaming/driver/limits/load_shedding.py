"""Choose the precision of matching: exact, or approximate while the job is late, if that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class LoadShedder:
    """Lets more deliveries be wrong (`wpa_rein`) while events wait longer than `after_ms` (0: never): batch after batch
    has the next of the rates F, the share that may be wrong. When they wait less than half of that, matching is exact
    again."""

    after_ms: int
    rates: Sequence[float]
    _step: int = 0

    @property
    def false_positives(self) -> float:
        """F of the next batch; 0: exact."""
        return self.rates[self._step - 1] if self._step else 0.0

    def seen(self, waited_ms: float) -> None:
        """Record the wait of the oldest event at the start of the last batch."""
        if self.after_ms and waited_ms > self.after_ms:
            self._step = min(self._step + 1, len(self.rates))
        elif waited_ms < self.after_ms / 2:
            self._step = 0
