"""A small file system that a test fills, or makes read-only."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from streaming.errors import JobError

CLOSED_WITHIN_S = 20.0
CHUNK = 1 << 16  # bytes; a write that does not fit takes what does


class Disk:
    """A file system of its own, of so many MB, where this machine lets us mount one; else a directory."""

    def __init__(self, path: Path, mb: int) -> None:
        self.path = path
        self.mb = mb
        self.mounted = False

    def __enter__(self) -> Disk:
        self.path.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.mb}m", "tmpfs", str(self.path)]
        try:
            self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            self.mounted = False
        return self

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def fill(self) -> None:
        with (self.path / "filled").open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * CHUNK):
                    pass
            except OSError:
                return

    def free(self) -> None:
        (self.path / "filled").unlink()

    def writable(self, yes: bool) -> None:
        """Let the file system be written to, or only read, once no file is open for writing."""
        how = ["mount", "-o", f"remount,bind,{'rw' if yes else 'ro'}", str(self.path)]
        deadline = time.monotonic() + CLOSED_WITHIN_S
        while (done := subprocess.run(how, capture_output=True, check=False, text=True)).returncode:
            if time.monotonic() > deadline:
                raise JobError(done.stderr)
            time.sleep(0.05)  # processes that were killed may still close theirs
