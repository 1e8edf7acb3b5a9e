"""A GPU on numba's simulator that shows what a real one may do: it runs late, in any order, and keeps nothing freed.

Copies and launches wait in their stream until it is synchronized. Threads and blocks run in a shuffled order. New
memory holds garbage, freed memory becomes garbage even if a waiting launch needs it, and memory is limited.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.cuda.cudadrv.driver import CudaAPIError

from matchers.papers.ccm import device as ccm_device

GARBAGE = 0xA5
KERNELS = ("clear", "select", "list_hits", "mark_interfaces")


class Gpu:
    """Takes the place of `numba.cuda` in the device side of `ccm`."""

    def __init__(self, seed: int, bytes: int = 1 << 30) -> None:
        self.random = random.Random(seed)
        self.bytes = bytes  # that are free
        self.allocations = 0
        self.launches: list[tuple[str, Any, Any]] = []  # kernel, blocks, threads
        self._pinned: list[weakref.ref[Any]] = []

    def stream(self) -> Stream:
        return Stream()

    def device_array(self, shape: Any, dtype: Any) -> DeviceArray:
        memory = self._allocated(shape, dtype)
        array = DeviceArray(self, memory)
        weakref.finalize(array, self._free, memory)
        return array

    def pinned_array(self, shape: Any, dtype: Any) -> Any:
        memory = self._allocated(shape, dtype)
        self._pinned.append(weakref.ref(memory))
        return memory

    def to_device(self, array: Any) -> DeviceArray:
        """Copy at once; the copy therefore does not belong between launches."""
        sent = self.device_array(array.shape, array.dtype)
        sent.memory[...] = array
        return sent

    def is_pinned(self, array: Any) -> bool:
        owner = array if array.base is None else array.base
        return any(pinned() is owner for pinned in self._pinned)

    def _allocated(self, shape: Any, dtype: Any) -> Any:
        memory = np.empty(shape, dtype)
        if memory.nbytes > self.bytes:
            error = CudaAPIError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
            error.code = 2
            raise error
        self.allocations += 1
        self.bytes -= memory.nbytes
        memory.view(np.uint8)[...] = GARBAGE
        return memory

    def _free(self, memory: Any) -> None:
        self.bytes += memory.nbytes
        memory.view(np.uint8)[...] = GARBAGE


class Stream:
    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def synchronize(self) -> None:
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()


class DeviceArray:
    """A part of the device's memory. What waits in a stream has its address only."""

    def __init__(self, gpu: Gpu, memory: Any, whole: DeviceArray | None = None) -> None:
        self.gpu, self.memory, self._whole = gpu, memory, whole

    def __getitem__(self, part: slice) -> DeviceArray:
        return DeviceArray(self.gpu, self.memory[part], self._whole or self)

    def copy_to_device(self, array: Any, stream: Stream) -> None:
        assert self.gpu.is_pinned(array), "the copy waits"
        self._copy(self.memory, array, stream)

    def copy_to_host(self, array: Any, stream: Stream) -> None:
        assert self.gpu.is_pinned(array), "the copy waits"
        self._copy(array, self.memory, stream)

    def _copy(self, to: Any, source: Any, stream: Stream) -> None:
        assert to.shape == source.shape
        assert to.dtype == source.dtype
        stream.waiting.append(lambda: np.copyto(to, source))


class Kernel:
    def __init__(self, gpu: Gpu, name: str) -> None:
        self.gpu, self.name, self._run = gpu, name, getattr(ccm_device, name)

    def __getitem__(self, configuration: tuple[Any, int, Stream]) -> Callable[..., None]:
        blocks, threads, stream = configuration

        def launch(*arguments: Any) -> None:
            self.gpu.launches.append((self.name, blocks, threads))
            addresses = [a.memory if isinstance(a, DeviceArray) else a for a in arguments]
            stream.waiting.append(lambda: self._run[blocks, threads](*addresses))

        return launch


class Shuffled:
    """numpy, as the simulator uses it to count blocks and threads."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def ndindex(self, *shape: int) -> list[tuple[int, ...]]:
        points = list(np.ndindex(*shape))
        self._random.shuffle(points)
        return points


def install(patch: pytest.MonkeyPatch, seed: int = 0, bytes: int = 1 << 30) -> Gpu:
    """Let `ccm` run on such a GPU from here on."""
    from numba.cuda.simulator import kernel as simulator  # where numba runs on it

    gpu = Gpu(seed, bytes)
    kernels = {name: Kernel(gpu, name) for name in KERNELS}
    for name, kernel in kernels.items():
        patch.setattr(ccm_device, name, kernel)
    patch.setattr(ccm_device._Hits, "evaluate", kernels["list_hits"])
    patch.setattr(ccm_device._Marks, "evaluate", kernels["mark_interfaces"])
    patch.setattr(ccm_device, "cuda", gpu)
    patch.setattr(simulator, "np", Shuffled(gpu.random))
    return gpu
