"""The meaning of each operation on vectors, compiled and without compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchers.kernels import vectors
from matchers.kernels.jit import kernel
from matchers.kernels.vectors import LANES, WORDS, both, either, everything, full, load, lowest, nothing, store, within

pytestmark = pytest.mark.kernels

ALL = np.full(WORDS, 2**64 - 1, np.uint64)


@kernel
def united(a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
    store(either(load(a, np.uint64(i)), load(b, np.uint64(j))), out, np.uint64(k))


@kernel
def common(a: Any, i: int, b: Any, j: int, out: Any, k: int) -> None:
    store(both(load(a, np.uint64(i)), load(b, np.uint64(j))), out, np.uint64(k))


@kernel
def constants(out: Any) -> None:
    store(nothing(), out, np.uint64(0))
    store(everything(), out, np.uint64(WORDS))


@kernel
def is_full(words: Any, i: int) -> Any:
    return full(load(words, np.uint64(i)))


@kernel
def those_within(cells: Any, i: int, low: Any, width: Any) -> Any:
    return within(cells, np.uint64(i), np.uint16(low), np.uint16(width))


@kernel
def place_of_lowest(word: Any) -> Any:
    return lowest(np.uint64(word))


@kernel
def touched(words: Any, i: int) -> Any:
    vectors.prefetch(words, np.uint64(i))
    return words[0]


def random_words(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)


@pytest.mark.parametrize(("i", "j", "k"), [(0, 0, 0), (8, 0, 16), (1, 2, 3), (16, 16, 0)])
def test_rows_are_united_and_cut_from_any_place_to_any_place(i: int, j: int, k: int) -> None:
    a, b = random_words(24, 1), random_words(24, 2)
    for do, plain in ((united, np.bitwise_or), (common, np.bitwise_and)):
        out = np.arange(24, dtype=np.uint64)
        expected = out.copy()
        expected[k : k + WORDS] = plain(a[i : i + WORDS], b[j : j + WORDS])
        do(a, i, b, j, out, k)
        assert out.tolist() == expected.tolist()


def test_nothing_has_no_bit_and_everything_has_all() -> None:
    out = random_words(2 * WORDS, 3)
    constants(out)
    assert out.tolist() == [0] * WORDS + ALL.tolist()


@pytest.mark.parametrize("missing", [None, 0, 63, 64, 200, 511])
def test_a_row_is_full_when_no_bit_is_missing(missing: int | None) -> None:
    words = np.concatenate([np.zeros(1, np.uint64), ALL, np.zeros(1, np.uint64)])
    if missing is not None:
        words[1 + missing // 64] ^= np.uint64(1 << missing % 64)
    assert is_full(words, 1) == (missing is None)


@pytest.mark.parametrize(
    ("low", "width"), [(0, 0), (1, 0), (5, 10), (0, 65535), (65535, 0), (65530, 5), (60000, 5535), (1, 65533), (2, 3)]
)
@pytest.mark.parametrize("i", [0, 1, 64])
def test_the_cells_from_low_to_low_and_width_are_within(low: int, width: int, i: int) -> None:
    cells = np.random.default_rng(low).choice(
        np.array([0, 1, 2, 4, 5, 6, 15, 16, 59999, 60000, 65529, 65530, 65534, 65535], np.uint16), 2 * LANES
    )
    word = int(those_within(cells, i, low, width))
    assert [bool(word >> k & 1) for k in range(LANES)] == [low <= int(v) <= low + width for v in cells[i : i + LANES]]


@pytest.mark.parametrize("place", [0, 1, 31, 32, 62, 63])
def test_the_lowest_bit_is_found_whatever_lies_above(place: int) -> None:
    for above in (0, 2**64 - 1, 0xAAAA_AAAA_AAAA_AAAA):
        word = ((above << (place + 1)) | (1 << place)) & (2**64 - 1)
        assert place_of_lowest(np.uint64(word)) == place


def test_memory_may_be_asked_for_that_is_not_there() -> None:
    assert touched(np.array([7], np.uint64), 1 << 40) == 7


@pytest.mark.parametrize("n", [0, 1, 7, 64, 1000])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64])
def test_aligned_arrays_are_zeros_from_a_multiple_of_64_bytes_on(n: int, dtype: type) -> None:
    array = vectors.aligned(n, dtype)
    assert array.dtype == dtype
    assert array.tolist() == [0] * n
    assert array.ctypes.data % 64 == 0 or n == 0
