"""Set the clocks of the job's Python processes ahead or back while they run."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from tests.faults.clock.hook.sitecustomize import DRIVER, FILE, WORKERS

ROLES = (DRIVER, WORKERS)


class Clocks:
    """Processes with this `environment` read the seconds that their clock is ahead from a file, each time that they
    look at it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(bytes(8 * len(ROLES)))
        hook = Path(__file__).parent / "hook"
        self.environment: Mapping[str, str] = {FILE: str(file), "PYTHONPATH": str(hook)}

    def set(self, role: int, ahead_s: float) -> None:
        """Set the clock of the driver or of the workers this far ahead of the machine's."""
        with self._file.open("r+b") as file:
            file.seek(8 * role)
            file.write(struct.pack("<d", ahead_s))
