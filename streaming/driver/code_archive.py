"""Pack our code with its compiled kernels into one archive for the executors of a cluster.

Compiled code is found by the text it was made of and the processor it is for, so an executor on a processor like ours
takes it as it is, and any other compiles its own, beside the sources that it unpacked.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

NAME = "sluice-code"  # of the directory that it becomes, where an executor works
PACKAGES = ("matchers", "streaming")
TAKEN = (".py", ".nbi", ".nbc")  # the latter two are numba's


def make(code: Path, directory: Path) -> Path:
    """Write an archive of the packages in `code` to `directory`. Raises OSError."""
    path = directory / f"{NAME}.tar"
    with tarfile.open(path, "w") as archive:
        for package in PACKAGES:
            for file in sorted((code / package).rglob("*")):
                if file.suffix in TAKEN:
                    content = file.read_bytes()  # at once: others may be compiling, and replace it
                    entry = tarfile.TarInfo(file.relative_to(code).as_posix())
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    return path
