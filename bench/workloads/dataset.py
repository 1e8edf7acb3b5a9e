"""Read real events from a text file, a row each: numbers separated by blanks or commas, scaled to [0, 1] per column."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from bench.errors import BenchError
from matchers.contract.tables import Float64


@cache
def read(file: Path) -> Float64:
    """Read a dataset, [rows, columns]. Raises BenchError."""
    try:
        with file.open(encoding="utf-8") as stream:
            lines = [line.replace(",", " ") for line in stream if line.strip()]
        rows = np.loadtxt(lines or ["nan"], ndmin=2)
    except OSError as error:
        raise BenchError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BenchError(f"{file}: not rows of as many numbers each: {error}") from None
    if not np.isfinite(rows).all():
        raise BenchError(f"{file}: {'a value is not finite' if lines else 'holds no rows'}")
    least, most = rows.min(axis=0), rows.max(axis=0)
    scaled: Float64 = (rows - least) / np.where(most > least, most - least, 1.0)
    return scaled
