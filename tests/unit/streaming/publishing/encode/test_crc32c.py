"""CRC-32C by the processor's instruction and by tables, against known answers and another implementation."""

from __future__ import annotations

import platform

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record._crc32c import crc

from streaming.publishing.encode import crc32c

pytestmark = pytest.mark.kernels

# RFC 3720, B.4, and the check value of the catalogue of CRCs.
KNOWN = {
    "nothing": (b"", 0),
    "the check value": (b"123456789", 0xE3069283),
    "zeros": (bytes(32), 0x8A9136AA),
    "ones": (b"\xff" * 32, 0x62A8AB43),
    "ascending": (bytes(range(32)), 0x46DD794E),
    "descending": (bytes(range(31, -1, -1)), 0x113FDB5C),
}
WAYS = {crc32c.by_tables, crc32c.crc32c}


@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name: str) -> None:
    data, expected = KNOWN[name]
    for way in WAYS:
        assert way(np.frombuffer(data, np.uint8), 0, len(data)) == expected


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_any_range_of_bytes(data: bytes, begin: int, length: int) -> None:
    begin = min(begin, len(data))
    end = min(begin + length, len(data))
    expected = crc(data[begin:end])
    for way in WAYS:
        assert way(np.frombuffer(data, np.uint8), begin, end) == expected


@pytest.mark.parametrize("length", [3 * crc32c.LANE - 1, 3 * crc32c.LANE, 3 * crc32c.LANE + 9, 6 * crc32c.LANE + 1])
def test_bytes_in_three_lanes(length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length + 3, np.uint8)
    for way in WAYS:
        assert way(data, 3, len(data)) == crc(data[3:].tobytes())


@pytest.mark.parametrize(
    ("machine", "features", "name", "expected"),
    [
        ("aarch64", None, None, False),
        ("x86_64", "-sse4.2", None, False),
        ("x86_64", "+sse4.2,+avx", None, True),
        ("AMD64", "+sse4.2", None, True),
        ("x86_64", None, "generic", False),
    ],
)
def test_the_instruction_is_used_where_kernels_may(
    monkeypatch: pytest.MonkeyPatch, machine: str, features: str | None, name: str | None, expected: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(numba, "config", type("Settings", (), {"CPU_FEATURES": features, "CPU_NAME": name}))
    assert crc32c.has_instruction() is expected
