"""Run corrupted patterns, events, record batches, answers of brokers and files of saved state through the code:
`make fuzz MINUTES=10`.

Wrong is: an exception, an answer that is not the definition's, a record that is not there once, a start with other
subscriptions, a step that takes longer than SLOW_S. The seed of what went wrong is printed;
`python -m tests.support.programs.fuzz --seed N` runs it again.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from matchers.index.snapshot import FieldPlan, Snapshot
from matchers.language import naive
from matchers.language.parsing import parse
from streaming.codecs import Undecodable, decode_event
from streaming.documents.subscriptions import Rejected, read_change
from streaming.worker.compiling import compile_changes
from streaming.worker.events.reading import read_events
from tests.support.doubles.stage import changes
from tests.support.generators import workloads
from tests.support.histories import fetched_history, fetching_history, spoiled_answers, spoiled_state

SLOW_S = 5.0
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


def run(seed: int) -> None:
    r = Random(seed)
    workers(r)
    fetched_history.check(r.getrandbits(40))
    answers(r)
    state(r)


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
        document = {"id": f"s{i}", "subscriber": "alice", "pattern": pattern}
        records.append((f"s{i}".encode(), spoiled(r, document)))
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
            document = decode_event(event)
        except Undecodable:
            assert number in reading.undecodable, event
            continue
        if number in reading.undecodable:
            assert "deeper" in reading.undecodable[number], event
            continue
        expected = {id for id, pattern in patterns.items() if naive.matches(pattern, document)}
        assert found[number] == expected, (event, {id: patterns[id] for id in found[number] ^ expected})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, help="run this one only")
    given = arguments.parse_args()
    logging.disable(logging.WARNING)  # of saved states that are not used
    run(0)  # compiles the kernels
    if given.seed is not None:
        run(given.seed)
        return
    first = seed = time.time_ns() % 2**40
    end = time.monotonic() + 60 * given.minutes
    slowest = 0.0
    while time.monotonic() < end:
        begin = time.process_time()
        try:
            run(seed)
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise
        took = time.process_time() - begin
        if took > SLOW_S:
            sys.exit(f"seed {seed} took {took:.1f} s")
        slowest = max(slowest, took)
        seed += 1
    print(f"{seed - first:,} runs, seeds from {first}: nothing wrong; the slowest took {slowest:.2f} s")


if __name__ == "__main__":
    main()
