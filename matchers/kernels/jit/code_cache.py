"""Keep compiled kernels on disk, where a later process of this user finds them.

    NUMBA_CACHE_DIR, if it is set       no other directory then
    otherwise, in this order:
      __pycache__ beside the sources    trusted as the sources are
      ~/.cache/numba                    numba's own directory of a user
      TMPDIR/sluice-kernels-UID         made with mode 0700

Kernels are read from all of these up to the first that can be written, which gets the new ones. So an installation
that cannot be written is used as far as it was compiled. Where nothing can be written, kernels are compiled and not
kept, and the process warns once; numba itself ends the import with an error. A compiled kernel is machine code, so a
directory that another user could have written is neither read nor written.

An index per kernel, named and written as numba does (numba.core.caching), has the file of each compiled signature. A
file is written before the index names it, and no two pieces of code ever have one name. So a full disk, a kill and
another process that compiles meanwhile cost a compilation at most: numba writes the index first and takes the next free
number, and code may then stand under the signature of other code.
"""

from __future__ import annotations

import glob
import inspect
import os
import stat
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba.core import caching
from numba.misc.appdirs import AppDirs

from matchers.kernels.jit.dependencies import fields_of, fingerprint

_SETTINGS: Any = numba.config  # numba sets them when it is imported
_NAMED = Path(_SETTINGS.CACHE_DIR).absolute() if _SETTINGS.CACHE_DIR else None
_numba: Any = caching
_user_directory: Any = AppDirs
_warned: list[str] = []  # what this process has warned of; forked processes inherit it

REMEDY = "set NUMBA_CACHE_DIR to a directory that this user can write"


class CacheDirectories(NamedTuple):
    """The directories for kernels whose sources lie in one directory."""

    read: tuple[Path, ...]  # in this order
    write: Path | None  # the last of `read`; None if none can be written
    is_temporary: bool  # `write` is: the system may empty it
    problems: tuple[str, ...]  # of the directories that cannot be written, each with the reason


class _Anywhere(_numba.InTreeCacheLocator):  # type: ignore[misc]  # numba has no types
    """Identifies a kernel by its source, whether or not its directory can be written."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Anywhere:
        return cls(function, file)


class _Format(_numba.CompileResultCacheImpl):  # type: ignore[misc]  # numba has no types
    _locator_classes = (_numba.ZipCacheLocator, _Anywhere)


class _IndexFile(_numba.IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """The index of a kernel's code, and the code. Files that cannot be understood count as absent: a crash of the
    system cut them short, or they name a type that another version of this program has (numba reads the whole index
    before it looks at its stamp)."""

    def save(self, key: Any, data: Any) -> None:
        """Keep code. Raises OSError."""
        index = self._load_index()
        if not index:
            self._delete_code()
        name = index.get(key) or f"{self._kernel}.{uuid.uuid4().hex[:16]}.nbc"
        self._save_data(name, data)
        if key not in index:
            self._save_index({**index, key: name})

    @property
    def _kernel(self) -> str:
        return Path(self._index_name).stem

    def _delete_code(self) -> None:
        """Delete the code of other sources. A process that has written some and not yet the index compiles again."""
        for file in Path(self._cache_path).glob(f"{glob.escape(self._kernel)}.*.nbc"):
            file.unlink(missing_ok=True)

    def _load_index(self) -> Any:
        return _understood(super()._load_index) or {}

    def _load_data(self, name: str) -> Any:
        return _understood(partial(super()._load_data, name))


def _understood(read: Callable[[], Any]) -> Any:
    """The contents of a file, None if it has others. Raises OSError."""
    try:
        return read()
    except OSError:
        raise
    except Exception:  # pickle raises any
        return None


class CodeCache(_numba.FunctionCache):  # type: ignore[misc]  # numba has no types
    """The compiled code of one kernel, in place of numba's cache."""

    _impl_class = _Format

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._sources = Path(inspect.getfile(function)).absolute().parent

    @cached_property
    def places(self) -> CacheDirectories:
        """Determined at the first use, so an import touches no directory."""
        return places(self._sources)

    @property
    def cache_path(self) -> str | None:
        return None if self.places.write is None else str(self.places.write)

    def directories(self) -> Iterator[Path]:
        """The directories with code of this kernel, for whatever types of its arguments."""
        for directory, file in zip(self.places.read, self._files, strict=True):
            with suppress(OSError):
                if file._load_index():
                    yield directory

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        """numba's key, with the fields of named tuples: it knows these by their names, and compiles positions."""
        return *super()._index_key(signature, codegen), tuple(fields_of(signature))

    def _load_overload(self, signature: Any, target: Any) -> Any:
        key = self._index_key(signature, target.codegen())
        for file in self._files:
            with suppress(OSError):  # it is there for another user
                if (code := file.load(key)) is not None:
                    return self._impl.rebuild(target, code)
        return None

    def _save_overload(self, signature: Any, compiled: Any) -> None:
        if not self._impl.check_cachable(compiled):
            return
        problems = "; ".join(self.places.problems)
        try:
            if self.places.write is None:
                raise OSError(problems)
            _make(self.places.write)
            self._files[-1].save(self._index_key(signature, compiled.codegen), self._impl.reduce(compiled))
        except OSError as error:
            _warn(f"compiled kernels are not kept, each process compiles them again: {error}; {REMEDY}")
        else:
            if self.places.is_temporary:
                root = self.places.write.parent
                kept = f"compiled kernels are kept in {root} until the system empties it"
                _warn(f"{kept}; not writable: {problems}; {REMEDY}")

    @cached_property
    def _files(self) -> list[Any]:
        stamp = self._impl.locator.get_source_stamp(), fingerprint(self._py_func)
        return [_IndexFile(str(at), self._impl.filename_base, stamp) for at in self.places.read]


@cache
def places(sources: Path) -> CacheDirectories:
    """The directories for the kernels of a directory of sources; makes the one to write."""
    name = _numba.InTreeCacheLocator.get_suitable_cache_subpath(str(sources / "kernel.py"))
    read, problems = [], []
    for root in [_NAMED] if _NAMED else [sources, _user(), _temporary()]:
        if root is None:
            continue
        directory = sources / "__pycache__" if root is sources else root / name
        try:
            _reject_foreign(root)
            read.append(directory)
            _make(directory)
        except OSError as error:
            problems.append(f"{directory if root is sources else root}: {error.strerror or error}")
        else:
            return CacheDirectories(tuple(read), directory, root == _temporary(), tuple(problems))
    return CacheDirectories(tuple(read), None, False, tuple(problems))


def _user() -> Path | None:
    path = Path(_user_directory(appname="numba", appauthor=False).user_cache_dir)
    return path if path.is_absolute() else None  # a user without a home


def _temporary() -> Path | None:
    if sys.platform == "win32":  # its users have no numbers, and no modes of directories
        return None
    with suppress(OSError):
        return Path(tempfile.gettempdir()) / f"sluice-kernels-{os.getuid()}"
    return None


def _reject_foreign(root: Path) -> None:
    """Make the temporary one. Raises OSError if another user could have written what is in a directory of this user."""
    if sys.platform == "win32":
        return
    if root == _temporary():
        _reject_replaceable(root.parent)
        with suppress(FileExistsError):
            root.mkdir(0o700)
        found, forbidden = root.lstat(), 0o077
    elif root == _user() and root.exists():
        found, forbidden = root.stat(), 0o002
    else:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise OSError("it is no directory")
    if found.st_uid != os.getuid():
        raise OSError(f"it belongs to user {found.st_uid}")
    if found.st_mode & forbidden:
        raise OSError(f"its mode is {stat.S_IMODE(found.st_mode):04o}, so it may have files of other users")


def _reject_replaceable(directory: Path) -> None:
    """Raises OSError if another user could replace what is in a directory."""
    found = directory.stat()
    if found.st_uid not in (0, os.getuid()):
        raise OSError(f"{directory} belongs to user {found.st_uid}")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise OSError(f"{directory} can be written by other users and has no sticky bit")


def _make(directory: Path) -> None:
    """Make a directory, or make sure that it can be written. Raises OSError."""
    _reject_foreign(directory.parent)
    directory.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=directory).close()


def _warn(text: str) -> None:
    if not _warned:
        _warned.append(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)
