"""`ccm` on a GPU, where there is one."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from numba import cuda

from matchers import EventBatch, Interfaces, MatchingError
from matchers.papers import ccm, translator
from matchers.papers.ccm import device as ccm_device
from tests.unit.matchers.agreement import agrees, everything, forwards, random_batch, random_table

pytestmark = pytest.mark.skipif(not ccm.has_gpu(), reason="there is no GPU")


@pytest.mark.parametrize("seed", range(40))
def test_it_answers_as_scan(seed: int) -> None:
    r = np.random.default_rng(seed)
    n, d, events = (int(r.integers(1, most)) for most in (5_000, 40, 300))
    table, batch = random_table(r, n, d), random_batch(r, events, d)
    built = ccm.build(table)
    agrees(built, table, batch)
    behind = int(r.integers(1, 200))
    forwards(built, table, batch, Interfaces.from_ids(r.integers(0, behind, n), behind))
    agrees(built, table, batch)


@pytest.mark.parametrize("threads", [1, 32, 100, 1024])
@pytest.mark.parametrize("blocks", [1, 3, 65_535])
def test_the_answer_depends_neither_on_blocks_nor_on_threads(threads: int, blocks: int) -> None:
    r = np.random.default_rng(threads + blocks)
    table = random_table(r, 700, 5)
    for events in (1, 7, 64):
        agrees(ccm.build(table, events=events, threads=threads, blocks=blocks), table, random_batch(r, 150, 5))


def test_more_hits_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "MOST_HITS", 100_000)
    table = everything(3_000)
    built = ccm.build(table)
    for n in (1, 64, 200):
        agrees(built, table, EventBatch.from_dense(np.ones((n, 1))))
    assert max(len(hits.back[0]) for hits in built._device.hits) <= 100_000


def test_two_threads_match_and_forward_with_one_index() -> None:
    r = np.random.default_rng(0)
    table, interfaces = random_table(r, 2_000, 8), Interfaces.from_ids(r.integers(0, 5, 2_000), 5)
    batches = [random_batch(r, 300, 8) for _ in range(2)]
    built = ccm.build(table)
    errors: list[BaseException] = []

    def work(batch: EventBatch) -> None:
        try:
            for _ in range(5):
                agrees(built, table, batch)
                forwards(built, table, batch, interfaces)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_copy_of_an_index_sends_its_tables_itself() -> None:
    r = np.random.default_rng(1)
    table, batch = random_table(r, 500, 6), random_batch(r, 100, 6)
    built = ccm.build(table)
    agrees(built, table, batch)
    agrees(pickle.loads(pickle.dumps(built)), table, batch)


def test_memory_that_is_taken_is_an_error_and_the_index_can_be_used_after_it() -> None:
    table, events = everything(200_000), EventBatch.from_dense(np.ones((4, 1)))
    context = cuda.current_context()
    context.deallocations.clear()
    built = ccm.build(table, events=8_192)  # of a gigabyte
    taken = [cuda.device_array(int(context.get_memory_info().free) - (64 << 20), np.uint8)]
    with pytest.raises(MatchingError, match=r"memory of the GPU does not suffice for 200,000 subscriptions and 8192"):
        built.match(events)
    taken.clear()
    context.deallocations.clear()
    agrees(built, table, events)


def test_memory_bytes_are_what_the_device_gives() -> None:
    table = random_table(np.random.default_rng(2), 5_000, 10)
    context = cuda.current_context()
    context.deallocations.clear()
    built = ccm.build(table)
    before = int(context.get_memory_info().free)
    built._device  # noqa: B018
    given = before - int(context.get_memory_info().free)
    assert built.memory_bytes() <= given + (2 << 20)  # it gives whole pages of 2 MiB
    assert given <= built.memory_bytes() + 64 * (2 << 20)


def test_the_translator_takes_it() -> None:
    table = everything(2_000)
    assert isinstance(translator.build(table), ccm.Ccm)


def test_a_profile_has_the_time_of_each_step() -> None:
    r = np.random.default_rng(3)
    profile = ccm.build(random_table(r, 500, 6)).profile(random_batch(r, 100, 6))
    assert list(profile) == [f"{name}, µs" for name in ccm_device.STEPS]
    assert all(us > 0 for us in profile.values())
