"""Run corrupted input of each kind through the code: `make fuzz MINUTES=10`.

PARTS names the kinds: patterns and events, record batches, answers of brokers, files of saved state, whole Fetch
conversations over sockets, answers and requests over HTTP.

Wrong is: an exception, an answer that is not the definition's, a record that is not there once, a start with other
subscriptions, a step that takes longer than SLOW_S or does not end, memory that grows by more than MOST_GROWTH_BYTES.
The seed of what went wrong is printed; `python -m tests.support.programs.fuzz --seed N` runs it again, `--only PART`
one kind alone.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from matchers.index.fields import Fields
from matchers.index.snapshot import FieldPlan, Snapshot
from matchers.index.values import read_documents
from matchers.language import naive
from matchers.language.parsing import parse
from streaming.codecs import Undecodable, decode_event, open_codec
from streaming.documents.subscriptions import Rejected, read_change
from streaming.rows import INPUT
from streaming.worker.compiling import compile_changes
from streaming.worker.events.reading import read_events
from tests.property.test_reading import held
from tests.support.doubles.stage import changes
from tests.support.generators import workloads
from tests.support.histories import fetched_history, fetching_history, spoiled_answers, spoiled_state
from tests.support.network import fetch_conversation, http_conversations
from tests.unit.streaming.monitoring.test_console import console_of, document, served, snapshot_of

SLOW_S = 5.0  # of CPU time
HANG_S = 120
TELL_S = 60.0
MOST_GROWTH_BYTES = 1 << 30  # of this process after the first run
PIECES = [
    *(
        b"",
        b'"',
        b",",
        b"\\",
        b"0",
        b"}",
        b"]",
        b"{",
        b"[",
        b"e",
        b"-",
        b":",
        b"\xed\xa0\x80",
        b"\xff",
        b"\\ud800",
        b"{}",
    ),
    *(
        b'"$or":',
        b'{"$and":[',
        b'"anything-but"',
        b'"wildcard"',
        b"*",
        b"**",
        b"1e308",
        b"1e999",
        b"NaN",
        b"null",
        b"[[[[",
    ),
    *(b'{"prefix":', b'{"cidr":"', b'"x"', b"9007199254740993", b"true", b"\x00", b" " * 50, b"9" * 400, b"[" * 2000),
]


def spoiled(r: Random, document: Any) -> bytes:
    value = bytearray(json.dumps(document, ensure_ascii=r.random() < 0.3).encode("utf-8", "surrogatepass"))
    for _ in range(r.choice([0, 0, 0, 1, 1, 2, 5])):
        at = r.randint(0, len(value))
        value[at : at + r.randint(0, 3)] = r.choice([r.choice(PIECES), bytes([r.randrange(256)])])
    return bytes(value)


def hostile(r: Random) -> Any:
    """A pattern that is large, deep or many."""
    n = r.choice([10, 1_000, 5_000])
    nested: Any = [1]
    for _ in range(r.choice([5, 33, 200])):
        nested = (
            r.choice([{"x": nested}, {"$or": [{"x": [1]}, {"y": nested}]}])
            if isinstance(nested, dict)
            else {"x": nested}
        )
    return r.choice(
        [
            {"x": list(range(n))},
            {"$or": [{"x": [i]} for i in range(n)]},
            {"x": [{"wildcard": "*".join("a" * n)}]},
            {"x": [{"$and": [{"anything-but": i} for i in range(n)]}]},
            {"x": ["a" * 1_000 * n]},
            {str(i): [{"suffix": "a"}, 1] for i in range(n)},
            nested,
        ]
    )


def run(seed: int, parts: Iterable[str] = ()) -> None:
    """Run these parts, or all. The cases of a part are the same with and without the others."""
    for name in parts or PARTS:
        PARTS[name](Random(f"{seed} {name}"))


def partition(r: Random) -> None:
    """Record batches of a partition, as they are, cut off and corrupted."""
    fetched_history.check(r.getrandbits(40))


def headers(r: Random) -> None:
    """Read events with any headers, keys and times, as JSON and as CloudEvents."""
    names = ["ce_id", "ce_source", "ce_type", "ce_specversion", "ce_data", "content-type", "Content-Type", "h", "", "é"]
    texts = [b"1.0", b"a", b"", b"\xff", b"application/json", b"application/cloudevents+json", b"text/plain", None]
    texts += [b"text/plain; charset=" + name for name in (b"utf-16", b"idna", b'"latin1', b"iso-8859-99", b"x" * 300)]
    common = [("ce_id", b"1"), ("ce_source", b"s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]
    rows = [
        {
            "source": 0,
            "partition": r.choice([0, 2**31 - 1]),
            "offset": number,
            "timestamp": r.choice([-1, 0, -(2**63), 2**63 - 1]),
            "key": r.choice([None, b"", b"k", b"\xff"]),
            "value": r.choice([spoiled(r, workloads.event(r, exotic=False)), b"", None, r.randbytes(9)]),
            "headers": [
                *(common if r.random() < 0.7 else ()),
                *((r.choice(names), r.choice([*texts, r.randbytes(4)])) for _ in range(r.choice([0, 0, 1, 4]))),
            ],
        }
        for number in range(8)
    ]
    table = pa.RecordBatch.from_pylist(rows, schema=INPUT)
    fields = Fields.of([("$headers", "h"), ("$headers", "é"), ("$key",), ("$timestamp",), ("x",), ("ce_id",)])
    for name in ("json", "cloudevents"):
        reading = read_events(table, fields, open_codec(name), "events")
        for row in range(len(rows)):
            if row not in reading.undecodable:
                expected = read_documents([reading.document(row)], fields)
                assert held(reading.values, row) == held(expected, 0), rows[row]


def fetches(r: Random) -> None:
    """Conversations of a fetcher with brokers on 127.0.0.1 whose answers are wrong."""
    for _ in range(3):
        with pytest.MonkeyPatch.context() as patch:
            fetch_conversation.run(patch, r)


def http(r: Random) -> None:
    """Answers of a schema registry, a token endpoint and a job; requests to a job."""
    snapshot = snapshot_of(document("a"))
    with pytest.MonkeyPatch.context() as patch:
        http_conversations.run(patch, r, lambda: served(console_of(lambda: snapshot)))


def answers(r: Random) -> None:
    """Corrupt answers of brokers to a slot and to a fetcher."""
    spoiled = [
        spoiled_answers.Spoiled(r.randrange(50), r.choice(spoiled_answers.SPOILS), r.getrandbits(31), r.getrandbits(31))
        for _ in range(r.randint(1, 6))
    ]
    with pytest.MonkeyPatch.context() as patch:
        spoiled_answers.publish(patch, r.choice([1, 2]), spoiled)
    with pytest.MonkeyPatch.context() as patch:
        fetching_history.run(patch, r)


def state(r: Random) -> None:
    """Saved in a directory, or elsewhere."""
    spoils = [
        spoiled_state.Spoil(r.randrange(99), r.choice([*spoiled_state.KINDS]), r.getrandbits(31), r.getrandbits(31))
        for _ in range(r.randint(1, 5))
    ]
    with tempfile.TemporaryDirectory() as directory:
        spoiled_state.start(spoiled_state.saved(r.random() < 0.5), Path(directory), spoils)


def workers(r: Random) -> None:
    records: list[tuple[bytes | None, bytes | None]] = []
    for i in range(r.randint(1, 12)):
        pattern = hostile(r) if r.random() < 0.02 else workloads.fields(r, 2)
        written = {"id": f"s{i}", "subscriber": "alice", "pattern": pattern}
        records.append((f"s{i}".encode(), spoiled(r, written)))
    events = [spoiled(r, workloads.event(r, exotic=False)) for _ in range(r.randint(1, 8))]

    compiled = compile_changes(changes(records))
    patterns = {}
    for key, value in records:
        try:
            change = read_change(key, value)
        except Rejected:
            continue
        assert value is not None
        patterns[change.subscription.id] = parse(orjson.loads(value)["pattern"])
    assert set(compiled.segment.ids) == set(patterns)

    parts = Snapshot().update(compiled.segment).parts
    schema = {"value": pa.array(events, pa.binary()), "headers": pa.array([None] * len(events), pa.list_(pa.null()))}
    asked = FieldPlan.of(parts)
    reading = read_events(pa.record_batch(schema), asked.fields, decode_event, "events")
    found: list[set[str]] = [set() for _ in events]
    for part, encoder in zip(parts, asked.encoders, strict=True):
        encoded, several = encoder.encode(reading.values), reading.values.several
        matched = part.match(encoded, several, reading.document, np.empty(0, np.int32))
        for event, position in zip(*(a.tolist() for a in matched), strict=True):
            found[event].add(part.segment.ids[position])
    for number, event in enumerate(events):
        try:
            decoded = decode_event(event)
        except Undecodable:
            assert number in reading.undecodable, event
            continue
        if number in reading.undecodable:
            assert "deeper" in reading.undecodable[number], event
            continue
        expected = {id for id, pattern in patterns.items() if naive.matches(pattern, decoded)}
        assert found[number] == expected, (event, {id: patterns[id] for id in found[number] ^ expected})


PARTS: dict[str, Callable[[Random], None]] = {
    "workers": workers,
    "headers": headers,
    "partition": partition,
    "answers": answers,
    "state": state,
    "fetches": fetches,
    "http": http,
}


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _hangs(*_: object) -> None:
    raise TimeoutError(f"not done after {HANG_S} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, help="run this one only")
    arguments.add_argument("--only", choices=PARTS, action="append", default=[], help="run this part only")
    given = arguments.parse_args()
    logging.disable(logging.WARNING)  # of saved states that are not used
    run(0, ["partition"])  # compiles kernels, which a conversation would wait for
    run(0, given.only)
    if given.seed is not None:
        run(given.seed, given.only)
        print(f"seed {given.seed}: nothing wrong")
        return
    first = seed = time.time_ns() % 2**40
    print(f"seeds from {first}", flush=True)
    end, told = time.monotonic() + 60 * given.minutes, time.monotonic()
    slowest, base = 0.0, _peak_bytes()
    signal.signal(signal.SIGALRM, _hangs)
    while time.monotonic() < end:
        begin = time.process_time()
        signal.alarm(HANG_S)
        faulthandler.dump_traceback_later(2 * HANG_S, exit=True)  # a kernel hears no signal
        try:
            run(seed, given.only)
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise
        took = time.process_time() - begin
        if took > SLOW_S:
            sys.exit(f"seed {seed} took {took:.1f} s")
        if _peak_bytes() - base > MOST_GROWTH_BYTES:
            sys.exit(f"seed {seed} took more than {MOST_GROWTH_BYTES >> 20} MB of memory")
        slowest = max(slowest, took)
        seed += 1
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            print(f"{seed - first:,} runs, before seed {seed}", flush=True)
    signal.alarm(0)
    faulthandler.cancel_dump_traceback_later()
    grown_mb = (_peak_bytes() - base) >> 20
    print(
        f"{seed - first:,} runs, seeds from {first}: nothing wrong; the slowest took {slowest:.2f} s, "
        f"the memory grew by {grown_mb} MB"
    )


if __name__ == "__main__":
    main()
