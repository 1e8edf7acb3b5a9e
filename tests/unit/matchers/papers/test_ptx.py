"""The kernels of `ccm` compile for GPUs, which the simulator of the other tests does not show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.programs import compile_ptx

# The atomic additions of a kernel, at least: to counters of filters, to the cursors of lines and hits.
ATOMICS = {"clear": 0, "select": 1, "list_hits": 2, "mark_interfaces": 1}


@pytest.fixture(scope="module")
def compiled() -> list[dict[str, Any]]:
    if compile_ptx.compilers() is None:
        pytest.skip("nvidia-cuda-nvcc-cu12, which has the compilers, is not made for this platform")
    return compile_ptx.compiled()


def test_every_kernel_compiles_for_both_generations(compiled: list[dict[str, Any]]) -> None:
    assert {(one["kernel"], one["sm"]) for one in compiled} == {(k, sm) for k in ATOMICS for sm in ("sm_80", "sm_90")}
    for one in compiled:
        assert f".target {one['sm']}" in one["ptx"]
        assert one["ptx"].count(".visible .entry") == 1, one["kernel"]
        assert "Compiling entry function" in one["ptxas"]
        assert "0 bytes spill stores" in one["ptxas"], one["ptxas"]


def test_what_threads_share_is_added_to_by_atomics_of_32_bits(compiled: list[dict[str, Any]]) -> None:
    for one in compiled:
        atomics = one["ptx"].count("atom.global.add.u32")
        assert atomics >= ATOMICS[one["kernel"]], one["kernel"]
        assert (atomics == 0) == (one["kernel"] == "clear")
        assert one["ptx"].count("atom.") == atomics, "no loops of compare and swap"
