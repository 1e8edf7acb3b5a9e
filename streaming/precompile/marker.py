"""Remember for which algorithms all kernels of a job lie in the cache of compiled code.

A marker lies in that cache, so it goes when the cache goes; one in a directory that can only be read counts too. It
holds what the kernels depend on: their sources, numba and the processor. A missing marker costs a second, in which
compiled kernels are only loaded; with a wrong one a kernel is compiled when it is first called.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import llvmlite.binding as llvm
from numba.core.dispatcher import Dispatcher

import matchers
from streaming import publishing, reading
from streaming.log import logger
from streaming.publishing.encode import crc32c

log = logger("sluice.job")

LOOK_EVERY_S = 0.1
PACKAGES = tuple(Path(*package.__path__) for package in (matchers, publishing, reading))  # that have kernels


def is_compiled(algorithm: str) -> bool:
    """Whether a job with the algorithm has nothing left to compile. True as well where nothing can be kept."""
    there = places()
    return there is None or there.write is None or any(_is_valid(at / _name(algorithm)) for at in there.read)


def is_lasting(algorithm: str) -> bool:
    """Whether all kernels of a job with the algorithm are compiled, in directories that nobody empties."""
    there = places()
    if there is None:
        return False
    lasting = there.read[:-1] if there.is_temporary else there.read
    return any(_is_valid(at / _name(algorithm)) for at in lasting)


def _is_valid(path: Path) -> bool:
    try:
        marker = json.loads(path.read_bytes())
        return marker["of"] == _fingerprint() and all(any(Path(at).glob("*.nbi")) for at in marker["in"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


@contextmanager
def alone(stop: threading.Event | None = None) -> Iterator[bool]:
    """Wait until no other process compiles into the same cache, and let others wait until the end. They find what was
    compiled meanwhile. Gives False if told to stop while it waits."""
    there = places()
    if there is None or there.write is None:
        yield True
        return
    with (there.write / "compiling.lock").open("a") as lock:
        yield _locked(lock, stop or threading.Event())


def _locked(lock: IO[str], stop: threading.Event) -> bool:
    is_waiting = False
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if not is_waiting:
            log.info("kernels_awaited", path=lock.name)
        is_waiting = True
        if stop.wait(LOOK_EVERY_S):
            return False


def set_compiled(algorithm: str) -> None:
    """Remember the kernels as compiled. Call in a process that has called all of them. Raises OSError."""
    there = places()
    if there is not None and there.write is not None:
        directories = {str(directory) for kernel in called() for directory in kernel._cache.directories()}
        marker = {"of": _fingerprint(), "in": sorted(directories)}
        part = there.write / f"{_name(algorithm)}.part"
        part.write_text(json.dumps(marker))
        part.replace(there.write / _name(algorithm))


def called() -> Iterator[Any]:
    """The cached kernels of ours that this process has called."""
    return (kernel for kernel in kernels() if kernel.signatures)


def kernels() -> Iterator[Any]:
    """The cached kernels of ours that this process has imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("matchers.", "streaming.")):
            things: Iterable[Any] = vars(module).values()
            for thing in things:
                if isinstance(thing, Dispatcher) and thing.__module__ == name and hasattr(_cache(thing), "places"):
                    yield thing


def places() -> Any:
    """The directories for one of the kernels (matchers/kernels/jit/code_cache.py); None where nothing is compiled."""
    return getattr(_cache(crc32c.by_tables), "places", None)


def _cache(kernel: Any) -> Any:
    return getattr(kernel, "_cache", None)


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
