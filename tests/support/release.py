"""Copy the code into another directory, as another version of Sluice."""

from __future__ import annotations

import shutil
from pathlib import Path

from streaming.process.code_archive import PACKAGES
from streaming.version import VERSION

HOME = Path(__file__).resolve().parents[2]


def release(home: Path, version: str) -> None:
    """Make the directory, from which `run_stream.py` runs."""
    home.mkdir()
    for package in PACKAGES:  # with its compiled kernels, which know their sources by the time of change
        shutil.copytree(HOME / package, home / package, ignore=shutil.ignore_patterns("papers"))
    shutil.copy2(HOME / "run_stream.py", home)
    shutil.copytree(HOME / "jars" / "spark", home / "jars" / "spark", ignore=shutil.ignore_patterns("classes*"))
    module = home / "streaming" / "version.py"
    module.write_text(module.read_text().replace(f'"{VERSION}"', f'"{version}"'))
