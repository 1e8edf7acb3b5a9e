"""Histories of a slot whose brokers' answers are spoiled on their way.

The brokers do what they are asked, and tell it truly; what arrives is cut, late, twice, another answer's, of another
length or version, or says something else. A lie that no client could notice is left out: another committed offset, or
success where the truth is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple, TypeVar

import pytest

from streaming.errors import BrokerUnreachable, JobError
from streaming.publishing.connection.client import TIMEOUT_S, Client
from streaming.publishing.contract import Aborted, ProducerEpoch
from streaming.publishing.fencing import committed_offsets, fence_all
from streaming.publishing.slot import Slot
from tests.support.doubles.brokers import Brokers
from tests.support.doubles.plain_batches import batches
from tests.support.doubles.wire import HOSTS, PORT, Frame, Wire, frame_of, read_strictly, whole

ADDRESS = ",".join(f"{host}:{PORT}" for host in HOSTS.values())
SLOTS, GROUP, EVENTS = ("job/0", "job/1"), "job", ("events", 0)
TOPICS = ("alice", "bob")
TRANSACTIONS = 3
# A call asks for at most so many things, each until its time is over, and a connection opens in at most 30 s.
LIMIT_S = 7 * (TIMEOUT_S + 30.0)

T = TypeVar("T")

LENGTHS = (-(2**31), -1, 0, 1, 2**31 - 1, 99_999_999)
CODES = (*range(-1, 130), 9_999, -(2**15), 2**15 - 1)
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 2**15 - 1, 2**31 - 1)
TEXTS = (None, "", "x", "alice", "job/1", "\0", "a" * 300)
# Of these only the broker knows the truth.
BELIEVED = ("committed_offset", "metadata")


class Spoiled(NamedTuple):
    """The answer number `nth` of a history, by a kind of SPOILS; `a` and `b` are any numbers."""

    nth: int
    kind: str
    a: int
    b: int


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def _length(frame: bytes, a: int, b: int) -> bytes:
    length = (*LENGTHS, len(frame) - 5, len(frame) - 3)[a % (len(LENGTHS) + 2)]
    return length.to_bytes(4, "big", signed=True) + frame[4:]


def _byte(frame: bytes, a: int, b: int) -> bytes:
    at = 8 + a % (len(frame) - 8)
    return frame[:at] + bytes([frame[at] ^ (b % 255 + 1)]) + frame[at + 1 :]


def _inserted(frame: bytes, a: int, b: int) -> bytes:
    at = 8 + a % (len(frame) - 7)
    some = (b"\0", b"\xff" * 4, b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80" * 9, b"\x7f" * 8)[b % 6]
    return _framed(frame[4:at] + some + frame[at:])


def _overwritten(frame: bytes, a: int, b: int) -> bytes:
    at = 8 + a % (len(frame) - 8)
    some = (b"\xff" * 4, b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xfe", b"\0" * 8)[b % 6]
    return _framed(frame[4:at] + some + frame[at + len(some) :])


def _removed(frame: bytes, a: int, b: int) -> bytes:
    at = 8 + a % (len(frame) - 8)
    return _framed(frame[4:at] + frame[at + 1 + b % 8 :])


def _rubbish(frame: bytes, a: int, b: int) -> bytes:
    return _framed(frame[4:8] + Random(a).randbytes(b % 200))


# Of the bytes of the answer, with its length and correlation id.
OF_BYTES: dict[str, Callable[[bytes, int, int], bytes]] = {
    "another correlation id": lambda frame, a, b: frame[:4] + (a % 2**32).to_bytes(4, "big") + frame[8:],
    "another length": _length,
    "another byte": _byte,
    "more bytes": _inserted,
    "other bytes": _overwritten,
    "fewer bytes": _removed,
    "a shorter answer": lambda frame, a, b: _framed(frame[4 : 4 + a % (len(frame) - 4)]),
    "rubbish": _rubbish,
    "rubbish without a frame": lambda frame, a, b: Random(a).randbytes(1 + b % 200),
}

# Of what the client gets, and when.
OF_FRAMES: dict[str, Callable[[bytes, int, int], list[Frame]]] = {
    "no answer": lambda frame, a, b: [],
    "connection cut": lambda frame, a, b: [(0.0, None)],
    "cut amid the answer": lambda frame, a, b: [(0.0, frame[: a % len(frame)]), (0.0, None)],
    "silence amid the answer": lambda frame, a, b: [(0.0, frame[: a % len(frame)])],
    "late": lambda frame, a, b: [(a % 120 + 0.5, frame)],
    "byte by byte": lambda frame, a, b: [(a % 100 / 1000, frame[i : i + 1]) for i in range(len(frame))],
    "twice": lambda frame, a, b: [(0.0, frame), (a % 3, frame)],
    "twice at once": lambda frame, a, b: [(0.0, frame + frame)],
    "rubbish after it": lambda frame, a, b: [(0.0, frame), (0.0, Random(a).randbytes(1 + b % 50))],
}


def _codes(thing: Any) -> Iterator[tuple[Any, str]]:
    """Yield the places of error codes in a response."""
    for owner, name in _fields(thing):
        if name.endswith("error_code"):
            yield owner, name


def _fields(thing: Any) -> Iterator[tuple[Any, str]]:
    for name, field in thing.fields.items():
        value = getattr(thing, name)
        if not field.for_version_q(thing.version):
            continue
        yield thing, name
        if field.is_struct_array():
            for one in value or ():
                yield from _fields(one)


def _another_code(response: Any, a: int, b: int) -> None:
    places = list(_codes(response))
    if places:
        setattr(*places[a % len(places)], CODES[b % len(CODES)])


def _another_value(response: Any, a: int, b: int) -> None:
    places = [(owner, name) for owner, name in _fields(response) if name not in BELIEVED]
    owner, name = places[a % len(places)]
    value = getattr(owner, name)
    if isinstance(value, bool):
        setattr(owner, name, not value)
    elif isinstance(value, int):
        setattr(owner, name, (*NUMBERS, value + 1, value - 1)[b % (len(NUMBERS) + 2)])
    elif isinstance(value, list):
        none: Any = None
        setattr(owner, name, ([], none, value[1:], value[:-1], value + value, value[::-1])[b % 6])
    elif isinstance(value, str) or value is None:
        setattr(owner, name, TEXTS[b % len(TEXTS)])


# Of what the answer says.
_OF_CONTENT: dict[str, Callable[[Any, int, int], None]] = {
    "an error code": _another_code,
    "another value": _another_value,
}

# Of the request: the broker never gets it.
LOST = "request lost"
SPOILS = (*OF_BYTES, *OF_FRAMES, *_OF_CONTENT, LOST)


def spoiled_frames(name: str, response: Any, how: Spoiled) -> Iterable[Frame]:
    """Return the frames that the client gets."""
    frame = frame_of(response)
    if how.kind in OF_FRAMES:
        return OF_FRAMES[how.kind](frame, how.a, how.b)
    if how.kind in OF_BYTES:
        other = OF_BYTES[how.kind](frame, how.a, how.b)
    else:
        other_response = deepcopy(response)
        _OF_CONTENT[how.kind](other_response, how.a, how.b)
        try:
            other = frame_of(other_response)
        except Exception:  # it cannot be written: a text that may not be null, a number that is too large
            return whole(name, response)
    read = read_strictly(response, other)
    if read is not None and _unnoticeable(response, read):
        return whole(name, response)
    return [(0.0, other)]


def _unnoticeable(truth: Any, lie: Any) -> bool:
    if any(getattr(owner, name) for owner, name in _codes(truth)):
        return True
    return any(
        getattr(owner, name) not in {getattr(true, name) for true, other in _fields(truth) if other == name}
        for owner, name in _fields(lie)
        if name in BELIEVED
    )


class Spoiling:
    """Spoils these answers of a history, and tells which."""

    def __init__(self, spoiled: Sequence[Spoiled]) -> None:
        self.spoiled = {how.nth: how for how in spoiled}
        self.seen: list[tuple[str, str]] = []  # name of the request, kind
        self._answers = 0

    def install(self, wire: Wire) -> None:
        wire.spoil, wire.lose = self._spoil, self._lose

    def _spoil(self, name: str, response: Any) -> Iterable[Frame]:
        how = self.spoiled.get(self._answers)
        self._answers += 1
        if how is None or how.kind == LOST:
            return whole(name, response)
        self.seen.append((name, how.kind))
        return spoiled_frames(name, response, how)

    def _lose(self, name: str) -> bool:
        how = self.spoiled.get(self._answers)
        if how is None or how.kind != LOST:
            return False
        self._answers += 1
        self.seen.append((name, LOST))
        return True


class AnswerHistory:
    """A slot that publishes TRANSACTIONS, one event in each, and goes on after each error as the job does."""

    def __init__(self, patch: pytest.MonkeyPatch, version: int) -> None:
        self.brokers = Brokers(version)
        for topic in TOPICS:
            self.brokers.logs[topic] = []
        self.wire = Wire(self.brokers)
        self.wire.install(patch)
        self.errors: list[JobError] = []

    def run(self, most_errors: int = 0) -> None:
        """Raises AssertionError, Hang, or what a client should not raise."""
        while not self.starts():
            assert len(self.errors) < most_errors, self.errors
        self.wire.spoil, self.wire.lose = whole, lambda name: False
        assert self.starts(), self.errors
        self.check(TRANSACTIONS)

    def starts(self) -> bool:
        """Start as a job does: everything is published, or an error ends it."""
        client = Client(ADDRESS, {})
        try:
            slots = [Slot(client, name, GROUP) for name in SLOTS]
            producer, *_ = self._within_limit(lambda: fence_all(client, slots))
            committed = self._within_limit(lambda: committed_offsets(client, GROUP, [EVENTS]))
            assert {at: offset for at, (offset, _) in committed.items()} == self.brokers.committed(GROUP)
            done = sum(offset for offset, _ in committed.values())
            while done < TRANSACTIONS:
                self.check(done)
                try:
                    producer = self._publish(client, producer, done)
                except Aborted as error:
                    self._note(error)
                    self.check(done)  # nothing of it is there
                    producer = error.producer
                else:
                    done += 1
        except JobError as error:
            self._note(error)
            return False
        finally:
            client.close()
        return True

    def check(self, done: int) -> None:
        """Exactly the first events are published."""
        for topic, last in zip(TOPICS, ((0, 1, 2), (3,)), strict=True):
            expected = [f"{number}.{n}".encode() for number in range(done) for n in last]
            assert [record.value for record in self.brokers.read() if record.topic == topic] == expected
        assert self.brokers.committed(GROUP) == ({EVENTS: done} if done else {})

    def _publish(self, client: Client, producer: ProducerEpoch, number: int) -> ProducerEpoch:
        first: dict[int, int] = {}
        pieces = [
            batches(producer, [(0, [f"{number}.0".encode()]), (0, [f"{number}.1".encode()])], first),
            batches(producer, [(0, [f"{number}.2".encode()]), (1, [f"{number}.3".encode()])], first),
        ]
        slot, destinations = Slot(client, SLOTS[0], GROUP), [(topic, 0) for topic in TOPICS]
        return self._within_limit(
            lambda: slot.publish(producer, pieces, destinations, {EVENTS: number + 1}, {EVENTS: "note"}).producer
        )

    def _within_limit(self, work: Callable[[], T]) -> T:
        self.wire.until = self.brokers.now + LIMIT_S
        try:
            return work()
        finally:
            self.wire.until = float("inf")

    def _note(self, error: JobError) -> None:
        self.errors.append(error)
        assert str(error)
        if type(error) is BrokerUnreachable:
            assert ADDRESS in str(error)
            assert not str(error).endswith("; ")  # the last reason


def publish(patch: pytest.MonkeyPatch, version: int, spoiled: Sequence[Spoiled]) -> list[tuple[str, str]]:
    """A history with these spoiled answers; returns which request got which."""
    history, spoiling = AnswerHistory(patch, version), Spoiling(spoiled)
    spoiling.install(history.wire)
    history.run(most_errors=3 + 3 * len(spoiled))
    return spoiling.seen
