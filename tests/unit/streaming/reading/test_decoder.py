"""Record batches of every kind become columns, and a batch that cannot be read is named."""

from __future__ import annotations

import gzip
import importlib
import pkgutil
import tracemalloc
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from streaming import reading
from streaming.errors import Unreadable
from streaming.publishing.contract import TopicPartition
from streaming.reading import decoder, legacy, plain, unpacking, warm_up
from streaming.reading.contract import NO_END, AbortedTransaction, Decoded, FetchedPartition, Position, read_only
from streaming.reading.decoder import decode
from streaming.rows import EVENTS, SUBSCRIPTIONS, ConsumerRecord, consumer_records
from tests.support.doubles.fetched_batches import (
    APPEND_TIME,
    CODECS,
    HEAD,
    TRANSACTIONAL,
    batch,
    empty,
    marker,
    messages,
    sealed,
)

pytestmark = pytest.mark.kernels

TIME_MS = 1_700_000_000_000
PARTITION = 3
AT = ("events", PARTITION)


def records(*offsets: int, value: bytes = b"v") -> list[ConsumerRecord]:
    return [ConsumerRecord(PARTITION, o, TIME_MS + o, b"k%d" % o, value, [("name", b"content")]) for o in offsets]


def fetched(
    data: bytes, begin: int = 0, end: int = NO_END, aborted: Sequence[tuple[int, int]] = ()
) -> FetchedPartition:
    transactions = [AbortedTransaction(*one) for one in aborted]
    return FetchedPartition("events", EVENTS, PARTITION, Position(begin), end, read_only(data), transactions)


def read(decoded: Decoded) -> list[ConsumerRecord]:
    decoded.rows.validate(full=True)
    return [record._replace(headers=list(record.headers)) for record in consumer_records(decoded.rows)]


def only(*partitions: FetchedPartition) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
    (decoded,) = decode(partitions)
    return read(decoded), offsets(decoded)


def offsets(decoded: Decoded) -> dict[TopicPartition, int]:
    """The next one of each partition."""
    return {at: position.offset for at, position in decoded.positions.items()}


def until_error(*partitions: FetchedPartition, piece_bytes: int = decoder.PIECE_BYTES) -> tuple[list[Decoded], str]:
    items: list[Decoded] = []
    with pytest.raises(Unreadable) as raised:
        items.extend(decode(partitions, piece_bytes))
    return items, str(raised.value)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_each_codec_is_read(codec: str) -> None:
    some = records(5, 6, 7)
    assert only(fetched(batch(some, codec), begin=5)) == (some, {AT: 8})


def test_nulls_empty_texts_and_headers_are_told_apart() -> None:
    some = [
        ConsumerRecord(PARTITION, 0, 0, None, b"", []),
        ConsumerRecord(PARTITION, 1, -1, b"", None, [("", None), ("ü", b"")]),
        ConsumerRecord(PARTITION, 2, -(2**62), None, None, [("a", b"\xff"), ("a", b"x" * 300)]),
    ]
    assert only(fetched(batch(some, "lz4")))[0] == some


def test_the_name_of_a_header_that_is_no_utf8_is_read_with_replacements() -> None:
    (record,), _ = only(fetched(sealed(batch(records(0)).replace(b"name", b"n\xffm\xc3"))))
    assert record.headers == [("n�m�", b"content")]


def test_a_broker_may_set_the_time() -> None:
    some = records(0, 1)
    (first, second), _ = only(fetched(batch(some, attributes=APPEND_TIME)))
    assert first.timestamp_ms == second.timestamp_ms == TIME_MS + 1  # the batch's greatest


def test_offsets_before_the_first_and_from_the_end_on_are_left_out() -> None:
    data = batch(records(5, 6, 7)) + batch(records(8, 9), "zstd")
    assert only(fetched(data, begin=6, end=9)) == (records(6, 7, 8), {AT: 9})
    assert only(fetched(data, begin=6, end=8)) == (records(6, 7), {AT: 8})


def test_gaps_of_compaction_are_passed() -> None:
    data = batch(records(4, 9), base=2, last=12) + empty(13, 19)
    assert only(fetched(data, begin=0)) == (records(4, 9), {AT: 20})
    assert only(fetched(data, begin=10)) == ([], {AT: 20})
    assert only(fetched(data, begin=0, end=11)) == (records(4, 9), {AT: 11})


def test_a_position_has_the_epoch_of_the_last_batch() -> None:
    data = with_epoch(batch(records(0)), 4) + messages(records(1), 1) + with_epoch(batch(records(2, 3), "lz4"), 6)
    data += with_epoch(marker(4, 1, commit=True), 7) + with_epoch(batch(records(9), "gzip"), 8)
    for end, expected in ((1, (1, 4)), (2, (2, 4)), (3, (3, 6)), (5, (5, 7)), (8, (8, 8)), (NO_END, (10, 8))):
        (decoded,) = decode([fetched(data, end=end)])
        assert decoded.positions == {AT: Position(*expected)}
    cut = FetchedPartition("events", EVENTS, PARTITION, Position(5, 3), NO_END, read_only(data[:9]))
    assert [decoded.positions for decoded in decode([cut])] == [{AT: Position(5, 3)}]


def with_epoch(data: bytes, epoch: int) -> bytes:
    return data[:12] + epoch.to_bytes(4, "big") + data[16:]


def test_transactions_that_were_aborted_are_dropped() -> None:
    def of(producer: int, *offsets: int) -> bytes:
        return batch(records(*offsets), producer=producer, attributes=TRANSACTIONAL)

    data = (
        of(1, 0, 1)
        + of(2, 2)
        + batch(records(3))
        + marker(4, 1, commit=False)
        + of(1, 5)
        + of(2, 6)
        + marker(7, 1, commit=True)
        + marker(8, 2, commit=False)
        + of(2, 9)
        + marker(10, 2, commit=True)
    )
    kept = records(3, 5, 9)
    aborted = [(2, 2), (1, 0)]  # in any order
    assert only(fetched(data, aborted=aborted)) == (kept, {AT: 11})
    assert only(fetched(data, begin=1, aborted=aborted)) == (kept, {AT: 11})  # the transaction began before
    assert only(fetched(data))[0] == records(0, 1, 2, 3, 5, 6, 9)
    assert only(fetched(marker(4, 1, commit=True), begin=4)) == ([], {AT: 5})


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "snappy in blocks", "lz4"])
def test_messages_of_old_formats_are_read(magic: int, codec: str) -> None:
    if magic == 0 and codec == "lz4":
        pytest.skip("clients of that time wrote a wrong checksum")
    data = messages(records(3, 4, 6), magic, codec) + batch(records(7)) + messages(records(8), magic)
    expected = [
        record._replace(headers=[], timestamp_ms=record.timestamp_ms if magic else -1) for record in records(4, 6)
    ] + records(7)
    assert only(fetched(data, begin=4, end=8)) == (expected, {AT: 8})
    assert only(fetched(data, begin=4, end=5)) == (expected[:1], {AT: 5})


def test_a_message_of_an_old_format_that_is_corrupted_is_named() -> None:
    good = messages(records(3, 4), 1)
    items, reason = until_error(fetched(good[:-1] + b"w", begin=3))
    assert [read(item)[0].offset for item in items] == [3]
    assert reason == "events, partition 3: the record batch at offset 4 has a wrong checksum"
    _, reason = until_error(fetched(messages(records(3), 1, "gzip").replace(b"\x1f\x8b", b"\x1f\x8c")))
    assert "at offset 3" in reason


def test_a_batch_that_is_cut_off_is_read_the_next_time() -> None:
    first, second = batch(records(0, 1)), batch(records(2))
    for cut in range(len(second)):
        assert only(fetched(first + second[:cut])) == (records(0, 1), {AT: 2})
    assert only(fetched(first[:30], begin=1)) == ([], {AT: 1})


def test_partitions_and_sources_are_read_together() -> None:
    changes = FetchedPartition(
        "subscriptions", SUBSCRIPTIONS, 1, Position(0), NO_END, read_only(batch(records(0), "gzip"))
    )
    (decoded,) = decode([fetched(batch(records(5)), begin=5), changes])
    assert decoded.rows["source"].to_pylist() == [EVENTS, SUBSCRIPTIONS]
    assert decoded.rows["partition"].to_pylist() == [PARTITION, 1]
    assert offsets(decoded) == {AT: 6, ("subscriptions", 1): 1}
    assert list(decode([])) == []


def with_bytes(data: bytes, at: int, some: bytes) -> bytes:
    return sealed(data[:at] + some + data[at + len(some) :])


GOOD = batch(records(2, 3))
ZEROS = bytes(4)


def at_offset(offset: int, data: bytes) -> bytes:
    """A batch that begins at another offset, which the checksum does not cover."""
    return offset.to_bytes(8, "big", signed=True) + data[8:]


SPOILED = {
    "checksum": (GOOD[:-1] + b"x", "has a wrong checksum"),
    "format": (with_bytes(GOOD, 16, b"\3"), "is of an unknown format"),
    "length": (GOOD[:8] + b"\0\0\0\x0d" + GOOD[12:], "contradict"),
    "length of a message": (GOOD[:8] + b"\0\0\0\x20" + GOOD[12:], "contradict"),
    "last offset": (with_bytes(GOOD, 23, ZEROS), "contradict"),
    "negative last offset": (with_bytes(GOOD, 23, b"\xff" * 4), "contradict"),
    "too few records": (with_bytes(GOOD, 57, b"\0\0\0\1"), "contradict"),
    "too many records": (with_bytes(GOOD, 57, b"\0\0\0\3"), "contradict"),
    "a negative number of records": (with_bytes(GOOD, 57, b"\xff" * 4), "contradict"),
    "an absurd number of records": (with_bytes(GOOD, 57, b"\x7f\xff\xff\xff"), "contradict"),
    "length of a record": (with_bytes(GOOD, HEAD, b"\x01"), "contradict"),
    "length of a record beyond the end": (with_bytes(GOOD, HEAD, b"\x7e"), "contradict"),
    "length without an end": (with_bytes(GOOD, HEAD, b"\xff" * 11), "contradict"),
    "records behind a number of none": (with_bytes(GOOD, 57, ZEROS), "contradict"),
    "the greatest offset": (at_offset(2**63 - 2, GOOD), "contradict"),
    "an offset that goes back": (at_offset(1, GOOD), "contradict"),
    "an offset that goes back to where it counts no more": (at_offset(-5, GOOD), "contradict"),
    "offset twice": (with_bytes(GOOD, HEAD + 27, b"\0"), "contradict"),
    "length of a key": (with_bytes(GOOD, HEAD + 4, b"\x7e"), "contradict"),
    "length of a value": (with_bytes(GOOD, HEAD + 7, b"\x7e"), "contradict"),
    "number of headers": (with_bytes(GOOD, HEAD + 9, b"\x01"), "contradict"),
    "more headers": (with_bytes(GOOD, HEAD + 9, b"\x04"), "contradict"),
    "length of a name": (with_bytes(GOOD, HEAD + 10, b"\x01"), "contradict"),
    "length of a content": (with_bytes(GOOD, HEAD + 15, b"\x7e"), "contradict"),
    "codec": (with_bytes(GOOD, 21, b"\0\7"), "cannot be decompressed: codec 7 is unknown"),
    **{
        f"{codec} cut off": (sealed(batch(records(2, 3, value=b"v" * 200), codec)[:-9]), "cannot be decompressed")
        for codec in CODECS
        if codec != "none"
    },
    **{
        f"{codec} of rubbish": (with_bytes(batch(records(2), codec), HEAD, b"\x37" * 20), "cannot be decompressed")
        for codec in CODECS
        if codec != "none"
    },
    "a little snappy that claims gigabytes": (
        with_bytes(batch(records(2), "snappy"), HEAD, b"\xff\xff\xff\xff\x0f"),
        "cannot hold",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_corrupted_batch_is_named_after_the_good_ones(what: str, codec: str) -> None:
    data, expected = SPOILED[what]
    other = fetched(batch(records(7)), begin=7)._replace(partition=4)
    items, reason = until_error(fetched(batch(records(0, 1), codec) + data + batch(records(4))), other)
    assert [record.offset for item in items for record in read(item)] == [0, 1, 7]
    assert [offsets(item) for item in items] == [{AT: 2, ("events", 4): 8}]
    offset = int.from_bytes(data[:8], "big", signed=True)
    assert reason.startswith(f"events, partition 3: the record batch at offset {offset} ")
    assert expected in reason


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_that_comes_twice_is_named_and_no_record_is_read_twice(codec: str) -> None:
    data = batch(records(0, 1), codec) + batch(records(2, 3), codec)
    items, reason = until_error(fetched(data + batch(records(0, 1), codec)))
    assert [record.offset for item in items for record in read(item)] == [0, 1, 2, 3]
    assert "offset 0 has lengths or offsets that contradict each other" in reason


def test_a_message_of_an_old_format_that_comes_twice_is_named() -> None:
    message = messages(records(3, 4), 1, "gzip")
    items, reason = until_error(fetched(message + message, begin=3))
    assert [record.offset for item in items for record in read(item)] == [3, 4]
    assert "contradict" in reason


@pytest.mark.parametrize("piece_bytes", range(500, 640, 10))
def test_offsets_that_go_back_from_one_piece_of_a_batch_to_the_next_are_named(piece_bytes: int) -> None:
    """The first offset that goes back is the last of a piece, or the first of the next one."""
    some = [*records(*range(10, 20), value=b"v" * 30), *records(*range(10, 20), value=b"v" * 30)]
    items, reason = until_error(fetched(batch(some, "gzip", last=40)), piece_bytes=piece_bytes)
    found = [record.offset for item in items for record in read(item)]
    assert found == list(range(10, 10 + len(found)))
    assert "contradict" in reason


def test_a_transaction_is_found_among_many() -> None:
    data = b"".join(batch(records(i), producer=i, attributes=TRANSACTIONAL) for i in range(100))
    aborted = [(producer, first) for producer in range(0, 2_000, 2) for first in (producer, 150, 0)]
    assert only(fetched(data, aborted=aborted)) == (records(*range(1, 100, 2)), {AT: 100})


def test_a_transaction_that_is_listed_twice_ends_once() -> None:
    data = batch(records(0), producer=1, attributes=TRANSACTIONAL) + marker(1, 1, commit=False)
    data += batch(records(2), producer=1, attributes=TRANSACTIONAL) + marker(3, 1, commit=True)
    assert only(fetched(data, aborted=[(1, 0), (9, 0), (1, 0)])) == (records(2), {AT: 4})


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec not in ("none", "snappy")])
@pytest.mark.parametrize("n_large", [0, 1])
def test_a_large_batch_is_decompressed_in_pieces(codec: str, n_large: int) -> None:
    """Each piece has its whole records; the cut one comes with the next piece."""
    some = records(*range(1, 40), value=b"v" * 30)
    some[20:20] = [r._replace(offset=20) for r in records(20, value=b"w" * 1500)][:n_large]
    some = [record._replace(offset=i) for i, record in enumerate(some)]
    data = batch(some, codec) + batch(records(100), codec)
    items = list(decode([fetched(data, begin=2)], piece_bytes=500))
    assert [record for item in items for record in read(item)] == some[2:] + records(100)
    assert len(items) > 4
    for item in items[:-1]:
        assert offsets(item) == {AT: item.rows["offset"][-1].as_py() + 1}
        assert item.rows.nbytes < 2_500
    assert offsets(items[-1]) == {AT: 101}


def test_pieces_before_the_end_of_a_corrupted_batch_are_given() -> None:
    some = records(*range(40), value=b"v" * 30)
    packed = batch(some, "gzip")
    items, reason = until_error(fetched(sealed(packed[:-8])), piece_bytes=500)
    assert "at offset 0 cannot be decompressed" in reason
    given = [record for item in items for record in read(item)]
    assert given == some[: len(given)]
    assert len(given) > 20
    assert offsets(items[-1]) == {AT: len(given)}


def test_a_record_larger_than_any_is_rejected_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MOST_RECORD_BYTES", 2_000)
    data = batch(records(0, value=b"v" * 3_000), "gzip")
    with pytest.raises(Unreadable, match="more than 2000 bytes"):
        list(decode([fetched(data)], piece_bytes=500))


def test_a_block_of_snappy_that_is_larger_than_any_is_rejected_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpacking, "MOST_RECORD_BYTES", 2_000)
    data = batch(records(0, value=b"v" * 3_000), "snappy")
    with pytest.raises(Unreadable, match="a block of snappy has more than 2000 bytes"):
        list(decode([fetched(data)]))


@pytest.mark.parametrize("n", [1, 50_000])
def test_gzip_of_many_members_is_read(n: int) -> None:
    some = records(0, 1)
    packed = gzip.compress(batch(some)[HEAD:]) + gzip.compress(b"") * n
    head = batch(some, "gzip")[:HEAD]
    assert only(fetched(sealed(head + packed))) == (some, {AT: 2})


def wrapped(*within: bytes, magic: int = 1, offset: int = 3) -> bytes:
    """A message of an old format around others."""
    packed = gzip.compress(b"".join(within))
    head = offset.to_bytes(8, "big") + bytes(8) + bytes([magic, 1]) + bytes(8) * magic
    out = bytearray(head + b"\xff" * 4 + len(packed).to_bytes(4, "big") + packed)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[12:16] = zlib.crc32(out[16:]).to_bytes(4, "big")
    return bytes(out)


def inner(magic: int = 1, **fields: int) -> bytes:
    """A message within another: some of its numbers are other ones."""
    message = bytearray(messages(records(0), magic))
    places = {"length": (8, 4), "magic": (16, 1), "attributes": (17, 1), "key": (18 + 8 * magic, 4)}
    for name, value in fields.items():
        at, width = places[name]
        message[at : at + width] = value.to_bytes(width, "big", signed=True)
    return bytes(message)


WITHIN = {
    "no length": (wrapped(inner(length=-12)), "lengths contradict"),
    "no second length": (wrapped(inner(), inner(length=-12)), "lengths contradict"),
    "the greatest length": (wrapped(inner(length=2**31 - 1)), "lengths contradict"),
    "cut off": (wrapped(inner()[:-1]), "lengths contradict"),
    "another key": (wrapped(inner(key=3)), "lengths contradict"),
    "the greatest key": (wrapped(inner(key=2**31 - 1)), "lengths contradict"),
    "bytes behind": (wrapped(inner(), b"\0" * 5), "lengths contradict"),
    "zeros behind": (wrapped(inner(), b"\0" * 4_000), "lengths contradict"),
    "none": (wrapped(b""), "lengths contradict"),
    "another format": (wrapped(inner(magic=0)), "another format"),
    "compressed twice": (wrapped(inner(attributes=1)), "compressed once more"),
    "an offset twice": (wrapped(inner(), inner()), "offsets contradict"),
}


@pytest.mark.parametrize("what", WITHIN)
def test_a_message_within_another_whose_numbers_make_no_sense_is_named(what: str) -> None:
    message, why = WITHIN[what]
    assert only(fetched(wrapped(inner()), begin=3))[1] == {AT: 4}
    _, reason = until_error(fetched(message))
    assert reason.startswith("events, partition 3: the record batch at offset 3 is of an old format")
    assert why in reason


def test_a_message_of_an_old_format_that_holds_more_than_any_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "MOST_MESSAGE_BYTES", 2_000)
    _, reason = until_error(fetched(messages(records(0, value=bytes(3_000)), 1, "gzip")))
    assert "holds more than 2000 bytes" in reason


@pytest.mark.parametrize(("n", "size", "most"), [(300, 3_000, 300_000), (1, 900_000, 5_000_000)])
def test_a_small_batch_that_holds_much_does_not_fill_the_memory(n: int, size: int, most: int) -> None:
    data = batch(records(*range(n), value=bytes(size)), "gzip")
    assert len(data) < 20_000

    def read_all() -> int:
        return sum(len(item.rows) for item in decode([fetched(data)], piece_bytes=10_000))

    assert read_all() == n  # compiles the kernels
    tracemalloc.start()
    try:
        read_all()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@pytest.mark.large
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec not in ("none", "snappy in blocks")])
@pytest.mark.parametrize("first", [b"", b"\x80\x80\x80\x10"], ids=["zeros", "a large record"])
def test_what_unpacks_to_a_thousandfold_is_named_and_does_not_fill_the_memory(
    codec: str, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (plain, unpacking):
        monkeypatch.setattr(module, "MOST_RECORD_BYTES", 1 << 18)
    _, pack = CODECS[codec]
    head = batch(records(0, 1), codec)[:HEAD]
    data = fetched(sealed(head + pack(first + bytes(16 << 20))))
    until_error(fetched(batch(records(0)) + batch(records(1), codec)[:-1] + b"x"))  # compiles the kernels
    tracemalloc.start()
    try:
        _, reason = until_error(data, piece_bytes=1 << 16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reason.startswith("events, partition 3: the record batch at offset 0 ")
    assert peak < 4 << 20


def test_batches_that_are_not_compressed_are_divided_too() -> None:
    data = b"".join(batch(records(i, value=b"v" * 300)) for i in range(10))
    items = list(decode([fetched(data)], piece_bytes=1_000))
    assert [record.offset for item in items for record in read(item)] == list(range(10))
    assert len(items) >= 4
    assert [offsets(item)[AT] for item in items] == [item.rows["offset"][-1].as_py() + 1 for item in items]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_compiled_ahead_serves_all_batches(codec: str) -> None:
    """Another signature would be compiled in the middle of a replay."""
    warm_up.compile()
    before = compiled()
    some = records(5, 6, 7)
    only(fetched(batch(some, codec), begin=5, end=7))
    other = fetched(batch(some, codec), aborted=[(9, 1)])._replace(partition=4)
    list(decode([fetched(batch(some, codec)), other], piece_bytes=1))
    assert compiled() == before


def compiled() -> dict[str, list[Any]]:
    """The signatures for which each kernel of the room is compiled."""
    names = [m.name for m in pkgutil.iter_modules(reading.__path__, f"{reading.__name__}.")]
    kernels = [f for name in names for f in vars(importlib.import_module(name)).values() if hasattr(f, "signatures")]
    return {kernel.__name__: list(kernel.signatures) for kernel in kernels}
