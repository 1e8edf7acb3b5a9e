"""Check this machine: Java, jars, packages, directories and memory."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.checks import FAILURE, OK, SKIPPED, WARNING, Finding
from streaming.errors import JobError
from streaming.process.checkpoint import is_local
from streaming.process.jars import FETCH, pinned
from streaming.process.java import java

if TYPE_CHECKING:
    from config.model import Settings

OLDEST_JAVA = 17
OLDEST_PYTHON = (3, 11)
LITTLE_BYTES, NOTHING_BYTES = 1_000_000_000, 100_000_000  # of a disk's free space
PYTHON_BYTES = 1_000_000_000  # of memory, for the driver's Python and its workers
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)(?: ; (.+?))?(?: \\)?$", re.MULTILINE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def findings(settings: Settings, home: Path) -> Iterator[Finding]:
    """Check the machine; `home` is the directory of the code, the jars and the lock."""
    yield python()
    yield packages(home / "requirements.lock")
    yield java_version()
    yield from jars(home / "config" / "ivy.xml", home / "jars")
    yield checkpoint(settings.query.checkpoint, settings.query.name)
    yield space("temporary files", Path(tempfile.gettempdir()), "Set TMPDIR to a directory with more space.")
    yield kernels(settings.matching.algorithm)
    yield memory(_driver_bytes(settings) if settings.spark.master.startswith("local") else None)


def python() -> Finding:
    version = sys.version.split()[0]
    if sys.version_info < OLDEST_PYTHON:
        remedy = "Install Python 3.11 or newer, and run `make PYTHON=python3.12 setup`."
        return Finding("python", FAILURE, version, remedy)
    return Finding("python", OK, version)


def packages(lock: Path) -> Finding:
    if not lock.exists():
        return Finding("packages", SKIPPED, f"{lock}, which pins them, does not exist")
    from packaging.markers import Marker  # packaging may be missing too

    wrong, count = [], 0
    for name, wanted, marker in _PINNED.findall(lock.read_text()):
        if marker and not Marker(marker).evaluate():
            continue
        count += 1
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
        else:
            if installed != wanted:
                wrong.append(f"{name} is {installed}, not {wanted}")
    if not wrong:
        return Finding("packages", OK, f"all {count} have the versions of {lock.name}")
    state = FAILURE if any(text.endswith("missing") for text in wrong) else WARNING
    remedy = f"Run `make setup`, which installs the versions of {lock.name}."
    return Finding("packages", state, ", ".join(wrong), remedy)


def java_version() -> Finding:
    try:
        output = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
    except (JobError, OSError) as error:
        return Finding("java", FAILURE, str(error), f"Install Java {OLDEST_JAVA} or newer.")
    match = re.search(r'version "(?:1\.)?(\d+)[^"]*"', output)
    if match is None:
        return Finding("java", WARNING, f"unknown version: {output.strip()[:200]!r}")
    if int(match[1]) < OLDEST_JAVA:
        remedy = f"Install Java {OLDEST_JAVA} or newer, and put it first on the PATH."
        return Finding("java", FAILURE, match[0], remedy)
    return Finding("java", OK, match[0])


def jars(pins: Path, directory: Path) -> Iterator[Finding]:
    for conf, missing_is, why in (
        ("spark", FAILURE, "Spark's Kafka source"),
        ("broker", WARNING, "the embedded Kafka, which `broker`, the demo and the tests need"),
    ):
        there = {path.name for path in (directory / conf).glob("*.jar")}
        missing = [jar for of, jar in pinned(pins) if of == conf and jar not in there]
        what = f"jars of {conf}"
        if missing:
            problem = f"{directory / conf} lacks {', '.join(missing)}, for {why}"
            yield Finding(what, missing_is, problem, f"Run {FETCH}.")
        else:
            yield Finding(what, OK, f"{len(there)} in {directory / conf}")


def checkpoint(location: str, query: str) -> Finding:
    if not is_local(location):
        return Finding("checkpoint", SKIPPED, f"{location} is not on this machine")
    directory = Path(location).resolve()
    there = _nearest(directory)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        remedy = f"Allow user {os.getuid()} to write there, or set query.checkpoint."
        return Finding("checkpoint", FAILURE, f"{there} cannot be written", remedy)
    owner = directory / "query.json"
    try:
        other = json.loads(owner.read_text())["query"] if owner.exists() else query
    except (OSError, ValueError, KeyError, TypeError):
        return Finding("checkpoint", FAILURE, f"{owner} cannot be read", "Set query.checkpoint to another directory.")
    if other != query:
        remedy = f"Set another query.checkpoint, or query.name = {other!r}."
        return Finding("checkpoint", FAILURE, f"{directory} belongs to the query {other!r}, not to {query!r}", remedy)
    if directory.exists() and stat.S_IMODE(directory.stat().st_mode) & 0o022:
        problem = f"{directory} can be written by other users, who could change the state of the job"
        return Finding("checkpoint", WARNING, problem, f"chmod 700 {directory}")
    return space("checkpoint", directory, "Free space, or set query.checkpoint.")


def space(what: str, directory: Path, remedy: str) -> Finding:
    """Check the free space on the disk of a directory, which need not exist."""
    there = _nearest(directory)
    free = shutil.disk_usage(there).free
    made = "" if there == directory else " (does not exist yet)"
    text = f"{directory}{made}: {free / 1e9:,.1f} GB free"
    if free >= LITTLE_BYTES:
        return Finding(what, OK, text)
    return Finding(what, FAILURE if free < NOTHING_BYTES else WARNING, text, remedy)


def kernels(algorithm: str) -> Finding:
    """Check whether compiled kernels are stored for later processes, and where."""
    try:
        from matchers import ALGORITHMS  # this loads numba, which takes a second that no other command needs
        from streaming.precompile import kernels, marker
    except ImportError as error:
        return Finding("compiled kernels", SKIPPED, str(error))
    places = {kernel._cache.places for kernel in marker.kernels()}
    written = sorted(place.write for place in places if place.write is not None)
    modules = "__pycache__ of each module"
    where = ", ".join(dict.fromkeys(modules if at.name == "__pycache__" else str(at.parent) for at in written))
    if not places:
        return Finding("compiled kernels", SKIPPED, "numba's settings in the environment turn the cache off")
    fleeting = sorted(place for place in places if place.write is None or place.is_temporary)
    if not fleeting:
        return Finding("compiled kernels", OK, f"stored in {where}")
    if algorithm in ALGORITHMS and kernels.is_lasting(algorithm):
        return Finding(
            "compiled kernels", OK, f"complete for {algorithm}, in {fleeting[0].read[0]} and similar directories"
        )
    kept = f"stored in {where} until the system empties it" if where else "not stored, so each process compiles them"
    remedy = "Set NUMBA_CACHE_DIR to a directory that the job's user can write."
    return Finding("compiled kernels", WARNING, f"{kept}; not writable: {'; '.join(fleeting[0].problems)}", remedy)


def memory(driver_bytes: int | None, source: Path = Path("/proc/meminfo")) -> Finding:
    """Compare the available memory with that of Spark's driver; None if the driver runs elsewhere."""
    match = re.search(r"^MemAvailable: +(\d+) kB$", source.read_text(), re.MULTILINE) if source.exists() else None
    if match is None or driver_bytes is None:
        why = "the memory of Spark's driver is unknown" if match else "this system does not report available memory"
        return Finding("memory", SKIPPED, why)
    available = int(match[1]) * 1024
    text = f"{available / 1e9:.1f} GB available; spark.driver.memory is {driver_bytes / 1e9:.1f} GB"
    if available >= driver_bytes + PYTHON_BYTES:
        return Finding("memory", OK, text)
    return Finding("memory", WARNING, text, "End other processes, or lower spark.driver.memory in spark.options.")


def read_ahead_kb(devices: Path = Path("/sys/block")) -> dict[str, int]:
    """Return Linux's read-ahead in kB by block device; empty where Linux does not list it."""
    files = devices.glob("*/queue/read_ahead_kb")
    return {file.parents[1].name: int(file.read_text()) for file in sorted(files)}


def _driver_bytes(settings: Settings) -> int | None:
    try:
        from streaming.driver.session import TUNING  # it needs pyspark, which may be missing
    except ImportError:
        return None
    return bytes_of({**TUNING, **settings.spark.options}["spark.driver.memory"])


def bytes_of(text: str) -> int | None:
    """A size as the JVM reads it: 2g, 512m. None if the JVM would reject it."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
    return int(match[1]) * _UNITS[match[2]] if match else None


def _nearest(path: Path) -> Path:
    """The nearest existing directory at or above a path."""
    # Not `Path.exists`, which raises an error below a directory that this user may not search.
    return next(ancestor for ancestor in (path, *path.parents) if os.path.exists(ancestor))
