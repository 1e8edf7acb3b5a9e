"""Answers to Fetch requests that are wrong: their fields, the record batches in them, and their bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from copy import deepcopy
from random import Random
from typing import Any

from kafka.protocol.consumer import FetchResponse

from streaming.publishing.contract import TopicPartition
from tests.support.doubles.wire import Frame, frame_of
from tests.support.histories.spoiled_answers import CODES, OF_BYTES, OF_FRAMES
from tests.support.network.spoiled_batches import Effect, is_whole, split, spoil

Transaction = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
DivergingEpoch = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset
NUMBERS = (-(2**63), -(2**31), -5, -1, 0, 1, 2, 2**31 - 1, 2**63 - 1)
THROTTLES_MS = (-(2**31), -1, 1, 20, 2**31 - 1)
MANY = 20_000  # aborted transactions
NOBODY = 999  # a producer that wrote nothing

# A frame that lacks its end, or never comes, is waited for: those on the simulated clock are in `fetching_history`.
FRAMES = [kind for kind in OF_FRAMES if kind not in ("no answer", "silence amid the answer", "late", "byte by byte")]

Effects = dict[TopicPartition, Effect]  # a partition that is not named: EXACT
Spoiler = Callable[[Random, Any, Any], Effect | None]  # of a response and a partition in it; None: all partitions


def answers(r: Random, response: Any, note: Callable[[str, Effects], None]) -> Iterable[Frame]:
    """Return the frames that the client gets in place of this response. `note` gets the fault and its effects."""
    partitions = [(topic, partition) for topic in response.responses or () for partition in topic.partitions or ()]
    every: Effects = {(topic.topic, partition.partition_index): Effect.LIE for topic, partition in partitions}
    kind = r.choice(["batches", "batches", "batches", "fields", "fields", "bytes", "frames"])
    frame = frame_of(response)
    if kind == "frames":
        name = r.choice(FRAMES)
        note(name, {})
        return OF_FRAMES[name](frame, r.getrandbits(31), r.getrandbits(31))
    if kind == "bytes":
        name = r.choice([*OF_BYTES])
        other = OF_BYTES[name](frame, r.getrandbits(31), r.getrandbits(31))
        note(name, every if _is_believed(response, other) else {})
        # The rest of a frame that lacks its end does not come.
        return [(0.0, other), (0.02, None)]
    changed = deepcopy(response)
    if not partitions:
        kind = "fields"
    if kind == "batches":
        _batches(r, changed, note)
    else:
        name = r.choice([*_OF_FIELDS])
        at = r.randrange(len(partitions)) if partitions else None
        found = [partition for topic in changed.responses or () for partition in topic.partitions or ()]
        effect = _OF_FIELDS[name](r, changed, found[at] if at is not None else None)
        note(name, every if effect is Effect.LIE else {})
    return [(0.0, frame_of(changed))]


def _batches(r: Random, response: Any, note: Callable[[str, Effects], None]) -> None:
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.records and r.random() < 0.7:
                partition.records, name, effect = spoil(r, bytes(partition.records))
                note(name, {(topic.topic, partition.partition_index): effect})


def _code(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None:
        partition.error_code = r.choice(CODES)
    return None


def _code_of_all(r: Random, response: Any, partition: Any) -> Effect | None:
    response.error_code = r.choice(CODES)
    return None


def _throttle(r: Random, response: Any, partition: Any) -> Effect | None:
    response.throttle_time_ms = r.choice(THROTTLES_MS)
    return None


def _session(r: Random, response: Any, partition: Any) -> Effect | None:
    response.session_id = r.choice([-(2**31), -1, 0, 1, 2, response.session_id + 1, 2**31 - 1])
    return None


def _not_requested(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None:
        for topic in response.responses:
            if r.random() < 0.5:
                more = deepcopy(topic)
                more.topic = r.choice([topic.topic, "others", ""])
                for one in more.partitions:
                    one.partition_index += r.choice([1_000, -1_000])
                response.responses = [*response.responses, more]
    return None


def _twice(r: Random, response: Any, partition: Any) -> Effect | None:
    for topic in response.responses or ():
        if partition in topic.partitions:
            again = deepcopy(partition)
            again.error_code = r.choice([0, 0, 3, 1])
            topic.partitions = [*topic.partitions, again]
    if r.random() < 0.3:
        response.responses = [*(response.responses or ()), *deepcopy(response.responses or ())]
    return None


def _missing(r: Random, response: Any, partition: Any) -> Effect | None:
    for topic in response.responses or ():
        topic.partitions = [one for one in topic.partitions if one is not partition]
    if r.random() < 0.3:
        response.responses = [topic for topic in response.responses or () if topic.partitions]
    return None


def _null(r: Random, response: Any, partition: Any) -> Effect | None:
    match r.randrange(4):
        case 0:
            response.responses = None
        case 1:
            for topic in response.responses or ():
                topic.partitions = None
        case 2:
            if partition is not None:
                partition.records = r.choice([None, b""])
        case 3:
            if partition is not None and partition.aborted_transactions:
                partition.aborted_transactions = None
                return Effect.LIE
    return None


def _offsets(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None:
        name = r.choice(["high_watermark", "last_stable_offset", "log_start_offset"])
        setattr(partition, name, r.choice(NUMBERS))
    return None


def _replica(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None:
        partition.preferred_read_replica = r.choice([-(2**31), -2, 0, 1, 7, 2**31 - 1])
        partition.records = r.choice([partition.records, b""])
    return None


def _diverging(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None:
        epoch, end = r.choice([-1, 0, 5]), r.choice(NUMBERS)
        partition.diverging_epoch = DivergingEpoch(version=response.version, epoch=epoch, end_offset=end)
    return None


def _aborted(r: Random, response: Any, partition: Any) -> Effect | None:
    """Transactions in any order, several times, and many of producers that wrote nothing here."""
    if partition is not None:
        some = list(partition.aborted_transactions or ())
        some *= r.choice([1, 2, 30])
        others = [(NOBODY + r.randrange(3), first) for first in r.sample(range(MANY), r.choice([0, 3, 300]))]
        others += [(r.choice([-1, NOBODY, -(2**63), 2**63 - 1]), n) for n in (NUMBERS * r.choice([0, 1, 100]))]
        some += [Transaction(version=response.version, producer_id=id, first_offset=n) for id, n in others]
        r.shuffle(some)
        partition.aborted_transactions = some
    return None


def _many_aborted(r: Random, response: Any, partition: Any) -> Effect | None:
    if partition is not None and r.random() < 0.1:
        one = Transaction(version=response.version, producer_id=NOBODY, first_offset=0)
        partition.aborted_transactions = [*(partition.aborted_transactions or ()), *([one] * MANY)]
    return None


def _aborted_others(r: Random, response: Any, partition: Any) -> Effect | None:
    """Transactions of another producer or from another offset on."""
    if partition is None or not partition.aborted_transactions:
        return None
    one = r.choice(partition.aborted_transactions)
    name = r.choice(["producer_id", "first_offset"])
    setattr(one, name, r.choice([*NUMBERS, getattr(one, name) + 1, getattr(one, name) - 1]))
    return Effect.LIE


def _of_another(r: Random, response: Any, partition: Any) -> Effect | None:
    """The records of another partition."""
    found = [one for topic in response.responses or () for one in topic.partitions or ()]
    if partition is None or len(found) < 2:
        return None
    other = r.choice(found)
    partition.records, other.records = other.records, partition.records
    return Effect.LIE


_OF_FIELDS: dict[str, Spoiler] = {
    "an error code": _code,
    "an error code of all": _code_of_all,
    "throttled": _throttle,
    "another session": _session,
    "partitions that were not requested": _not_requested,
    "a partition twice": _twice,
    "a partition missing": _missing,
    "null": _null,
    "other ends of the log": _offsets,
    "another replica": _replica,
    "a diverging epoch": _diverging,
    "aborted transactions in another order": _aborted,
    "many aborted transactions": _many_aborted,
    "other aborted transactions": _aborted_others,
    "the records of another partition": _of_another,
}


def _is_believed(truth: Any, frame: bytes) -> bool:
    """Whether a client that reads a frame as well as it can finds something wrong that it cannot notice."""
    kind, size = type(truth), int.from_bytes(frame[:4], "big")
    body = io.BytesIO(frame[4 : 4 + size])
    try:
        kind.parse_header(body, version=truth.version)
        told = kind.decode(body.read(), version=truth.version)
        return bool(_stated(told) - _stated(truth))
    except Exception:
        return False


def _stated(response: Any) -> set[Any]:
    """The content of a response: batches at their offsets, and aborted transactions."""
    stated: set[Any] = set()
    for topic in response.responses or ():
        for partition in topic.partitions or ():
            at = topic.topic, partition.partition_index
            transactions = frozenset(
                (one.producer_id, one.first_offset) for one in partition.aborted_transactions or ()
            )
            places = [batch[:8] for batch in split(bytes(partition.records or b"")) if is_whole(batch)]
            stated |= {(at, place) for place in places} | ({(at, transactions)} if places else set())
    return stated
