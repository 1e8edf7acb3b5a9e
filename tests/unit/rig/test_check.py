"""`bench living`: the load, and the check of deliveries. tests/integration runs the whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from rig import check as check_module
from rig.check import NEVER, Answer, Changes, Deliveries, Events, Statuses, check
from rig.load import Load, LoadError

TOY = Load(subscriptions=300, symbols=10, subscribers=7, matches=2.0)
SUBSCRIBERS, IDS, P, Q = 3, 12, 2, 2  # of the history that is checked below


def test_subscriptions_and_events_match_as_often_as_asked_for() -> None:
    subscriptions = [json.loads(document) for _, document in TOY.first()]
    assert [s["id"] for s in subscriptions] == [f"s{n}" for n in range(300)]
    assert {s["subscriber"] for s in subscriptions} == {f"r{n}" for n in range(7)}
    events = [json.loads(event) for event in islice(TOY.events(), 2_000)]
    assert {e["symbol"] for e in events} == {f"S{n}" for n in range(10)}
    matches = sum(
        e["symbol"] in s["pattern"]["symbol"] and all(_within(s["pattern"][n], e[n]) for n in ("price", "volume"))
        for e in events
        for s in subscriptions
    )
    assert matches / 2_000 == pytest.approx(2.0, rel=0.2)
    sizes = [len(event) for event in islice(Load().events(), 2_000)]
    assert 180 <= np.mean(sizes) <= 220


def _within(tests: list[dict[str, Any]], value: int) -> bool:
    _, low, _, high = tests[0]["numeric"]
    return bool(low <= value < high)


def test_changes_keep_about_as_many_in_force_and_add_replace_and_unsubscribe_in_equal_parts() -> None:
    there = {id for id, _ in TOY.first()}
    count = {"added": 0, "replaced": 0, "unsubscribed": 0}
    for id, document in islice(TOY.changes(), 30_000):
        if document is None:
            there.remove(id)
            count["unsubscribed"] += 1
        else:
            assert json.loads(document)["id"] == id.decode()
            count["replaced" if id in there else "added"] += 1
            there.add(id)
    assert all(abs(n - 10_000) < 1_000 for n in count.values()), count
    assert 0 < len(there) <= 400


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"subscriptions": 0}, "subscriptions cannot be 0"),
        ({"minutes": 0}, "minutes cannot be 0"),
        ({"changes_per_second": -1}, "changes_per_second cannot be -1"),
        ({"subscriptions": 100}, "at most 0.1, or fewer symbols, would work"),
    ],
)
def test_a_load_that_cannot_be_is_rejected(flags: dict[str, Any], reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        Load(**flags)


def history(seed: int, batches: int = 12) -> tuple[Changes, Statuses, Events, list[tuple[int, int, int, list[int]]]]:
    """Batches as the job would take them, and (event, subscriber, version, ids) of each delivery, one step at a time:
    the events of a batch meet what was there before it."""
    rng = np.random.default_rng(seed)
    changes: list[list[tuple[int, ...]]] = [[] for _ in range(P)]
    events: list[list[tuple[int, ...]]] = [[] for _ in range(Q)]
    answers, delivered = [], []
    there: dict[int, tuple[int, ...]] = {}
    version = 0
    for batch in range(batches):
        for q in range(Q):
            for _ in range(rng.integers(6) if batch else 0):  # the first is the state at the start
                symbol, price, volume = rng.integers((2, 10, 10)).tolist()
                found: dict[int, list[int]] = {}
                for id, (subscriber, wanted, *bounds) in sorted(there.items()):
                    if wanted == symbol and bounds[0] <= price < bounds[1] and bounds[2] <= volume < bounds[3]:
                        found.setdefault(subscriber, []).append(id)
                delivered += [((q, len(events[q])), who, version, ids) for who, ids in found.items()]
                events[q].append((symbol, price, volume))
        taken = []
        for _ in range(rng.integers(5) if batch else 20):
            id = int(rng.integers(IDS))
            p = id % P  # a key has its partition
            row = (-1, -1, 0, 0, 0, 0)
            if rng.random() < 0.7:
                subscriber, symbol, low, least = rng.integers((SUBSCRIBERS, 2, 8, 8)).tolist()
                row = (subscriber, symbol, low, low + 5, least, least + 6)
                there[id] = row
            else:
                there.pop(id, None)
            taken.append((p, len(changes[p])))
            changes[p].append((id, *row))
        version = sum(map(len, changes))
        answers += [(at, version, [len(rows) for rows in events]) for at in taken]
    rows = np.array([row for part in changes for row in part], np.int32)
    start = np.append(0, np.cumsum([len(part) for part in changes]))
    begins = np.append(0, np.cumsum([len(part) for part in events]))
    numbers = np.array([row for part in events for row in part], np.int32)
    n = len(rows)
    order = rng.permutation(n)  # nothing says in which order statuses are written
    statuses = Statuses(
        np.array([start[p] + offset for (p, offset), _, _ in answers])[order],
        np.ones(n, np.bool_),
        np.array([version for _, version, _ in answers])[order],
        np.array([begins for _, _, begins in answers])[order],
    )
    return (
        Changes(start, rows[:, 0], rows[:, 1], rows[:, 2], rows[:, [3, 5]], rows[:, [4, 6]], np.zeros(n, np.int64)),
        statuses,
        Events(begins, numbers[:, 0], numbers[:, 1:], np.arange(len(numbers), dtype=np.uint32)),
        [(int(begins[q]) + offset, who, version, ids) for (q, offset), who, version, ids in delivered],
    )


def deliveries(rows: list[tuple[int, int, int, list[int]]]) -> Deliveries:
    event, subscriber, version, ids = zip(*rows, strict=True)
    start = np.append(0, np.cumsum([len(some) for some in ids]))
    return Deliveries(
        np.array(event, np.int64),
        np.array(subscriber, np.int32),
        np.array(version, np.int64),
        np.array(event).astype(np.uint32),
        start,
        np.array([id for some in ids for id in some], np.int32),
    )


def right(n: int, **wrong: int) -> Answer:
    nothing = dict.fromkeys(
        ("missing", "unexpected", "twice", "wrong_ids", "wrong_version", "wrong_bytes", "wrong_statuses"), 0
    )
    return Answer(expected=n, **{"delivered": n, **nothing, **wrong})


@pytest.mark.parametrize("block", [1, 7, check_module.CANDIDATES])
@pytest.mark.parametrize("seed", range(25))
def test_a_job_that_goes_one_step_after_the_other_is_right(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_module, "CANDIDATES", block)
    changes, statuses, events, rows = history(seed)
    rng = np.random.default_rng(seed)
    shuffled = [(*rows[i][:3], rng.permutation(rows[i][3]).tolist()) for i in rng.permutation(len(rows))]
    answer = check(changes, statuses, events, deliveries(shuffled))
    assert answer == right(len(rows))
    assert answer.right
    assert len(rows) > 10


Rows = list[tuple[int, int, int, list[int]]]


def lost(rows: Rows) -> Rows:
    return rows[:3] + rows[4:]


def doubled(rows: Rows) -> Rows:
    return [*rows, rows[5]]


def other_id(rows: Rows) -> Rows:
    event, who, version, (*ids, _) = rows[2]
    return [*rows[:2], (event, who, version, [*ids, 77]), *rows[3:]]


def id_too_many(rows: Rows) -> Rows:
    event, who, version, ids = rows[2]
    return [*rows[:2], (event, who, version, [*ids, ids[0]]), *rows[3:]]


def other_version(rows: Rows) -> Rows:
    event, who, version, ids = rows[4]
    return [*rows[:4], (event, who, version + 1, ids), *rows[5:]]


def invented(rows: Rows) -> Rows:
    event, _, version, ids = rows[0]
    return [*rows, (event, 88, version, ids), (-1, 0, version, ids)]


@pytest.mark.parametrize(
    ("tampered", "wrong"),
    [
        ([lost], {"missing": 1, "delivered": -1}),
        ([doubled], {"twice": 1, "delivered": 1}),
        ([other_id], {"wrong_ids": 1}),
        ([id_too_many], {"wrong_ids": 1}),
        ([other_version], {"wrong_version": 1}),
        ([invented], {"unexpected": 2, "delivered": 2}),
        (
            [other_id, other_version, doubled, lost],
            {"missing": 1, "twice": 1, "wrong_ids": 1, "wrong_version": 1},
        ),
    ],
    ids=lambda value: " and ".join(f.__name__ for f in value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_named(tampered: list[Callable[[Rows], Rows]], wrong: dict[str, int]) -> None:
    changes, statuses, events, rows = history(seed=3)
    n = len(rows)
    for tamper in tampered:
        rows = tamper(rows)
    answer = check(changes, statuses, events, deliveries(rows))
    assert answer == right(n, **wrong | {"delivered": n + wrong.get("delivered", 0)})
    assert not answer.right


def test_other_bytes_are_named() -> None:
    changes, statuses, events, rows = history(seed=3)
    found = deliveries(rows)
    spoiled = found.checksum.copy()
    spoiled[1] += 1
    answer = check(changes, statuses, events, replace(found, checksum=spoiled))
    assert answer == right(len(rows), wrong_bytes=1)


def _without_one(s: Statuses) -> Statuses:
    return _rows_of(s, np.arange(1, len(s.change)))


def _one_twice(s: Statuses) -> Statuses:
    return _rows_of(s, np.append(np.arange(len(s.change)), 4))


def _rejected(s: Statuses) -> Statuses:
    accepted, version, begins = s.accepted.copy(), s.version.copy(), s.in_force_from.copy()
    accepted[5], version[5], begins[5] = False, -1, NEVER
    return replace(s, accepted=accepted, version=version, in_force_from=begins)


def _one_event_later(s: Statuses) -> Statuses:
    begins = s.in_force_from.copy()
    begins[np.argmin(s.version), 1] += 1  # the others of its batch say otherwise
    return replace(s, in_force_from=begins)


def _of_no_change(s: Statuses) -> Statuses:
    change = s.change.copy()
    change[0] = -1
    return replace(s, change=change)


def _versions_later(s: Statuses) -> Statuses:
    return replace(s, version=s.version + 1)


def _rows_of(s: Statuses, rows: np.ndarray) -> Statuses:
    return Statuses(s.change[rows], s.accepted[rows], s.version[rows], s.in_force_from[rows])


@pytest.mark.parametrize(
    "spoil", [_without_one, _one_twice, _rejected, _one_event_later, _of_no_change, _versions_later]
)
def test_statuses_that_contradict_the_topic_or_each_other_are_named(spoil: Callable[[Statuses], Statuses]) -> None:
    changes, statuses, events, rows = history(seed=3)
    answer = check(changes, spoil(statuses), events, deliveries(rows))
    assert answer.wrong_statuses
    assert not answer.right
