"""Check that the input topics are still those that existed at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streaming.errors import TopicReplaced
from streaming.kafka.topics import Topics

ANSWER_S = 5.0  # for the broker


class Watch:
    """Notice that a topic was deleted and created again. A thread calls `ends` now and then, the main thread `check`.
    All raise JobError."""

    def __init__(self, topics: Topics, names: Sequence[str], is_wanted: Callable[[str], bool] | None = None) -> None:
        self._topics = topics
        self._names = names
        self._is_wanted = is_wanted
        self.found: Sequence[str] = ()  # others that are wanted
        self._ids = topics.ids(names, ANSWER_S)
        self._replaced: str | None = None

    def ends(self) -> dict[tuple[str, int], int]:
        """The ends of the topics, from `Topics.ends`."""
        self.look()
        return self._topics.ends(self._names, ANSWER_S)

    def look(self) -> None:
        """Ask which topics there are."""
        if self._is_wanted is not None:
            wanted = set(filter(self._is_wanted, self._topics.partitions()))
            self.found = sorted(wanted.difference(self._names))
        for name, id in self._topics.ids([*self._names, *self.found], ANSWER_S).items():
            if id != self._ids.setdefault(name, id):
                self._replaced = name

    def add(self, names: Iterable[str]) -> None:
        """Watch these, too, of those found; the next look finds the others again."""
        self._names, self.found = [*self._names, *names], ()

    def check(self) -> None:
        """Raises TopicReplaced."""
        if self._replaced is not None:
            raise TopicReplaced(
                f"topic {self._replaced} was deleted and recreated; the job reads it from the beginning. An event at "
                "an offset gets the same ce_id as the earlier event at that offset"
            )
