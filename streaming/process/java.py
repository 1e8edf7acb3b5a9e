"""Find Java, where Spark does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from streaming.errors import JobError


def java() -> str:
    """The program of JAVA_HOME, else the first on the PATH. Raises JobError."""
    if home := os.environ.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        if not program.exists():
            raise JobError(
                f"JAVA_HOME = {home} has no bin/java; unset it, or set it to the directory of Java 17 or newer"
            )
        return str(program)
    path = shutil.which("java")
    if path is None:
        raise JobError("no java on the PATH, and JAVA_HOME is not set; install Java 17 or newer")
    return path
