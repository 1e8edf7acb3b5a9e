"""Isolation of rows in a batch that kills workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Any

import numpy as np
import pytest

from matchers.contract.tables import Int64
from streaming.driver import isolation as isolation_module
from streaming.driver.isolation import Isolation, WorkersLost, ranges, workers_lost

Batch = tuple[int, ...]  # offsets


class Workers:
    """They die, or `hang`, on `deadly` rows and `accidents` times; they die of more than `most` rows at once."""

    def __init__(
        self, deadly: Set[int] = frozenset(), most: int = 1_000, accidents: int = 0, hang: bool = False
    ) -> None:
        self.deadly, self.most, self.accidents, self.hang = deadly, most, accidents, hang
        self.calls: Counter[Batch] = Counter()
        self.looked = 0

    def match(self, batch: Batch) -> list[dict[str, Any]]:
        self.calls[batch] += 1
        if self.accidents:
            self.accidents -= 1
            raise WorkersLost("killed", again=True, hung=self.hang)
        if self.deadly & set(batch):
            raise WorkersLost("exited", again=True, hung=self.hang)
        if len(batch) > self.most:
            raise WorkersLost("MemoryError", again=False)
        return [{"done": offset} for offset in batch]

    def places(self, batch: Batch) -> Int64:
        self.looked += 1
        return np.array([(0, 0, offset, 100) for offset in batch], np.int64).reshape(-1, 4)

    def run(self, batch: Batch, careful: bool = False) -> list[list[dict[str, Any]]]:
        isolation = Isolation(
            self.match,
            self.places,
            lambda batch, places: tuple(o for o in batch if o in places[:, 2].tolist()),
            lambda batch, reason: [{"aside": batch[0], "reason": reason}],
        )
        return list(isolation.pieces(batch, careful))


def flat(pieces: list[list[dict[str, Any]]]) -> list[int]:
    return [row["done" if "done" in row else "aside"] for piece in pieces for row in piece]


def test_a_batch_that_nobody_dies_of_is_done_at_once() -> None:
    workers = Workers()
    assert len(workers.run(tuple(range(8)))) == 1
    assert (sum(workers.calls.values()), workers.looked) == (1, 0)


def test_an_accident_is_tried_again() -> None:
    workers = Workers(accidents=isolation_module.PIECE_TRIES - 1)
    assert len(workers.run(tuple(range(8)))) == 1
    assert workers.looked == 0


@pytest.mark.parametrize("deadly", [set(), {5}])
@pytest.mark.parametrize("more", [1, 2])
def test_workers_that_die_of_everything_for_a_while_cost_no_row(deadly: set[int], more: int) -> None:
    workers = Workers(deadly, accidents=isolation_module.PIECE_TRIES + more)  # the row, and an empty batch
    assert workers.run((5,)) == ([[{"aside": 5, "reason": "exited"}]] if deadly else [[{"done": 5}]])


@pytest.mark.parametrize("deadly", [{0}, {7}, {3}, {2, 3}, {0, 4, 7}, set(range(8))])
def test_what_is_deadly_is_set_aside_and_the_rest_is_done_in_order(deadly: set[int]) -> None:
    pieces = Workers(deadly).run(tuple(range(8)))
    assert flat(pieces) == list(range(8))
    assert {row["aside"] for piece in pieces for row in piece if "aside" in row} == deadly
    assert {row["reason"] for piece in pieces for row in piece if "aside" in row} == {"exited"}


def test_too_much_is_not_tried_again_but_halved() -> None:
    workers = Workers(most=3)
    assert flat(workers.run(tuple(range(8)))) == list(range(8))
    assert set(workers.calls.values()) == {1}
    assert workers.looked == 1


def test_a_row_for_which_an_old_worker_had_too_little_memory_is_not_set_aside() -> None:
    workers, match = Workers(), Workers().match
    failures = [WorkersLost("MemoryError", again=False)]

    def matched(batch: Batch) -> list[dict[str, Any]]:
        if failures:
            raise failures.pop()
        return match(batch)

    workers.match = matched  # type: ignore[method-assign]
    assert workers.run((5,)) == [[{"done": 5}]]


def test_with_care_no_piece_is_too_large_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation_module, "PIECE_BYTES", 300)
    workers = Workers()
    assert [len(piece) for piece in workers.run(tuple(range(8)), careful=True)] == [3, 3, 2]
    monkeypatch.setattr(isolation_module, "PIECE_BYTES", 99)
    assert [len(piece) for piece in workers.run(tuple(range(3)), careful=True)] == [1, 1, 1]
    monkeypatch.setattr(isolation_module, "PIECE_BYTES", 800)
    whole = Workers()
    assert len(whole.run(tuple(range(8)), careful=True)) == 1
    assert list(whole.calls) == [tuple(range(8))]


def test_rows_that_were_committed_before_are_not_set_aside() -> None:
    workers = Workers({5})
    workers.places = lambda batch: np.empty((0, 4), np.int64)  # type: ignore[method-assign]
    assert workers.run((5,)) == [[]]


@pytest.mark.parametrize(
    ("trace", "again"),
    [
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", True),
        ("org.apache.spark.SparkException: Job aborted\n  at x\nCaused by: java.io.IOException: Stream closed", True),
        (
            "pyspark.errors...: Traceback (most recent call last):\n  numpy._core._ArrayMemoryError: x",
            False,
        ),
        ("Total size of serialized results of 3 tasks is bigger than spark.driver.maxResultSize (1g)", False),
        ("Traceback (most recent call last):\n  KeyError: 'x'", None),
    ],
)
def test_only_what_happens_to_workers_is_no_mistake_of_ours(trace: str, again: bool | None) -> None:
    found = workers_lost(trace)
    assert (None if found is None else found.again) is again


def test_when_workers_do_not_survive_nothing_no_row_is_to_blame() -> None:
    workers = Workers(accidents=1_000)
    with pytest.raises(WorkersLost):
        workers.run(tuple(range(4)))


@pytest.mark.parametrize("careful", [False, True])
def test_where_workers_hang_whatever_they_get_it_shows_after_few_tries(
    careful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation_module, "PIECE_BYTES", 300)
    workers = Workers(accidents=1_000, hang=True)
    with pytest.raises(WorkersLost):
        workers.run(tuple(range(1_000)), careful)
    tries = isolation_module.PIECE_TRIES
    assert workers.calls.total() == (1 if careful else tries) + tries - 1


def test_a_row_that_hangs_is_found_if_workers_do_other_work() -> None:
    pieces = Workers({5}, hang=True).run(tuple(range(8)))
    assert [row.get("aside") for piece in pieces for row in piece if "aside" in row] == [5]


def test_the_innermost_cause_is_what_is_said() -> None:
    trace = "Job aborted\n\tat x\nCaused by: a: b\n\tat y\nCaused by: java.io.IOException: Stream closed\n\tat z"
    assert str(workers_lost(trace)) == "java.io.IOException: Stream closed"


def test_ranges_are_by_source_and_partition() -> None:
    places = np.array([(0, 0, 5, 1), (0, 0, 9, 1), (0, 2, 1, 1), (1, 0, 4, 1)], np.int64)
    assert list(ranges(places)) == [(0, 0, 5, 9), (0, 2, 1, 1), (1, 0, 4, 4)]
