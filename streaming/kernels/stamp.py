"""Remember for which algorithms all kernels of a job lie in numba's cache.

A stamp lies in that cache, so it goes when the cache goes. It holds what the kernels depend on: their sources, numba
and the processor. A missing stamp costs a second, in which compiled kernels are only loaded; a wrong one costs what
there was before stamps: a kernel is compiled when it is first called.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

import matchers
from streaming import publishing
from streaming.publishing import crc32c

PACKAGES = (Path(matchers.__file__).parent, Path(publishing.__file__).parent)  # that have kernels


def is_compiled(algorithm: str) -> bool:
    """Whether a job with the algorithm has nothing left to compile. True as well where nothing can be kept."""
    directory = _cache()
    if directory is None:
        return True
    try:
        stamp = json.loads((directory / _name(algorithm)).read_bytes())
        return stamp["of"] == _fingerprint() and all(any(Path(at).glob("*.nbi")) for at in stamp["in"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def set_compiled(algorithm: str) -> None:
    """Call in a process that has called all of the kernels. Raises OSError."""
    directory = _cache()
    if directory is not None:
        stamp = {"of": _fingerprint(), "in": sorted({kernel.stats.cache_path for kernel in called()})}
        part = directory / f"{_name(algorithm)}.part"
        part.write_text(json.dumps(stamp))
        part.replace(directory / _name(algorithm))


def called() -> Iterator[Any]:
    """The cached kernels of ours that this process has called."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("matchers.", "streaming.")):
            for thing in vars(module).values():
                called = getattr(thing, "signatures", None) and thing.__module__ == name
                if called and thing.stats.cache_path is not None:
                    yield thing


def _cache() -> Path | None:
    """The directory of numba's cache for one of the kernels; None where nothing is compiled, or kept."""
    stats = getattr(crc32c.by_tables, "stats", None)
    return Path(stats.cache_path) if stats is not None and stats.cache_path is not None else None


def _name(algorithm: str) -> str:
    return f"compiled-{algorithm}.json"


@cache
def _fingerprint() -> str:
    found = hashlib.sha256()
    for package in PACKAGES:
        for file in sorted(package.rglob("*.py")):
            found.update(f"{file.relative_to(package)}\n".encode())
            found.update(file.read_bytes())
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    found.update(repr((sys.version, version("numba"), version("llvmlite"), processor)).encode())
    return found.hexdigest()
