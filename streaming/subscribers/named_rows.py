"""Named rows with columns of numbers: a million rows without an object each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int64
from matchers.index.texts import Bools, Texts
from streaming.publishing.encode.interner import Interner

FIRST_ROWS = 64


class NamedRows:
    """A name gets a row, of zeros, at its first use. The numbers of rows stay until `keep`."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        """`columns` are types of numpy, by name."""
        self._names = Interner()
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(FIRST_ROWS, kind) for name, kind in columns.items()}

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> Texts:
        return self._names.names

    def __getitem__(self, column: str) -> NDArray[Any]:
        """The numbers of all rows, to read and to write. Take it anew after `rows` and `keep`."""
        return self._columns[column][: len(self)]

    def rows(self, names: Texts) -> Int64:
        """The row of each name."""
        rows = self._names.numbers(names)
        if len(self) > (length := len(next(iter(self._columns.values())))):
            for name, column in self._columns.items():
                self._columns[name] = np.zeros(max(len(self), 2 * length), column.dtype)
                self._columns[name][:length] = column
        return rows

    def keep(self, kept: Bools) -> Int64:
        """Forget all rows but these; returns the new row of each old one, or -1."""
        names = self.names.take(np.flatnonzero(kept))
        columns = {name: self[name][kept] for name in self._columns}
        self._names = Interner()
        self._names.numbers(names)
        for name, column in columns.items():
            self._columns[name] = np.concatenate([column, np.zeros(FIRST_ROWS, column.dtype)])
        return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int64)
