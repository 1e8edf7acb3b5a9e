"""`ccm` on a GPU that is simulated, and its kernels compiled for GPUs that are not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError, driver

from matchers import EventBatch, Interfaces, MatchingError, SubscriptionTable
from matchers.papers import ccm, translator
from matchers.papers.ccm import device as ccm_device
from tests.support.doubles import simulated_gpu
from tests.support.doubles.simulated_gpu import Gpu
from tests.unit.matchers.agreement import agrees, everything, forwards, random_batch, random_table

simulated = pytest.mark.skipif(
    not numba.config.ENABLE_CUDASIM,  # type: ignore[attr-defined]  # numba sets it when it is imported
    reason="there is a GPU, and no simulator then",
)
pytestmark = [pytest.mark.kernels, simulated]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return simulated_gpu.install(monkeypatch)


@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])  # a simulated GPU is too slow to shrink by
@given(
    seed=st.integers(0, 1 << 32),
    options=st.fixed_dictionaries(
        {"events": st.integers(1, 16), "threads": st.integers(1, 3), "blocks": st.integers(1, 3)},
        optional={"bits": st.integers(1, 64)},
    ),
    limits=st.fixed_dictionaries(
        {"ROOM": st.integers(1, 20), "MOST_HITS": st.integers(1, 12), "VALUES": st.integers(1, 20)},
    ),
)
def test_it_answers_as_scan_in_any_order_of_blocks_and_whatever_fits_into_a_chunk(
    seed: int, options: dict[str, int], limits: dict[str, int]
) -> None:
    r = np.random.default_rng(seed)
    d = int(r.integers(1, 4))  # with few columns much matches
    table, events = random_table(r, 8, d), random_batch(r, 16, d)
    with pytest.MonkeyPatch.context() as patch:
        simulated_gpu.install(patch, seed)
        for name, value in limits.items():
            patch.setattr(ccm_device, name, value)
        built = ccm.build(table, **options)
        agrees(built, table, events)
        forwards(built, table, events, Interfaces.from_ids(r.integers(0, 5, 8), 5))
        agrees(built, table, events)


def test_two_threads_match_and_forward_with_one_index(gpu: Gpu) -> None:
    r = np.random.default_rng(0)
    table = random_table(r, 30, 4)
    batches = [random_batch(r, 8, 4) for _ in range(2)]
    interfaces = Interfaces.from_ids(r.integers(0, 5, 30), 5)
    built = ccm.build(table, events=3, threads=2, blocks=2)
    errors: list[BaseException] = []
    begin = threading.Barrier(2)

    def work(batch: EventBatch, forward_first: bool) -> None:
        try:
            begin.wait()
            for turn in range(4):
                if forward_first == (turn % 2 == 0):
                    forwards(built, table, batch, interfaces)
                else:
                    agrees(built, table, batch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(batch, i == 0)) for i, batch in enumerate(batches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_batch_after_the_first_allocates_nothing(gpu: Gpu) -> None:
    r = np.random.default_rng(1)
    table = random_table(r, 30, 4)
    interfaces = Interfaces.from_ids(r.integers(0, 5, 30), 5)
    built = ccm.build(table, events=3, threads=2, blocks=2)
    for _ in range(3):
        agrees(built, table, random_batch(r, 8, 4))
        forwards(built, table, random_batch(r, 8, 4), interfaces)
    before = gpu.allocations
    agrees(built, table, random_batch(r, 8, 4))
    forwards(built, table, random_batch(r, 8, 4), interfaces)
    assert gpu.allocations == before


def test_memory_bytes_are_what_is_allocated_on_the_device(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    allocated: list[int] = []
    make = gpu.device_array

    def counted(shape: Any, dtype: Any) -> Any:
        array = make(shape, dtype)
        allocated.append(array.memory.nbytes)
        return array

    monkeypatch.setattr(gpu, "device_array", counted)
    built = ccm.build(random_table(np.random.default_rng(2), 300, 6), events=5)
    built._device  # noqa: B018
    assert built.memory_bytes() == sum(allocated)


def test_counters_and_lines_of_a_chunk_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm, "CHUNK_BYTES", 2_000)
    many_rows = SubscriptionTable.from_intervals(
        range(20), range(20), [0.0] * 20, [1.0] * 20, n_subscriptions=20, n_columns=20
    )
    few_rows = everything(20)
    sizes = []
    for table in (many_rows, few_rows):
        built = ccm.build(table, bits=64)
        chunk = ccm._chunk_bytes(built.tables, built.events, built.lane)
        assert chunk <= 2_000 < chunk * 2 or built.events == ccm.EVENTS
        sizes.append(built.events)
    assert sizes[0] < sizes[1]
    monkeypatch.setattr(ccm, "CHUNK_BYTES", 1)
    assert ccm.build(many_rows).events == 1


def test_room_for_hits_is_bounded(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "ROOM", 2)
    monkeypatch.setattr(ccm_device, "MOST_HITS", 30)
    table = everything(20)
    built = ccm.build(table, events=8, threads=2, blocks=2)
    agrees(built, table, EventBatch.from_dense(np.ones((8, 1))))
    assert max(len(hits.back[0]) for hits in built._device.hits) <= 30


def test_the_values_of_a_chunk_are_bounded(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "VALUES", 8)
    offsets = np.array([0, 4, 8, 11, 11, 30, 31])
    assert list(ccm_device._spans(offsets, 3)) == [(0, 2), (2, 4), (4, 5), (5, 6)]
    assert list(ccm_device._spans(np.zeros(6, np.int64), 2)) == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize("bytes", [0, 1_000, 1_700_000])
def test_a_gpu_without_enough_memory_is_an_error_that_says_what_would_work(
    bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = simulated_gpu.install(monkeypatch, bytes=bytes)
    table, events = everything(20), EventBatch.from_dense(np.ones((4, 1)))
    built = ccm.build(table, events=4, threads=2, blocks=2)
    with pytest.raises(MatchingError, match=r"memory of the GPU does not suffice for 20 subscriptions and 4 events"):
        built.match(events)
    gpu.bytes += 1 << 30  # another process has ended
    agrees(built, table, events)


def test_memory_that_runs_out_on_the_way_leaves_the_index_usable(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "ROOM", 2)
    table = everything(20)
    built = ccm.build(table, events=2, threads=2, blocks=2)
    few, many = EventBatch.from_dense([[1.0], [11.0]]), EventBatch.from_dense(np.ones((9, 1)))
    built.match(EventBatch.from_dense([[11.0]]))
    free, gpu.bytes = gpu.bytes, 0
    with pytest.raises(MatchingError, match="ocm needs no GPU"):
        built.match(many)
    gpu.bytes = free
    for events in (few, many):
        agrees(built, table, events)


def test_another_error_of_cuda_is_not_one_of_memory(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CudaAPIError("[700] an illegal memory access was encountered")

    monkeypatch.setattr(gpu, "to_device", fail)
    with pytest.raises(CudaAPIError, match="700"):
        ccm.build(everything(2)).match(EventBatch.from_dense([[1.0]]))


@pytest.mark.parametrize(("constraints", "threads"), [(1, 64), (64, 64), (65, 128), (200, 256), (2_000, 256)])
def test_a_block_has_as_many_threads_as_a_row_has_constraints(constraints: int, threads: int) -> None:
    assert ccm.build(everything(constraints), bits=1).threads == threads


@pytest.mark.parametrize("blocks", [0, -1, 65_536])
def test_blocks_are_what_cuda_can_launch(blocks: int) -> None:
    with pytest.raises(MatchingError, match=f"blocks of a kernel must lie within 1 .. 65535, not {blocks}"):
        ccm.build(everything(2), blocks=blocks)


def test_lines_and_hits_of_a_chunk_can_be_counted() -> None:
    with pytest.raises(MatchingError, match=r"events of a chunk must lie within 1 .. 1,073,741,823 for this table"):
        ccm.build(everything(2), events=1 << 30)


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Pretend that numba was started without its simulator."""
    monkeypatch.setattr(numba.config, "ENABLE_CUDASIM", 0)
    translator._warn.cache_clear()
    yield monkeypatch
    translator._warn.cache_clear()


@pytest.mark.parametrize("name", [b"NVIDIA H100", "NVIDIA H100"])
def test_the_name_of_the_gpu_is_a_text_with_both_bindings(name: bytes | str, real: pytest.MonkeyPatch) -> None:
    real.setattr(driver, "is_available", True, raising=False)
    real.setattr(ccm, "_has_compiler", lambda: True)
    real.setattr(cuda, "gpus", [SimpleNamespace(name=name)])
    assert ccm.gpu() == "NVIDIA H100"


def test_a_driver_without_a_compiler_is_said(real: pytest.MonkeyPatch) -> None:
    real.setattr(driver, "is_available", True, raising=False)
    table = everything(3)
    with pytest.raises(
        MatchingError, match="needs a GPU, and numba finds no libnvvm or no libcudart for its driver: install"
    ):
        ccm.build(table)
    with pytest.warns(
        RuntimeWarning, match="translator uses ocm: numba finds no libnvvm or no libcudart for its driver"
    ):
        assert type(translator.build(table, few=1)).__name__ == "Ocm"
    translator.build(table, few=1)  # and is not said again


def test_a_profile_has_the_time_of_each_step(gpu: Gpu) -> None:
    r = np.random.default_rng(3)
    profile = ccm.build(random_table(r, 30, 4), events=3, threads=2, blocks=2).profile(random_batch(r, 8, 4))
    assert list(profile) == [f"{name}, µs" for name in ccm_device.STEPS]
    assert all(us > 0 for us in profile.values())


def test_without_a_driver_the_translator_says_nothing(real: pytest.MonkeyPatch) -> None:
    assert type(translator.build(everything(3), few=1)).__name__ == "Ocm"
