"""Kernels read the arrays of a handle as its attribute, and by its address; a direct call gives the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from matchers.contract.held import ArraysHandle
from matchers.kernels.jit import direct, inner, kernel
from matchers.kernels.jit.address import address_of, arrays_at

pytestmark = pytest.mark.kernels


class Pair(NamedTuple):
    whole: Any  # [N] int64
    halves: Any  # [N] float64
    factor: int


@kernel
def total_by_attribute(n: int, held: Any) -> float:
    whole, halves, factor = held.arrays
    return float(factor * (whole[:n].sum() + halves[:n].sum()))


@kernel
def total_by_address(n: int, held: Any) -> float:
    return _total(n, address_of(held))


@inner
def _total(n: int, address: Any) -> float:
    pair = arrays_at(address)
    total = 0.0
    for i in range(n):
        total += pair.whole[i] + pair.halves[i]
    return float(pair.factor * total)


def test_the_arrays_of_a_handle_are_the_same_by_attribute_and_by_address() -> None:
    pair = Pair(np.arange(5), np.full(5, 0.5), 3)
    held = ArraysHandle(pair)
    for way in (total_by_attribute, total_by_address):
        pair.whole[0] = 0
        now = direct(way, 0, held)
        assert [way(n, held) for n in range(6)] == [now(n, held) for n in range(6)] == [0, 1.5, 6, 13.5, 24, 37.5]
        pair.whole[0] = 10  # is seen, because nothing was copied
        assert way(1, held) == now(1, held) == 31.5


def test_the_arrays_of_a_handle_live_as_long_as_it() -> None:
    held = ArraysHandle(Pair(np.arange(1_000), np.zeros(1_000), 1))
    for _ in range(100):
        assert total_by_address(1_000, held) == 499_500
        np.arange(1_000)[:] = -1  # would lie where those of the handle were
