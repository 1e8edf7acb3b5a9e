"""Archive the classes of a JVM in one file, which a start maps instead of loading them all.

The first JVM that ends in order writes the archive for those after it. It fits one Java and one class path, of which
its name is a checksum: with others the JVM would load twenty thousand classes itself, without a warning.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from streaming.process.java import java

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # a JVM with options of its own may find that it does not fit


@dataclass(frozen=True)
class ClassArchive:
    """The archive for a class path of all jars in some directories, of which the first keeps it."""

    directories: Sequence[Path]

    def used(self) -> tuple[str, ...]:
        """Options for a JVM that uses the archive; none if there is none."""
        return (f"-XX:SharedArchiveFile={self._file}", *QUIET) if self.exists() else ()

    def used_or_written(self) -> tuple[str, ...]:
        """Options for a JVM that uses the archive, or else writes one at its end; none if it cannot."""
        return (f"-XX:ArchiveClassesAtExit={self._part}", *QUIET) if self.is_writable() else self.used()

    def exists(self) -> bool:
        return self._file.exists()

    def is_writable(self) -> bool:
        """Whether there is none, and one can be written."""
        return not self.exists() and os.access(self.directories[0], os.W_OK)

    def written_by(self, jvm: subprocess.Popen[bytes]) -> bool:
        """Whether it is a JVM that writes one at its end."""
        return any(str(self._part) in str(argument) for argument in cast("Sequence[object]", jvm.args))

    def keep(self) -> None:
        """Keep what a JVM with these options wrote, in place of all others. Call when it has ended."""
        if self._part.exists():
            self._part.replace(self._file)
            for other in self.directories[0].glob("classes*"):
                if other != self._file:
                    other.unlink(missing_ok=True)

    @cached_property
    def _file(self) -> Path:
        jars = [jar for directory in self.directories for jar in sorted(directory.glob("*.jar"))]
        stats = [(str(file), file.stat()) for file in (Path(java()).resolve(), *jars)]
        files = [(name, stat.st_size, int(stat.st_mtime)) for name, stat in stats]  # images of containers keep seconds
        return self.directories[0] / f"classes-{zlib.crc32(repr(files).encode()):08x}.jsa"

    @property
    def _part(self) -> Path:
        return self._file.with_suffix(f".{os.getpid()}.part")
