"""Explain whether a subscription matches an event, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matchers.language.explanation import Line, as_data, explain
from matchers.language.model import Pattern
from streaming.documents.subscriptions import Change
from streaming.text_format import plain


@dataclass(frozen=True)
class SubscriptionVerdict:
    """An explanation of whether a subscription matches an event, line by line."""

    change: Change
    lines: list[Line]
    idle: str  # why it matches nothing (paused, expired), else ""

    @classmethod
    def of(
        cls, change: Change, pattern: Pattern, event: dict[str, Any], now_ms: int | None = None
    ) -> SubscriptionVerdict:
        """Compare a subscription with an event. Without a time, `expires_at` is ignored."""
        return cls(change, explain(pattern, event), change.idle(now_ms))

    @property
    def id(self) -> str:
        """The id of the subscription."""
        return self.change.subscription.id

    @property
    def subscriber(self) -> str:
        """The subscriber of the subscription."""
        return self.change.subscription.subscriber

    @property
    def matches(self) -> bool:
        """Whether the subscription matches the event."""
        return not self.idle and not self.failed

    @property
    def failed(self) -> list[Line]:
        """The lines that do not hold. `str` of a line names the wanted and the found value."""
        return [line for line in self.lines if not line.held]

    @property
    def near_miss(self) -> bool:
        """Whether all lines but one hold."""
        return not self.idle and len(self.failed) == 1

    @property
    def who(self) -> str:
        return f"{plain(self.id)} ({self.subscriber})"

    def __str__(self) -> str:
        verdict = "matches" if self.matches else self.idle or "does not match"
        return "\n".join((f"{self.who}: {verdict}", indented(self.lines or ["held     {}: every event"])))

    def as_data(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "subscriber": self.subscriber,
            "matches": self.matches,
            "expired": self.idle.startswith("expired"),
            "paused": self.change.paused,
            "predicates": [as_data(line) for line in self.lines],
            "near_miss": self.near_miss,
        }


def indented(lines: Iterable[object], by: str = "    ") -> str:
    return "\n".join(by + part for line in lines for part in str(line).split("\n"))
