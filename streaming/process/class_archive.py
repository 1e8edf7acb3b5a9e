"""Archive the classes of a JVM in one file, which a start maps instead of loading them all.

The first JVM that ends in order writes the archive for those after it. It fits one Java version and one class path;
where it does not, the JVM goes on without.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # that it does not fit is no news


@dataclass(frozen=True)
class ClassArchive:
    """The archive for a class path of jars, which is kept in their directory."""

    jars: Path

    def used(self) -> tuple[str, ...]:
        """Options for a JVM that uses the archive; none if there is none."""
        return (f"-XX:SharedArchiveFile={self._file}", *QUIET) if self.exists() else ()

    def used_or_written(self) -> tuple[str, ...]:
        """Options for a JVM that uses the archive, or else writes one at its end; none if it cannot."""
        if self.exists():
            return self.used()
        return (f"-XX:ArchiveClassesAtExit={self._part}", *QUIET) if os.access(self.jars, os.W_OK) else ()

    def exists(self) -> bool:
        return self._file.exists()

    def written_by(self, jvm: subprocess.Popen[bytes]) -> bool:
        """Whether it is a JVM that writes one at its end."""
        return any(str(self._part) in str(argument) for argument in cast("Sequence[object]", jvm.args))

    def keep(self) -> None:
        """Keep what a JVM with these options wrote. Call when it has ended."""
        if self._part.exists():
            self._part.replace(self._file)

    @property
    def _file(self) -> Path:
        return self.jars / "classes.jsa"

    @property
    def _part(self) -> Path:
        return self.jars / f"classes-{os.getpid()}.part"
