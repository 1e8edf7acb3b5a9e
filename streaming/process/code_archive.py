"""Our code with its compiled kernels in one zip archive: for spark-submit, and for the executors of a cluster.

Compiled code is found by the text it was made of and the processor it is for, so a process on a processor like ours
takes it as it is, and any other compiles its own, beside the sources that it unpacked. numba neither reads nor writes
kernels within an archive, so code is never run from there: executors unpack it where they work, a driver by `unpack`.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

NAME = "sluice-code"  # of the directory that it becomes, where an executor works
PACKAGES = ("commands", "config", "matchers", "offline", "streaming")
PAPERS = Path("matchers", "papers")  # the algorithms that no job gets by default
TAKEN = (".py", ".nbi", ".nbc", ".css", ".js", ".properties")  # the second and third are numba's


def make(code: Path, path: Path, *, papers: bool = False) -> Path:
    """Write an archive of the packages in `code` to `path`, which it returns; `papers`: with PAPERS. Raises OSError.

    The library that pip has installed lies beside the package that `code` is in.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            home = code if (code / package).exists() else code.parents[1]
            for file in sorted((home / package).rglob("*")):
                if file.suffix in TAKEN and (papers or home / PAPERS not in file.parents):
                    archive.writestr(file.relative_to(home).as_posix(), file.read_bytes())
    return path


@cache
def unpack() -> None:
    """Import what is not imported yet from a directory, if this module comes from an archive, as it does under
    `spark-submit --py-files sluice.zip`. Call first. The directory is deleted when the process ends. Raises OSError.
    """
    archive = Path(__file__).parents[2]
    if not archive.is_file():
        return
    directory = Path(tempfile.mkdtemp(prefix=f"{NAME}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with zipfile.ZipFile(archive) as content:
        content.extractall(directory)
    sys.path.insert(0, str(directory))
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in PACKAGES and hasattr(module, "__path__"):
            module.__path__ = [str(directory.joinpath(*name.split(".")))]
