"""Continue a CSV file of measurements: what it has of the same code is not measured again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.papers import tables
from bench.papers.code_version import COLUMN, code_version_of_all


class ContinuedFile:
    """The rows of a file, or without one those of this run. A row without a version is of older code."""

    def __init__(self, file: Path | None, algorithms: Iterable[str]) -> None:
        """`algorithms` are all whose code a row depends on."""
        self._file, self._code = file, code_version_of_all(algorithms)
        self._rows: list[dict[str, Any]] = [{COLUMN: "", **row} for row in (tables.read(file) if file else ())]

    @property
    def current(self) -> list[dict[str, Any]]:
        """The rows of the present code."""
        return [row for row in self._rows if row[COLUMN] == self._code]

    @property
    def right(self) -> bool:
        """Whether all answers of the present code are."""
        return all(str(row["checked"]) == "True" for row in self.current)

    def has(self, point: Mapping[str, str]) -> bool:
        """Whether rows of the present code have these columns."""
        return any(point.items() <= row.items() for row in self.current)

    def replace(self, point: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of the present code, in place of all others that have these columns."""
        self._rows = [row for row in self._rows if not point.items() <= row.items()]
        self._rows += [{COLUMN: self._code, **row} for row in rows]
        if self._file and self._rows:
            tables.write_rows(self._file, self._rows)
