"""Name the topics that the job reads, and number them: the number is the `source` of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from streaming import tenants
from streaming.rows import EVENTS, SUBSCRIPTIONS, Source, is_events
from streaming.tenants import OWN, Tenant, Tenants

if TYPE_CHECKING:
    from config.model import Settings


class EventTopic(NamedTuple):
    """A topic of events, and how these are written."""

    name: str
    codec: str = "json"


class SourceTopics:
    """The topics of a job. A topic of events may be added while the job runs, and none is removed.

    `names` and `sources` are replaced whole, since other threads read them. `by_topic`: whoever writes down a place in
    the events names its topic too, since there may be several. `tenants` are the topics of subscriptions by number,
    all of them.
    """

    def __init__(
        self,
        subscriptions: str,
        events: Iterable[str],
        *,
        by_topic: bool = False,
        codec_of: Callable[[str], str] = lambda topic: "json",
        tenants: Tenants | None = None,
    ) -> None:
        self.by_topic = by_topic
        self.tenants = tenants or {OWN: Tenant(subscriptions)}
        self._codec_of = codec_of
        of_changes = {SUBSCRIPTIONS + number: tenant.topic for number, tenant in self.tenants.items()}
        self._name({**dict(enumerate(events, EVENTS)), **of_changes})

    @classmethod
    def of(cls, settings: Settings) -> SourceTopics:
        events = settings.events
        return cls(
            settings.subscriptions.topic,
            events.names,
            by_topic=events.by_topic,
            codec_of=events.codec_of,
            tenants=tenants.of(settings),
        )

    @property
    def changes(self) -> dict[Source, str]:
        """The topics of subscriptions."""
        return {source: name for source, name in self.names.items() if not is_events(source)}

    @property
    def events(self) -> dict[Source, EventTopic]:
        of_events = {source: name for source, name in self.names.items() if is_events(source)}
        return {source: EventTopic(name, self._codec_of(name)) for source, name in of_events.items()}

    def add(self, topic: str) -> Source:
        """Number one more topic of events."""
        source = EVENTS + len(self.names) - len(self.tenants)
        self._name({**self.names, source: topic})
        return source

    def _name(self, names: Mapping[Source, str]) -> None:
        self.names: Mapping[Source, str] = names
        self.sources: Mapping[str, Source] = {topic: source for source, topic in names.items()}
