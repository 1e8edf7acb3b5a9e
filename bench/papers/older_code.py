"""List the CSV files that have measurements of older code, each with the algorithms that have changed since."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.papers import tables
from bench.papers.code_version import COLUMN, HOME, code_version


def report(directory: Path) -> str:
    """A line for each file of a directory that has some."""
    lines = []
    for file in sorted(directory.glob("*.csv")):
        rows = [row for row in tables.read(file) if COLUMN in row and "algorithm" in row and not row["left_out"]]
        if older := {row["algorithm"] for row in rows if row[COLUMN] != code_version(row["algorithm"])}:
            lines.append(f"{file.name}: {', '.join(sorted(older))}\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report(HOME / "docs" / "papers"))
