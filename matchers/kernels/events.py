"""The events of a batch, as kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Events(NamedTuple):
    """N events with V values. Event e owns column, value [offsets[e] : offsets[e + 1]], ascending by column."""

    offsets: Any  # [N + 1] int64
    column: Any  # [V] int32
    value: Any  # [V] float64
