"""Compile the kernels of `ccm` for GPUs that are not there: PTX by numba and NVVM, machine code by ptxas.

    python -m tests.support.programs.compile_ptx      prints, for each kernel and generation, what a thread of it takes

The compilers come in a package of NVIDIA's, without a driver. numba looks for NVVM when it starts, and its simulator
must be off, so all of this runs in a process of its own (`environment`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

CAPABILITIES = ((8, 0), (9, 0))  # of the A100 and the H100


def compilers() -> Path | None:
    """The directory of NVIDIA's package, if it is installed."""
    try:
        package = find_spec("nvidia.cuda_nvcc")
    except ModuleNotFoundError:
        return None
    return Path(next(iter(package.submodule_search_locations or []))) if package else None


def environment(directory: Path) -> dict[str, str]:
    """Return an environment in which numba finds NVVM. CUDA_HOME is not enough: numba looks there for names with a
    version, which the package lacks; the system's loader finds them without."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "CUDA_"))}
    return others | {"CUDA_HOME": str(directory), "LD_LIBRARY_PATH": str(directory / "nvvm" / "lib64")}


def kernels() -> list[dict[str, Any]]:
    """Return for each kernel and generation: kernel, sm, ptx, and the report of ptxas. Raises what the compilers
    raise."""
    directory = compilers()
    assert directory is not None
    from numba import config, cuda
    from numba.cuda import dispatcher

    from matchers.papers.ccm import kernel

    found = []
    for capability in CAPABILITIES:

        class Device:
            compute_capability = capability

        dispatcher.get_current_device = lambda device=Device: device  # asked when a kernel calls a function
        # Otherwise numba asks CUDA's runtime library, which the package lacks.
        config.FORCE_CUDA_CC = capability  # type: ignore[attr-defined]
        for name, types in _signatures().items():
            ptx, _ = cuda.compile_ptx(getattr(kernel, name).py_func, types, cc=capability)
            sm = "sm_{}{}".format(*capability)
            found.append({"kernel": name, "sm": sm, "ptx": ptx, "ptxas": _assembled(directory, sm, ptx)})
    return found


def _signatures() -> dict[str, tuple[Any, ...]]:
    """The kernels, each with the types of the arguments with which `ccm` launches it."""
    from unittest.mock import patch

    import numba

    from matchers import EventBatch, Interfaces, SubscriptionTable
    from matchers.papers import ccm
    from matchers.papers.ccm import device
    from tests.support.doubles.simulated_gpu import DeviceArray, Gpu

    gpu, typeof = Gpu(0), cast(Any, numba.typeof)
    found: dict[str, tuple[Any, ...]] = {}

    class Launch:
        def __init__(self, name: str) -> None:
            self.name = name

        def __getitem__(self, _: Any) -> Any:
            return self

        def __call__(self, *arguments: Any) -> None:
            found[self.name] = tuple(typeof(a.memory if isinstance(a, DeviceArray) else a) for a in arguments)

    table = SubscriptionTable.from_intervals([0], [0], [1.0], [2.0], n_subscriptions=1, n_columns=1)
    events, interfaces = EventBatch.from_dense([[1.0]]), Interfaces.from_ids([0], 1)
    launches: dict[str, Any] = {name: Launch(name) for name in ("clear", "select")}
    with patch.multiple(device, cuda=gpu, **launches), patch.object(ccm, "gpu", lambda: "a compiler alone"):
        chunked = ccm.build(table, events=1)._device
        hits = device._Hits(1)
        marks = device._Marks(gpu.to_device(interfaces.of), interfaces.of, (1, 1))
        for result, name in ((hits, "list_hits"), (marks, "mark_interfaces")):
            with patch.object(type(result), "evaluate", Launch(name)):
                chunked.chunks[0].begin(events, 0, 1, result)
    return found


def _assembled(directory: Path, sm: str, ptx: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "ptx").write_text(ptx)
        command = [f"{directory}/bin/ptxas", "--verbose", f"--gpu-name={sm}", "--output-file", "out", "ptx"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stderr


def compiled() -> list[dict[str, Any]]:
    """Return what `kernels` returns, from a process that runs in `environment`. Raises RuntimeError with its output."""
    directory = compilers()
    assert directory is not None
    code = "import json; from tests.support.programs import compile_ptx; print(json.dumps(compile_ptx.kernels()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(directory),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return list(json.loads(done.stdout))


def main() -> None:
    for one in compiled():
        (registers,) = re.findall(r"Used (\d+) registers", one["ptxas"])
        (spilled,) = re.findall(r"(\d+) bytes spill stores", one["ptxas"])
        print(f"{one['sm']} {one['kernel']:16} {registers} registers, {spilled} bytes spilled")


if __name__ == "__main__":
    main()
