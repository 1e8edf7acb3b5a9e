"""Read the last dead letters."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from streaming.admin.dead_letters import StoredDeadLetter, marked, read_letter
from streaming.kafka import single_records
from streaming.kafka.clients import Cluster

__all__ = ["LastLetters", "StoredDeadLetter", "last_letters"]


class LastLetters(NamedTuple):
    letters: list[StoredDeadLetter]  # the newest first
    is_whole: bool  # False: not all of the topic's end could be read in time


def last_letters(cluster: Cluster, topic: str, most: int, timeout_s: float) -> LastLetters:
    """The last letters by their time. A letter whose marker was read too is redriven. Raises JobError."""
    messages, is_whole = single_records.last_records(cluster, topic, most, timeout_s)
    redriven = {place for message in messages if (place := marked(message)) is not None}
    letters = (read_letter(message) for message in messages if marked(message) is None)
    shown = [replace(letter, redriven=letter.place in redriven) for letter in islice(letters, most)]
    return LastLetters(shown, is_whole)
